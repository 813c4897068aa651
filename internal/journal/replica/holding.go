package replica

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// Holding is the sink of a node. It has the engine, which may hold only some partitions, and the partitions that are
// being handed over to it (handoff.go). The replica's lock guards all but the engine.
//
// Own hits of a partition that is held are counted when they come, and their batches
// passed over. Those that were cut before it was held went through the engine to the
// journal alone, and count when they come back from there.
type Holding struct {
	engine   *engine.Engine
	upTo     []uint64 // by partition: own batches that were cut before it was held
	arrivals map[int]*arrival
	open     map[int]*openSnapshot
	unsure   []atomic.Bool                                                        // by partition: removals came whose own hits the resend buffer did not have any more
	own      func(partition int, seq uint64) func(key string) []replication.Delta // replica.ownSince; nil: there is no journal of own hits
	ownAll   func(partition int, seq uint64) []replication.Delta                  // replica.ownAll; nil too
	busy     atomic.Bool                                                          // there are some coming
	Set      func(message uint64) time.Duration                                   // by how much the clock was set forward since; nil: of no journal
	maxThen  int

	failing sync.Mutex
	failed  []refusedBatch // of the flush that is counted, while this node runs
}

// refusedBatch is what the engine did not take of a flush: bytes of another version, or damaged ones.
type refusedBatch struct {
	record.Batch // of receipts: none
	err          error
}

// arrival is a partition on its way.
type arrival struct {
	then     gathered // what was followed since it began
	overflow bool     // that was more than maxThen

	ready bool              // it is held with the next cut
	state replication.State // of the copy
	held  chan struct{}     // closed when it is held, or can't be
	err   error             // why it can't be; written before held is closed
}

// maxThen bounds the entries that are followed of a partition while it is on its way: a few
// seconds of heavy traffic.
const maxThen = 1 << 18

// ErrOverflow is why a partition was not taken.
var ErrOverflow = fmt.Errorf("more than %d entries of it were followed while it was taken", maxThen)

// NewHolding returns the sink of an engine that nobody else feeds.
func NewHolding(e *engine.Engine) *Holding {
	return &Holding{maxThen: maxThen, engine: e, upTo: make([]uint64, e.Config().Partitions), arrivals: map[int]*arrival{}, unsure: make([]atomic.Bool, e.Config().Partitions), open: map[int]*openSnapshot{}}
}

// Wants is true: every partition is audited, held or not.
func (h *Holding) Wants(int) bool { return true }

// Count puts a batch where it belongs. What can't be applied is an error only for limits.
func (h *Holding) Count(b record.Batch, own, deciding bool) error {
	var err error
	switch b.Kind {
	case record.KindHits:
		h.hits(b, own)
	case record.KindAdmissions, record.KindChanges:
		err = h.limits(b, own, deciding)
	case record.KindPast:
		h.engine.Keyspace().NotePast(b.CutAt)
	default:
		err = h.restored(b, own)
	}
	return h.refuse(b, err, deciding)
}

// refuse keeps the error of a batch, and the rest of the flush counts: the engine would not accept the batch a second
// time. During a start it returns the error, and the start fails.
func (h *Holding) refuse(b record.Batch, err error, deciding bool) error {
	if err == nil || !deciding {
		return err
	}
	h.failing.Lock()
	defer h.failing.Unlock()
	h.failed = append(h.failed, refusedBatch{b, err})
	return nil
}

func (h *Holding) hits(b record.Batch, own bool) {
	if o := h.open[b.Partition]; o != nil {
		o.see(b, own)
	}
	switch c := h.arrivals[b.Partition]; {
	case c != nil:
		if c.hasSpace(h.maxThen) {
			c.then.add(b)
		}
	case h.countedBefore(b, own):
		h.retract(b)
		h.confirm(b)
	case h.engine.Keyspace().Holds(b.Partition):
		h.apply(b, own)
	}
}

// retract takes own hits back that another node counts: see requests.
func (h *Holding) retract(b record.Batch) {
	if len(b.Less) > 0 && h.engine.Keyspace().Holds(b.Partition) {
		h.engine.Retract(b.Partition, b.Less)
	}
}

func (h *Holding) apply(b record.Batch, own bool) {
	var since func(key string) []replication.Delta
	if b.Removes && h.own != nil {
		since = h.own(b.Partition, h.upTo[b.Partition])
	}
	list := deltas.Get().(*[]replication.Delta)
	*list = b.AppendDeltas((*list)[:0])
	if own {
		h.engine.Keyspace().Apply(b.Partition, *list, since)
	} else {
		h.engine.Apply(b.Partition, *list, since)
	}
	clear(*list) // of keys
	deltas.Put(list)
}

// deltas are lists for batches on their way to the engine, which keeps none.
var deltas = sync.Pool{New: func() any { return new([]replication.Delta) }}

