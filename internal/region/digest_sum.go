package region

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/wire"
)

// Sum adds up batches of a journal, in its order, until it is cut. It grows with the keys and seconds that were
// hit, not with the nodes that counted them.
type Sum struct {
	parts   []*part // by partition; nil: nothing came
	touched []int
}

// part is what came of one partition. Hits and removals add up. A batch of another kind, such as a restored backup, is kept
// as it is, in the order of the batches.
type part struct {
	done []step
	open map[string]*keySum // of the newest step
	keys []*keySum          // the same, in the order in which they came first
}

// step is either deltas, and ids after them, or a batch of another kind.
type step struct {
	deltas []replication.Delta
	ids    []replication.KeyDistinct
	kind   uint64
	raw    []byte // the entries of that batch; nil: deltas and ids
	n      uint64
}

// keySum is what came of one key.
type keySum struct {
	key  string
	done []replication.Delta // up to the last removal, in order
	open []replication.Delta // after it, by second, each once
	ids  *distinct.Set       // after it; nil: there are none
}

// NewSum returns an empty Sum, of so many partitions.
func NewSum(partitions int) *Sum { return &Sum{parts: make([]*part, partitions)} }

// Add adds a batch. Admissions are left out, and hits for history alone: both are the region's own.
func (s *Sum) Add(b record.Batch) {
	if b.OfLimits() || b.Kind == record.KindPast || len(b.Entries) == 0 || b.Partition >= len(s.parts) {
		return
	}
	p := s.parts[b.Partition]
	if p == nil {
		p = &part{open: map[string]*keySum{}}
		s.parts[b.Partition] = p
		s.touched = append(s.touched, b.Partition)
	}
	for _, d := range b.Distinct() {
		if k := p.sumFor(d.Key); k.ids == nil {
			k.ids = d.Set
		} else {
			k.ids.Merge(d.Set)
		}
	}
	if b.Kind != record.KindHits && b.Kind != record.KindDistinct {
		p.close()
		p.done = append(p.done, step{kind: b.Kind, raw: bytes.Clone(b.Entries), n: b.N})
		return
	}
	for _, d := range b.Deltas() {
		p.add(d)
	}
}

// sumFor is what came of a key.
func (p *part) sumFor(key string) *keySum {
	k := p.open[key]
	if k == nil {
		k = &keySum{key: key}
		p.open[key] = k
		p.keys = append(p.keys, k)
	}
	return k
}

func (p *part) add(d replication.Delta) {
	k := p.sumFor(d.Key)
	if d.N == 0 {
		k.done = append(append(k.done, k.open...), d)
		k.open, k.ids = nil, nil
		return
	}
	at, found := slices.BinarySearchFunc(k.open, d.At, func(have replication.Delta, second int64) int { return cmp.Compare(have.At, second) })
	if found {
		k.open[at].N += d.N
		return
	}
	k.open = slices.Insert(k.open, at, d)
}

func (p *part) close() {
	if len(p.keys) == 0 {
		return
	}
	var s step
	for _, k := range p.keys {
		if s.deltas = append(append(s.deltas, k.done...), k.open...); k.ids != nil {
			s.ids = append(s.ids, replication.KeyDistinct{Key: k.key, Set: k.ids})
		}
	}
	p.done = append(p.done, s)
	p.open, p.keys = map[string]*keySum{}, nil
}

// Cut puts all that came since the last cut into the flush that e has begun, and begins anew.
func (s *Sum) Cut(e *record.Encoder) {
	slices.Sort(s.touched)
	for _, partition := range s.touched {
		p := s.parts[partition]
		p.close()
		for _, one := range p.done {
			if one.raw != nil {
				e.AddRestored(partition, one.kind, one.raw, one.n)
				continue
			}
			e.Add(partition, one.deltas)
			e.AddDistinct(partition, one.ids)
		}
		s.parts[partition] = nil
	}
	s.touched = s.touched[:0]
}

// Note is what a digest has in addition to hits. Its bytes, numbers as unsigned varints:
//
//	byte 0     'N'
//	byte 1     version, 1
//	8 bytes    identity of the region's journal, little endian
//	           partitions; retention in seconds; ms between digests
//	           position in the journal (package flushes)
//	           nodes of the region that are late: how many, then each: length of the name, name; ms of
//	           Unix time up to which its hits are in
//	last 4     CRC-32C of all bytes before, little endian
type Note struct {
	Journal    uint64
	Partitions int
	Retention  time.Duration // whole seconds
	Every      time.Duration // between digests
	At         replica.FlushPosition
	Late       []api.Late
}

const (
	noteMagic   = 'N'
	noteVersion = 1
	maxLate     = 1000
)

// Encode returns the bytes of the note. Of more than a thousand late nodes it has the first.
func (n Note) Encode() []byte {
	n.Late = n.Late[:min(len(n.Late), maxLate)]
	return wire.Seal(wire.Append([]byte{noteMagic, noteVersion}, n.fields), 0)
}

// DecodeNote reads and checks a note.
func DecodeNote(data []byte) (n Note, err error) {
	version, r, err := wire.Open(data, noteMagic)
	if err != nil {
		return n, fmt.Errorf("%w: note of a digest: %w", record.ErrDamaged, err)
	}
	if version != noteVersion {
		return n, fmt.Errorf("a digest's note in version %d: this build reads version %d: run the same version of Weir in all regions", version, noteVersion)
	}
	wire.Read(&r, n.fields)
	if !r.Done() || n.Partitions == 0 || n.Retention == 0 || n.Every == 0 {
		return n, fmt.Errorf("%w: note of a digest: its checksum is right, its content is not", record.ErrDamaged)
	}
	return n, nil
}

func (n *Note) fields(c *wire.Codec) {
	c.Uint64(&n.Journal)
	wire.Number(c, &n.Partitions, record.MaxPartitions)
	retention, every := n.Retention/time.Second, n.Every/time.Millisecond
	wire.Number(c, &retention, maxSeconds)
	wire.Number(c, &every, maxSeconds*1000)
	n.Retention, n.Every = retention*time.Second, every*time.Millisecond
	n.At.Fields(c)
	wire.List(c, &n.Late, maxLate, func(l *api.Late) {
		since := l.Since.UnixMilli()
		c.Text(&l.Node, record.MaxNodeBytes)
		wire.Number(c, &since, 1<<60)
		l.Since = api.Time{Time: time.UnixMilli(since)}
	})
}

const maxSeconds = 1_000_000_000

// OriginOf returns the origin of the digests of a region, which follows from its name.
func OriginOf(region string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(region)) // a hash takes everything
	return hash.Sum64()
}
