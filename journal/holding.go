package journal

import (
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
	engine *weir.Engine
	upTo   []uint64 // by partition: own batches that were cut before it was held
	coming map[int]*coming
	open   map[int]*openSnapshot
	unsure []atomic.Bool                                                 // by partition: removals came whose own hits the ring did not have any more
	own    func(partition int, seq uint64) func(key string) []weir.Delta // replica.ownSince; nil: there is no journal of own hits
	ready  atomic.Int64                                                  // how many of these wait for the next cut
}

// coming is a partition on its way.
type coming struct {
	then     []weir.Delta // what was followed since it began
	overflow bool         // that was more than maxThen

	ready  bool // it is held with the next cut
	state  []byte
	before []weir.Delta // of the journal, after the state and before then
	held   chan error
}

// maxThen bounds what is followed while a partition is on its way: a few seconds of
// heavy traffic.
const maxThen = 1 << 18

func newHolding(engine *weir.Engine) *holding {
	return &holding{engine: engine, upTo: make([]uint64, engine.Config().Partitions), coming: map[int]*coming{}, unsure: make([]atomic.Bool, engine.Config().Partitions), open: map[int]*openSnapshot{}}
}

func (h *holding) wants(int) bool { return true }

func (h *holding) count(b batch, own, deciding bool) error {
	if o := h.open[b.partition]; o != nil && !own {
		o.see(b)
	}
	switch c := h.coming[b.partition]; {
	case b.kind == kindAdmissions && own:
	case b.kind == kindAdmissions && deciding:
		return h.engine.FollowAdmissions(b.partition, b.admissions())
	case b.kind == kindAdmissions:
		return h.engine.ApplyAdmissions(b.partition, b.admissions())
	case c != nil && len(c.then) > maxThen:
		c.then, c.overflow = nil, true
	case c != nil:
		c.then = append(c.then, b.deltas()...)
	case own && b.seq > h.upTo[b.partition]: // counted when they came
		if b.removes {
			for _, d := range b.deltas() {
				if d.N == 0 {
					h.engine.Confirm(b.partition, d.Key)
				}
			}
		}
	case !h.engine.Holds(b.partition):
	case b.removes && h.own != nil:
		h.engine.Apply(b.partition, b.deltas(), h.own(b.partition, h.upTo[b.partition]))
	default:
		h.engine.Apply(b.partition, b.deltas(), nil)
	}
	return nil
}

func (h *holding) receipts(list [][]byte) error { return h.engine.LoadReceipts(list) }
