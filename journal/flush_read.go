package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/weir-counter/weir"
)

// errDamaged is wrapped by the error for bytes that were changed or cut.
var errDamaged = errors.New("damaged")

// maxPartitions is what no engine has more of.
const maxPartitions = 1 << 20

// maxNodeBytes bounds the name of a node.
const maxNodeBytes = 64

// openSealed checks the frame that all our bytes have: magic, version, content,
// CRC-32C of all before. It returns a reader of the content.
func openSealed(data []byte, magic, version byte, what string) (reader, error) {
	if len(data) < 2+sumBytes || data[0] != magic {
		return reader{}, fmt.Errorf("%w: not a %s", errDamaged, what)
	}
	body, sum := data[:len(data)-sumBytes], binary.LittleEndian.Uint32(data[len(data)-sumBytes:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return reader{}, fmt.Errorf("%w: checksum %08x, want %08x", errDamaged, got, sum)
	}
	if data[1] != version {
		return reader{}, fmt.Errorf("a %s in version %d: this build reads version %d", what, data[1], version)
	}
	return reader{rest: body[2:]}, nil
}

// decodePart reads and checks a part. Its batches refer to data.
func decodePart(data []byte) (part, error) {
	r, err := openSealed(data, flushMagic, flushVersion, "flush")
	if err != nil {
		return part{}, err
	}
	p := r.head()
	for range r.count() {
		p.batches = append(p.batches, r.batch(p.life))
	}
	p.receipts = r.receipts()
	if err := r.end(); err != nil {
		return part{}, err
	}
	return p, nil
}

// removes tells whether some batch of the part has a removal.
func (p part) removes() bool {
	return slices.ContainsFunc(p.batches, func(b batch) bool { return b.removes })
}

func (r *reader) head() part {
	p := part{life: life{origin: binary.LittleEndian.Uint64(r.take(8)), epoch: r.uvarint()}}
	p.flush, p.part = r.uvarint(), r.uvarint()
	flags := r.take(1)[0]
	p.last, p.leaving = flags&flagLast != 0, flags&flagLeaving != 0
	p.node = string(r.take(r.uvarint()))
	p.at = int64(r.uvarint())
	if flags > flagLast|flagLeaving || len(p.node) > maxNodeBytes || p.at < 0 {
		r.fail()
	}
	return p
}

// reader takes values off rest until the first that is cut or impossible.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) fail() {
	r.failed, r.rest = true, nil
}

// end tells whether all was read, and nothing was cut or impossible.
func (r *reader) end() error {
	if r.failed || len(r.rest) > 0 {
		return fmt.Errorf("%w: its checksum is right, its content is not", errDamaged)
	}
	return nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads the number of things that follow, each of at least a byte.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return 0
	}
	return n
}

// take returns the next n bytes; after a failure, zeros in place of fixed ones.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail()
		return make([]byte, min(n, 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) receipts() (list [][]byte) {
	for range r.count() {
		list = append(list, append([]byte(nil), r.take(r.uvarint())...))
	}
	return list
}

func (r *reader) batch(l life) batch {
	start := r.rest
	head := r.uvarint()
	partition := head >> 1
	b := batch{partition: int(partition), kind: head & 1, seq: r.uvarint(), total: r.uvarint()}
	b.entries = r.take(r.uvarint())
	if r.failed {
		return b
	}
	sum := l.sum(start[:len(start)-len(r.rest)])
	if binary.LittleEndian.Uint32(r.take(sumBytes)) != sum || partition >= maxPartitions || !b.check() {
		r.fail()
	}
	return b
}

func (e *reader) checkKey(key []byte) {
	if len(key) == 0 || len(key) > weir.MaxKeyBytes {
		e.fail()
	}
}
