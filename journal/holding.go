package journal

import (
	"fmt"
	"sync/atomic"

	"github.com/weir-counter/weir"
)

// holding is the sink of a node: its engine, which may hold some partitions only, and
// the partitions that are on their way to it (take.go). All but the engine is guarded by
// the replica's lock.
//
// Own hits of a partition that is held are counted when they come, and their batches
// passed over. Those that were cut before it was held went through the engine to the
// journal alone, and count when they come back from there.
type holding struct {
	engine  *weir.Engine
	upTo    []uint64 // by partition: own batches that were cut before it was held
	coming  map[int]*coming
	open    map[int]*openSnapshot
	unsure  []atomic.Bool                                                 // by partition: removals came whose own hits the ring did not have any more
	own     func(partition int, seq uint64) func(key string) []weir.Delta // replica.ownSince; nil: there is no journal of own hits
	ownAll  func(partition int, seq uint64) []weir.Delta                  // replica.ownAll; nil too
	busy    atomic.Bool                                                   // there are some coming
	maxThen int
}

// coming is a partition on its way.
type coming struct {
	then     gathered // what was followed since it began
	overflow bool     // that was more than maxThen

	ready  bool // it is held with the next cut
	state  []byte
	before gathered // of the journal, between the state and then
	held   chan error
}

// maxThen bounds the entries that are followed of a partition while it is on its way: a few
// seconds of heavy traffic.
const maxThen = 1 << 18

var errOverflow = fmt.Errorf("more than %d entries of it were followed while it was taken", maxThen)

func newHolding(engine *weir.Engine) *holding {
	return &holding{maxThen: maxThen, engine: engine, upTo: make([]uint64, engine.Config().Partitions), coming: map[int]*coming{}, unsure: make([]atomic.Bool, engine.Config().Partitions), open: map[int]*openSnapshot{}}
}

func (h *holding) wants(int) bool { return true }

func (h *holding) count(b batch, own, deciding bool) error {
	switch b.kind {
	case kindHits:
		h.hits(b, own)
		return nil
	case kindAdmissions:
		return h.admissions(b, own, deciding)
	}
	return h.restored(b)
}

func (h *holding) hits(b batch, own bool) {
	if o := h.open[b.partition]; o != nil && !own {
		o.see(b)
	}
	switch c := h.coming[b.partition]; {
	case c != nil:
		if c.room(h.maxThen) {
			c.then.add(b)
		}
	case h.countedBefore(b, own):
		h.confirm(b)
	case h.engine.Replication().Holds(b.partition):
		h.apply(b, own)
	}
}

func (h *holding) apply(b batch, own bool) {
	var since func(key string) []weir.Delta
	if b.removes && h.own != nil {
		since = h.own(b.partition, h.upTo[b.partition])
	}
	if own {
		h.engine.Replication().ApplyOwn(b.partition, b.deltas(), since)
	} else {
		h.engine.Replication().Apply(b.partition, b.deltas(), since)
	}
}

// admissions of limits that every node keeps are applied at once; the others are kept for
// a partition that is coming.
//
// Those that come while this node decides count by how old they were when they were cut,
// by their origin's one clock, before now: whatever the two clocks show, none counts as
// earlier than it was. The time on the way is added to that.
func (h *holding) admissions(b batch, own, deciding bool) error {
	list := b.admissions()
	if deciding && !own {
		restamp(list, b.cutAt, h.engine.Replication().Wall().UnixMilli())
	}
	if c := h.coming[b.partition]; c != nil && c.room(h.maxThen) {
		c.then.admit(list)
	}
	switch {
	case own && (h.countedBefore(b, own) || !h.engine.Replication().Holds(b.partition)):
		return nil
	case own:
		return h.engine.Replication().ApplyShared(b.partition, list)
	case deciding:
		return h.engine.Replication().FollowAdmissions(b.partition, list)
	}
	return h.engine.Replication().ApplyAdmissions(b.partition, list)
}

// restamp tells admissions by this node's clock, now, both in Unix ms.
func restamp(list []weir.Admission, cutAt, now int64) {
	for i := range list {
		list[i].At = now - max(0, cutAt-list[i].At)
	}
}

// countedBefore tells whether a batch is of hits that were counted when they came.
func (h *holding) countedBefore(b batch, own bool) bool { return own && b.seq > h.upTo[b.partition] }

// confirm tells the engine of own removals that came back.
func (h *holding) confirm(b batch) {
	if !b.removes {
		return
	}
	for _, d := range b.deltas() {
		if d.N == 0 {
			h.engine.Replication().Confirm(b.partition, d.Key)
		}
	}
}

// room tells whether more may be kept.
func (c *coming) room(most int) bool {
	if c.then.entries > most {
		c.then, c.overflow = gathered{}, true
	}
	return !c.overflow
}

func (h *holding) receipts(list [][]byte, deciding bool) error {
	if deciding {
		return h.engine.Replication().FollowReceipts(list)
	}
	return h.engine.Replication().LoadReceipts(list)
}
