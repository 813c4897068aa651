package digest

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/record"
)

// Sum adds up batches of a journal, in its order, until it is cut. It grows with the keys and seconds that were
// hit, not with the nodes that counted them.
type Sum struct {
	parts   []*part // by partition; nil: nothing came
	touched []int
	entries int // about, for bounds
}

// part is what came of one partition. Hits and removals add up; a batch of another kind, as of a restored backup,
// stays as it is, between those before and those after it.
type part struct {
	done []step
	open map[string]*keySum // of the newest step
	keys []*keySum          // the same, in the order in which they came first
}

// step is either deltas or a batch of another kind.
type step struct {
	deltas []replication.Delta
	kind   uint64
	raw    []byte // the entries of that batch
	n      uint64
}

// keySum is what came of one key.
type keySum struct {
	key  string
	done []replication.Delta // up to the last removal, in order
	open []replication.Delta // after it, by second, each once
}

// NewSum returns an empty Sum, of so many partitions.
func NewSum(partitions int) *Sum { return &Sum{parts: make([]*part, partitions)} }

// Entries is about how many entries the Sum has.
func (s *Sum) Entries() int { return s.entries }

// Add adds a batch. Admissions are left out, and hits for history alone: both are the region's own.
func (s *Sum) Add(b record.Batch) {
	if b.Kind == record.KindAdmissions || b.Kind == record.KindPast || len(b.Entries) == 0 || b.Partition >= len(s.parts) {
		return
	}
	p := s.parts[b.Partition]
	if p == nil {
		p = &part{open: map[string]*keySum{}}
		s.parts[b.Partition] = p
		s.touched = append(s.touched, b.Partition)
	}
	if b.Kind != record.KindHits {
		p.close()
		p.done = append(p.done, step{kind: b.Kind, raw: bytes.Clone(b.Entries), n: b.N})
		s.entries += 1 + len(b.Entries)/entryBytes
		return
	}
	for _, d := range b.Deltas() {
		s.entries += p.add(d)
	}
}

// entryBytes is about how much an entry takes.
const entryBytes = 32

// add returns how many entries it made.
func (p *part) add(d replication.Delta) int {
	k := p.open[d.Key]
	if k == nil {
		k = &keySum{key: d.Key}
		p.open[d.Key] = k
		p.keys = append(p.keys, k)
	}
	if d.N == 0 {
		k.done = append(append(k.done, k.open...), d)
		k.open = nil
		return 1
	}
	at, found := slices.BinarySearchFunc(k.open, d.At, func(have replication.Delta, second int64) int { return cmp.Compare(have.At, second) })
	if found {
		k.open[at].N += d.N
		return 0
	}
	k.open = slices.Insert(k.open, at, d)
	return 1
}

// close ends the newest step.
func (p *part) close() {
	if len(p.keys) == 0 {
		return
	}
	var deltas []replication.Delta
	for _, k := range p.keys {
		deltas = append(append(deltas, k.done...), k.open...)
	}
	p.done = append(p.done, step{deltas: deltas})
	p.open, p.keys = map[string]*keySum{}, nil
}

// Cut puts all that came since the last cut into the flush that e has begun, and begins anew.
func (s *Sum) Cut(e *record.Encoder) {
	slices.Sort(s.touched)
	for _, partition := range s.touched {
		p := s.parts[partition]
		p.close()
		for _, one := range p.done {
			if one.deltas != nil {
				e.Add(partition, one.deltas)
			} else {
				e.AddRestored(partition, one.kind, one.raw, one.n)
			}
		}
		s.parts[partition] = nil
	}
	s.touched, s.entries = s.touched[:0], 0
}
