package denials

import (
	"math/bits"
	"math/rand/v2"
	"strings"
)

// digits are those of IDs, without letters that look like digits (Crockford's base 32).
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

// idDigits are as many as 64 bits take.
const idDigits = 13

// codec makes IDs of places, which are numbers that go up from 0, and back. Its numbers are of one
// life of a process: those of another make places that are out of all reach. So an ID of a life before is
// not taken for one of this, and nobody reads from two of their own how many others had.
type codec struct {
	node          string // "" of a server alone
	times, undone uint64 // times*undone = 1, modulo 2^64
	with          uint64
}

func newCodec(node string) codec {
	c := codec{node: node, times: rand.Uint64() | 1, with: rand.Uint64()}
	c.undone = c.times
	for range 6 { // Newton's method: each step doubles the digits that are right, from 3
		c.undone *= 2 - c.times*c.undone
	}
	return c
}

// append appends the ID of a place: the node's name, a dash, and 13 digits.
func (c *codec) append(b []byte, place uint64) []byte {
	if c.node != "" {
		b = append(append(b, c.node...), '-')
	}
	n := bits.RotateLeft64(place*c.times, 32) ^ c.with
	for shift := 60; shift >= 0; shift -= 5 {
		b = append(b, digits[n>>shift&31])
	}
	return b
}

// place reads the digits of an ID.
func (c *codec) place(number string) (place uint64, ok bool) {
	if len(number) != idDigits {
		return 0, false
	}
	var n uint64
	for i := range len(number) {
		digit := strings.IndexByte(digits, number[i]|0x20)
		if number[i] <= '9' {
			digit = strings.IndexByte(digits, number[i])
		}
		if digit < 0 || n>>59 != 0 {
			return 0, false
		}
		n = n<<5 | uint64(digit)
	}
	return bits.RotateLeft64(n^c.with, -32) * c.undone, true
}

// Cut parts an ID into the name of the node that keeps the denial, "" of a server alone, and its
// digits.
func Cut(id string) (node, number string) {
	at := strings.LastIndexByte(id, '-')
	return id[:max(at, 0)], id[at+1:]
}
