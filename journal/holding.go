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
	ready  atomic.Int64 // how many of these wait for the next cut
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
	return &holding{engine: engine, upTo: make([]uint64, engine.Config().Partitions), coming: map[int]*coming{}}
}

func (h *holding) wants(int) bool { return true }

func (h *holding) count(b batch, own, deciding bool) error {
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
	case h.engine.Holds(b.partition) && (!own || b.seq <= h.upTo[b.partition]):
		h.engine.Apply(b.partition, b.deltas())
	}
	return nil
}

func (h *holding) receipts(list [][]byte) error { return h.engine.LoadReceipts(list) }