// limits are applied whether the partition is held or not: every node keeps what keys have used of limits. Own
// ones counted when they were made.
//
// While this node decides, an admission of another node counts as made at now minus its age when it was cut. Its
// origin measured that age with one clock, so a difference of the clocks makes none count as earlier than it was. The
// time on the way makes it count as later.
func (h *Holding) limits(b record.Batch, own, deciding bool) error {
	if own {
		if b.Kind == record.KindChanges {
			h.engine.ConfirmChanges(b.Changes())
		}
		return nil
	}
	var to func(at int64) int64
	if deciding {
		now := h.engine.Wall().Time().UnixMilli()
		to = func(at int64) int64 { return now - max(0, b.CutAt-at) }
	} else {
		set := h.sinceSet(b.Message).Milliseconds()
		to = func(at int64) int64 { return at + set }
	}
	if b.Kind == record.KindChanges {
		list := b.Changes()
		replication.MoveChanges(list, to)
		return h.engine.ApplyChanges(b.Partition, list)
	}
	list := b.Admissions()
	for i := range list {
		list[i].At = to(list[i].At)
	}
	return h.engine.Limits().ApplyAdmissions(b.Partition, list)
}

func (h *Holding) sinceSet(message uint64) time.Duration {
	if h.Set == nil {
		return 0
	}
	return h.Set(message)
}

// countedBefore reports whether the hits of a batch were counted when they came.
func (h *Holding) countedBefore(b record.Batch, own bool) bool {
	return own && b.Seq > h.upTo[b.Partition]
}

// confirm tells the engine of own removals that came back.
func (h *Holding) confirm(b record.Batch) {
	if !b.Removes {
		return
	}
	for _, d := range b.Deltas() {
		if d.N == 0 {
			h.engine.Keyspace().Confirm(b.Partition, d.Key)
		}
	}
}

// hasSpace reports whether more may be kept.
func (c *arrival) hasSpace(most int) bool {
	if c.then.entries > most {
		c.then, c.overflow = gathered{}, true
	}
	return !c.overflow
}

// Receipts loads them into the engine.
func (h *Holding) Receipts(list [][]byte, message uint64, deciding bool) error {
	if deciding {
		return h.refuse(record.Batch{}, h.engine.Receipts().Load(list, true, 0), true)
	}
	return h.engine.Receipts().Load(list, false, h.sinceSet(message))
}

// restored counts a batch of a restored kind, or of ids. Own ids are merged once more: a removal of another node may
// have taken them.
func (h *Holding) restored(b record.Batch, own bool) error {
	if o := h.open[b.Partition]; o != nil {
		o.see(b, own)
	}
	if c := h.arrivals[b.Partition]; c != nil {
		if c.hasSpace(h.maxThen) {
			c.then.add(b)
		}
		return nil
	}
	if !h.engine.Keyspace().Holds(b.Partition) {
		return nil
	}
	switch b.Kind {
	case record.KindWindows:
		list, _ := b.Windows() // it was checked
		return h.engine.MergeWindows(b.Partition, list)
	case record.KindEvicted:
		list, _ := b.Evicted()
		h.engine.MergeEvicted(b.Partition, list)
	case record.KindDistinct:
		h.engine.Keyspace().MergeDistinct(b.Partition, b.Distinct())
	case record.KindClear:
		var own []replication.Delta
		if h.ownAll != nil {
			own = h.ownAll(b.Partition, h.upTo[b.Partition])
		}
		then := make([]replication.Followed, len(b.Then))
		for i := range b.Then {
			then[i] = followed(&b.Then[i])
		}
		return h.engine.Keyspace().Clear(b.Partition, own, then)
	}
	return nil
}

// resendBuffer keeps the newest flushes of this process for nodes that miss one: what the
// stream lost for one reader, its origin still has.
type resendBuffer struct {
	mu    sync.Mutex
	parts map[uint64][][]byte // by flush
	first uint64              // the oldest flush there; 0: none yet
	bytes int
	most  int // bytes; 0: ResendBytes
}

// ResendBytes bounds the resend buffer: many minutes of a common load.
const ResendBytes = 32 << 20

func (r *resendBuffer) add(flush uint64, parts [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts, r.first = map[uint64][][]byte{}, flush
	}
	r.parts[flush] = parts
	r.bytes += record.SizeOf(parts)
	for r.bytes > cmp.Or(r.most, ResendBytes) && r.first < flush {
		r.bytes -= record.SizeOf(r.parts[r.first])
		delete(r.parts, r.first)
		r.first++
	}
}

// get returns a part of a flush; nil: it is not there, or not any more.
func (r *resendBuffer) get(flush, part uint64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if parts := r.parts[flush]; part < uint64(len(parts)) {
		return parts[part]
	}
	return nil
}
