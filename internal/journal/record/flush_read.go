package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/wire"
)

// ErrDamaged is wrapped by the error for bytes that were changed or cut.
var ErrDamaged = errors.New("damaged")

// MaxPartitions is what no engine has more of.
const MaxPartitions = 1 << 20

// MaxNodeBytes bounds the name of a node.
const MaxNodeBytes = 64

// openSealed checks the frame that all our bytes have: magic, version, content,
// CRC-32C of all before. It returns a reader of the content.
func openSealed(data []byte, magic byte, what string, known byte) (r reader, err error) {
	version, content, err := wire.Open(data, magic)
	switch {
	case errors.Is(err, wire.ErrOther):
		return r, fmt.Errorf("%w: not a %s", ErrDamaged, what)
	case err != nil:
		return r, fmt.Errorf("%w: %w", ErrDamaged, err)
	case version != known && version != known-1:
		return r, fmt.Errorf("a %s in version %d: this build reads versions %d and %d: %w", what, version, known-1, known, wire.ErrVersion)
	}
	return reader{content, version < known}, nil
}

// DecodePart reads and checks a part. Its batches refer to data. A part that is sound and of
// a build with more kinds of batches than this one is refused, and is not ErrDamaged.
func DecodePart(data []byte) (Part, error) {
	r, err := openSealed(data, flushMagic, "flush", flushVersion)
	if err != nil {
		return Part{}, err
	}
	p := r.head()
	n, life := r.Count(), p.Incarnation.seed()
	p.Batches = slices.Grow(p.Batches, min(n, r.Len()/minBatchBytes))
	for ; n > 0 && !r.Failed(); n-- {
		b := r.batch(life)
		if !r.Failed() && b.Kind >= kinds {
			return Part{}, fmt.Errorf("a batch of kind %d: this build knows kinds 0 to %d: %w", b.Kind, kinds-1, wire.ErrVersion)
		}
		p.Batches = append(p.Batches, b)
	}
	p.Receipts = r.receipts()
	p.Requests = r.requests()
	if err := r.end(); err != nil {
		return Part{}, err
	}
	return p, nil
}

// Removes reports whether some batch of the part has a removal.
func (p Part) Removes() bool {
	return slices.ContainsFunc(p.Batches, func(b Batch) bool { return b.Removes })
}

func (r *reader) head() Part {
	p := Part{Incarnation: Incarnation{Origin: r.Uint64(), Epoch: r.Uvarint()}}
	p.Flush, p.Number = r.Uvarint(), r.Uvarint()
	flags := r.Byte()
	p.Last, p.Leaving, p.Restored = flags&flagLast != 0, flags&flagLeaving != 0, flags&flagRestored != 0
	p.Node = string(r.Block())
	p.At = int64(r.Uvarint())
	if flags > flagLast|flagLeaving|flagRestored || len(p.Node) > MaxNodeBytes || p.At < 0 {
		r.Fail()
	}
	return p
}

// reader reads bytes of the journal's.
type reader struct {
	wire.Reader
	before bool // of the build that knew no topics: requests have no moves
}

func newReader(b []byte) reader { return reader{Reader: *wire.NewReader(b)} }

// end reports whether all was read, and nothing was cut or impossible.
func (r *reader) end() error {
	if !r.Done() {
		return fmt.Errorf("%w: its checksum is right, its content is not", ErrDamaged)
	}
	return nil
}

func (r *reader) receipts() (list [][]byte) {
	n := r.Count()
	for list = slices.Grow(list, n); n > 0 && !r.Failed(); n-- {
		list = append(list, append([]byte(nil), r.Block()...))
	}
	return list
}

// minBatchBytes is what a batch takes at least.
const minBatchBytes = 8

// batch reads one; life is the seed of its checksum.
func (r *reader) batch(life uint32) Batch {
	start := r.Rest()
	head := r.Uvarint()
	partition := head >> kindBits
	b := Batch{Partition: int(partition), Kind: head & (1<<kindBits - 1), Seq: r.Uvarint(), Total: r.Uvarint()}
	b.Entries = r.Block()
	if r.Failed() {
		return b
	}
	sum := wire.AddSum(life, start[:len(start)-r.Len()])
	if r.Uint32() != sum || partition >= MaxPartitions || b.Kind < kinds && !b.check() {
		r.Fail()
	}
	return b
}

func (e *reader) checkKey(key []byte) {
	if len(key) == 0 || len(key) > engine.MaxKeyBytes {
		e.Fail()
	}
}

// Finding is damage: where it is, and what it cost.
type Finding struct {
	Where string `json:"where"`
	What  string `json:"what"`
	Cost  string `json:"cost"`
	// Harmless findings lost no hit: another copy served.
	Harmless bool `json:"harmless"`
}

// String is one line: where, what and the cost.
func (f Finding) String() string { return f.Where + ": " + f.What + ": " + f.Cost }

// DamageError is the answer of Open to a data directory that lost hits.
type DamageError struct {
	Findings  []Finding
	Clustered bool // it is a clustered node
}

// Error lists the findings that lost hits, a line each, and says what to do.
func (e *DamageError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the data directory is damaged, and hits are lost:\n")
	for _, f := range e.Findings {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	if e.Clustered {
		b.WriteString("look at all nodes before anything is changed: with the others up and none of them late, start this one with an empty directory under the same name; if they say the same, read \"A damaged disk\" in docs/cluster-operations.md")
		return b.String()
	}
	b.WriteString("restore a backup (weir restore), or start with --accept-damage to go on without them")
	return b.String()
}

// Losses are the findings that are not harmless.
func Losses(findings []Finding) (lost []Finding) {
	for _, f := range findings {
		if !f.Harmless {
			lost = append(lost, f)
		}
	}
	return lost
}
