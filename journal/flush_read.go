package journal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
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
	got, content, err := wire.Open(data, magic)
	switch {
	case errors.Is(err, wire.ErrOther):
		return reader{}, fmt.Errorf("%w: not a %s", errDamaged, what)
	case err != nil:
		return reader{}, fmt.Errorf("%w: %w", errDamaged, err)
	case got != version:
		return reader{}, fmt.Errorf("a %s in version %d: this build reads version %d", what, got, version)
	}
	return reader{content}, nil
}

// decodePart reads and checks a part. Its batches refer to data.
func decodePart(data []byte) (part, error) {
	version := byte(flushVersion)
	if len(data) > 1 && data[1] == restoredVersion {
		version = restoredVersion
	}
	r, err := openSealed(data, flushMagic, version, "flush")
	if err != nil {
		return part{}, err
	}
	p := r.head()
	p.restored = version == restoredVersion
	for range r.Count() {
		p.batches = append(p.batches, r.batch(p.life, kindBits(version)))
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
	p := part{life: life{origin: r.Uint64(), epoch: r.Uvarint()}}
	p.flush, p.part = r.Uvarint(), r.Uvarint()
	flags := r.Byte()
	p.last, p.leaving = flags&flagLast != 0, flags&flagLeaving != 0
	p.node = string(r.Block())
	p.at = int64(r.Uvarint())
	if flags > flagLast|flagLeaving || len(p.node) > maxNodeBytes || p.at < 0 {
		r.Fail()
	}
	return p
}

// reader reads bytes of the journal's.
type reader struct{ wire.Reader }

func newReader(b []byte) reader { return reader{*wire.NewReader(b)} }

// end tells whether all was read, and nothing was cut or impossible.
func (r *reader) end() error {
	if !r.Done() {
		return fmt.Errorf("%w: its checksum is right, its content is not", errDamaged)
	}
	return nil
}

func (r *reader) receipts() (list [][]byte) {
	for range r.Count() {
		list = append(list, append([]byte(nil), r.Block()...))
	}
	return list
}

func (r *reader) batch(l life, bits uint) batch {
	start := r.Rest()
	head := r.Uvarint()
	partition := head >> bits
	b := batch{partition: int(partition), kind: head & (1<<bits - 1), seq: r.Uvarint(), total: r.Uvarint()}
	b.entries = r.Block()
	if r.Failed() {
		return b
	}
	sum := l.sum(start[:len(start)-r.Len()])
	if r.Uint32() != sum || partition >= maxPartitions || !b.check() {
		r.Fail()
	}
	return b
}

func (e *reader) checkKey(key []byte) {
	if len(key) == 0 || len(key) > weir.MaxKeyBytes {
		e.Fail()
	}
}
