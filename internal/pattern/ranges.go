package pattern

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Ranges finds the most specific of many address ranges that holds an address. It does not change.
//
// The ends of all ranges cut the addresses into intervals. Each interval has one most specific range, so that a search for the
// interval is all a look-up does, however the ranges are nested. IPv4 addresses lie at ::ffff:0:0/96, and no range of IPv6
// holds them.
//
// Memory: 24 bytes for each interval, of which n ranges make 2n+3 at most, and 40 for each range.
type Ranges struct {
	from    []bits128 // where intervals begin, in order
	place   []int32   // of the most specific range, by interval; -1: none
	ranges  []netip.Prefix
	parents []int32 // the next larger range, by range; -1: none
}

// bits128 is an address as a number.
type bits128 struct{ hi, lo uint64 }

func number(a netip.Addr) bits128 {
	b := a.As16()
	return bits128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (a bits128) compare(b bits128) int {
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
}

// behind is the number after the last address of a range with so many bits; false: there is none.
func (a bits128) behind(bits int) (next bits128, ok bool) {
	if bits > 64 {
		next = bits128{a.hi, a.lo + 1<<(128-bits)}
		if next.lo < a.lo {
			next.hi++
		}
	} else {
		next = bits128{hi: a.hi + 1<<(64-bits)}
	}
	return next, next.compare(a) > 0
}

// bitsOf is how many of an address's 128 bits a prefix of it fixes.
func bitsOf(a netip.Addr, bits int) int {
	if a.Is4() {
		return bits + 96
	}
	return bits
}

// NewRanges makes a table of masked ranges, no two of which are the same.
func NewRanges(list []netip.Prefix) Ranges {
	r := Ranges{ranges: list, parents: make([]int32, len(list)), from: []bits128{{}}, place: []int32{-1}}
	type one struct {
		from  bits128
		bits  int
		place int32
	}
	all := []one{{number(netip.AddrFrom4([4]byte{})), 96, -1}} // no range of IPv6 reaches into these
	for i, p := range list {
		all = append(all, one{number(p.Addr()), bitsOf(p.Addr(), p.Bits()), int32(i)})
	}
	slices.SortStableFunc(all, func(a, b one) int { return cmp.Or(a.from.compare(b.from), cmp.Compare(a.bits, b.bits)) })
	open := []one{{place: -1}} // the ranges around, the smallest last
	begin := func(at bits128, place int32) {
		if last := len(r.from) - 1; r.from[last] == at {
			r.place[last] = place
			return
		}
		r.from, r.place = append(r.from, at), append(r.place, place)
	}
	leave := func(until func(next bits128) bool) {
		for len(open) > 1 {
			last := open[len(open)-1]
			next, ok := last.from.behind(last.bits)
			if !ok || !until(next) {
				return
			}
			open = open[:len(open)-1]
			begin(next, open[len(open)-1].place)
		}
	}
	for _, o := range all {
		leave(func(next bits128) bool { return next.compare(o.from) <= 0 })
		if o.place >= 0 {
			r.parents[o.place] = open[len(open)-1].place
		}
		open = append(open, o)
		begin(o.from, o.place)
	}
	leave(func(bits128) bool { return true })
	return r
}

// Find returns the place of the smallest range that holds a network of an address: so many bits of it. -1: none does.
//
// Cost: O(log(ranges)), and for a network the ranges inside it that hold its first address; no allocation.
func (r *Ranges) Find(a netip.Addr, bits int) int32 {
	n := number(a)
	at := 0 // the interval is from there on, in left of them
	for left := len(r.from); left > 1; {
		half := left / 2
		if f := r.from[at+half]; f.hi < n.hi || f.hi == n.hi && f.lo <= n.lo {
			at += half
		}
		left -= half
	}
	place := r.place[at]
	for bits = bitsOf(a, bits); place >= 0 && bitsOf(r.ranges[place].Addr(), r.ranges[place].Bits()) > bits; {
		place = r.parents[place]
	}
	return place
}

// ParseAddress reads an address as keys have it. It returns how many bits identify it: all, or fewer for a network such as
// 2001:db8::/64. The address may be in brackets, and have a zone or a port. IPv4 in IPv6 is IPv4.
func ParseAddress(text string) (a netip.Addr, bits int, ok bool) {
	text, network, isNetwork := strings.Cut(text, "/")
	if inside, after, closed := strings.Cut(strings.TrimPrefix(text, "["), "]"); closed && text[0] == '[' && (after == "" || after[0] == ':') {
		text = inside
	} else if strings.Count(text, ":") == 1 {
		text, _, _ = strings.Cut(text, ":")
	}
	text, _, zone := strings.Cut(text, "%")
	a, err := netip.ParseAddr(text)
	if err != nil || zone && a.Is4() {
		return a, 0, false
	}
	bits = a.BitLen()
	if isNetwork {
		if bits, err = strconv.Atoi(network); err != nil || bits < 0 || bits > a.BitLen() {
			return a, 0, false
		}
	}
	if a.Is4In6() && bits >= 96 {
		return a.Unmap(), bits - 96, true
	}
	return a, bits, true
}

// isAddress reports whether the wildcard at a place seems to be an address, by its name or by the word before it.
func (p *Pattern) isAddress(place int) bool {
	word, _ := strings.CutSuffix(p.literals[place], ":")
	word = word[strings.LastIndexAny(word, separators)+1:]
	return slices.Contains(addressNames, p.wild[place].name) || slices.Contains(addressNames, word)
}

// Address is the place of the one wildcard that is an address, by its name or by the word before it; -1: none, or several.
func (p *Pattern) Address() (place int) {
	place = -1
	for i := range p.wild {
		if !p.isAddress(i) {
			continue
		}
		if place >= 0 {
			return -1
		}
		place = i
	}
	return place
}

// Text is what the wildcard at a place took of a key.
func (c *Captures) Text(key string, place int) string { return key[c[place].from:c[place].to] }

// Pattern returns a pattern for the keys that the template makes of p. The wildcard at a place of p stands at another place there. ok is
// false if the template does not contain it, or if two wildcards adjoin.
func (t *Template) Pattern(p *Pattern, place int) (made Pattern, at int, ok bool) {
	if len(t.parts) == 0 {
		return *p, place, true
	}
	at = -1
	literal := ""
	for _, part := range t.parts {
		if part.place < 0 {
			literal = part.literal
			continue
		}
		if literal == "" && len(made.wild) > 0 || len(made.wild) == MaxWildcards {
			return made, -1, false
		}
		if part.place == place {
			at = len(made.wild)
		}
		made.literals, made.wild, literal = append(made.literals, literal), append(made.wild, p.wild[part.place]), ""
	}
	made.literals = append(made.literals, literal)
	return made, at, at >= 0
}
