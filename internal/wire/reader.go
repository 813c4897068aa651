package wire

import "encoding/binary"

// Reader takes values off a message until the first that is cut or impossible; from
// then on all are zero, and Done is false. The zero Reader is an empty message.
type Reader struct {
	rest   []byte
	failed bool
}

// NewReader reads b, which is not changed.
func NewReader(b []byte) *Reader { return &Reader{rest: b} }

// Fail says that what was read is impossible.
func (r *Reader) Fail() { r.rest, r.failed = nil, true }

// Failed reports whether something was cut or impossible.
func (r *Reader) Failed() bool { return r.failed }

// Done reports whether all was read, and nothing was cut or impossible.
func (r *Reader) Done() bool { return !r.failed && len(r.rest) == 0 }

// Len is how many bytes are left.
func (r *Reader) Len() int { return len(r.rest) }

// Rest is what is left.
func (r *Reader) Rest() []byte { return r.rest }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.rest) == 0 {
		r.Fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// Bool reads a byte that is 0 or 1.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.Fail()
	}
	return b == 1
}

// Uvarint reads an unsigned number.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Varint reads a signed number.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Uint64 reads eight bytes, little endian.
func (r *Reader) Uint64() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Uint32 reads four bytes, little endian.
func (r *Reader) Uint32() uint32 {
	if b := r.Bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// AtMost reads an unsigned number that is not above most.
func (r *Reader) AtMost(most uint64) uint64 {
	v := r.Uvarint()
	if v > most {
		r.Fail()
		return 0
	}
	return v
}

// Shortest reads an unsigned number that is not above most, and in its shortest form: for
// what must have one encoding only.
func (r *Reader) Shortest(most uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 1 && r.rest[n-1] == 0 || v > most {
		r.Fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Count reads the number of things that follow. It is at most the number of bytes that are left, so that it may size a list. A loop that
// reads them must end once Failed is true.
func (r *Reader) Count() int { return int(r.AtMost(uint64(len(r.rest)))) }

// Bytes reads n bytes, which are the message's own; nil after a failure.
func (r *Reader) Bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.Fail()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// Block reads bytes with their length before them, which are the message's own; nil after
// a failure.
func (r *Reader) Block() []byte { return r.Bytes(r.Count()) }

// Text reads a text of at most so many bytes, with its length before it.
func (r *Reader) Text(most int) string {
	n := r.AtMost(uint64(most))
	if n > uint64(len(r.rest)) {
		r.Fail()
		return ""
	}
	return string(r.Bytes(int(n)))
}
