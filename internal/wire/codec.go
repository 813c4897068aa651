package wire

import (
	"encoding/binary"
	"math"
)

// Codec writes the fields of a message, or reads them into the same variables. A type names its fields once, in their order, in a method
// that takes a Codec: so what is written and what is read can't differ. After a failure of the Reader all that is read is zero.
type Codec struct {
	b []byte  // what was written
	r *Reader // nil: it writes
}

// Append appends the fields that a function names to b.
func Append(b []byte, fields func(c *Codec)) []byte {
	c := Writing(b)
	fields(&c)
	return c.b
}

// Writing returns a Codec that appends fields to b.
func Writing(b []byte) Codec { return Codec{b: b} }

// Bytes are what was written.
func (c *Codec) Bytes() []byte { return c.b }

// Read reads the fields that a function names. r says whether it could.
func Read(r *Reader, fields func(c *Codec)) { fields(&Codec{r: r}) }

// Reads reports whether the fields are read.
func (c *Codec) Reads() bool { return c.r != nil }

// Failed reports whether what was read was cut or impossible.
func (c *Codec) Failed() bool { return c.r != nil && c.r.Failed() }

// Fail says that what was read is impossible.
func (c *Codec) Fail() {
	if c.r != nil {
		c.r.Fail()
	}
}

// Len is how many bytes are left to read.
func (c *Codec) Len() int { return c.r.Len() }

// Each is fields in their order: unsigned numbers, signed ones that are never below 0, bools, and texts of at most maxText bytes.
func (c *Codec) Each(fields ...any) {
	for _, f := range fields {
		switch v := f.(type) {
		case *uint64:
			c.Uvarints(v)
		case *int64:
			Number(c, v, math.MaxInt64)
		case *string:
			c.Text(v, maxText)
		case *bool:
			c.Bool(v)
		}
	}
}

// maxText is as long as the longest key, name or id.
const maxText = 512

// Byte is one byte.
func (c *Codec) Byte(v *byte) {
	if c.r == nil {
		c.b = append(c.b, *v)
		return
	}
	*v = c.r.Byte()
}

// Bool is a byte that is 0 or 1.
func (c *Codec) Bool(v *bool) {
	if c.r == nil {
		c.b = AppendBool(c.b, *v)
		return
	}
	*v = c.r.Bool()
}

// Flags are bools in one byte, the first in its lowest bit.
func (c *Codec) Flags(flags ...*bool) {
	if c.r == nil {
		var bits byte
		for i, is := range flags {
			if *is {
				bits |= 1 << i
			}
		}
		c.b = append(c.b, bits)
		return
	}
	bits := c.r.Byte()
	for i, is := range flags {
		*is = bits>>i&1 != 0
	}
	if bits>>len(flags) != 0 {
		c.r.Fail()
	}
}

// Uvarints are unsigned numbers.
func (c *Codec) Uvarints(numbers ...*uint64) {
	for _, v := range numbers {
		if c.r == nil {
			c.b = binary.AppendUvarint(c.b, *v)
		} else {
			*v = c.r.Uvarint()
		}
	}
}

// Varint is a signed number.
func (c *Codec) Varint(v *int64) {
	if c.r == nil {
		c.b = binary.AppendVarint(c.b, *v)
		return
	}
	*v = c.r.Varint()
}

// Uint64 is eight bytes, little endian.
func (c *Codec) Uint64(v *uint64) {
	if c.r == nil {
		c.b = binary.LittleEndian.AppendUint64(c.b, *v)
		return
	}
	*v = c.r.Uint64()
}

// Text is a text of at most so many bytes, with its length before it. A longer one is written as it is.
func (c *Codec) Text(v *string, most int) {
	if c.r == nil {
		c.b = AppendText(c.b, *v)
		return
	}
	*v = c.r.Text(most)
}

// Block is bytes with their length before them. What is read refers to the message.
func (c *Codec) Block(v *[]byte) {
	if c.r == nil {
		c.b = AppendBlock(c.b, *v)
		return
	}
	*v = c.r.Block()
}

// Raw is bytes of a length that both sides know, such as an array's.
func (c *Codec) Raw(v []byte) {
	if c.r == nil {
		c.b = append(c.b, v...)
		return
	}
	copy(v, c.r.Bytes(len(v)))
}

// Number is a number from 0 to most, as an unsigned one. A number below 0 is written as 0.
func Number[T ~int | ~int64 | ~uint64](c *Codec, v *T, most uint64) {
	if c.r == nil {
		c.b = binary.AppendUvarint(c.b, uint64(max(0, *v)))
		return
	}
	*v = T(c.r.AtMost(most))
}

// List is a number, and as many elements. It is at most so many, and no more than the bytes that are left: each takes one at least.
func List[T any](c *Codec, list *[]T, most uint64, fields func(one *T)) {
	n := uint64(len(*list))
	if Number(c, &n, most); c.r == nil {
		for i := range *list {
			fields(&(*list)[i])
		}
		return
	}
	if n > uint64(c.r.Len()) {
		c.r.Fail()
		n = 0
	}
	*list = make([]T, 0, min(n, 1024))
	for ; n > 0 && !c.r.Failed(); n-- {
		var one T
		fields(&one)
		*list = append(*list, one)
	}
}
