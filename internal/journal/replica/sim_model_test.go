package replica

import (
	"maps"
	"slices"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
)

// simModel is what must be counted in a simulation, kept apart from the code that
// counts: which hits are in which flush, and which flushes the log has whole.
type simModel struct {
	parts   map[*byte]simPart // published messages, by their memory
	flushes map[simFlushID]*simFlush
	lanes   map[uint64]*simLane  // by origin
	counted []*simFlush          // in the order in which they became whole
	whole   map[uint64]*simFlush // the same, by the message that made them whole
	once    map[string][]*simFlush
	faults  []string // of the model's own world
}

// simOp is one thing that a node was asked.
type simOp struct {
	kind  simKind
	key   string
	at    int64 // Unix seconds
	n     uint64
	wall  int64 // Unix ms when it was asked, by its node's clock
	right int64 // the same, by the right one

	request simRequest // of which it is a part; zero: none
	from    uint64     // of a message of the topic: where its move begins, and one more
}

// simRequest is a request with an idempotency key, and the hits that a node counted of it.
type simRequest struct {
	key   string
	total uint64
}

type simKind uint8

const (
	simHit simKind = iota
	simDelete
	simAdmission
	simScarceAdmission
	simClear // of the partition at
)

type simFlushID struct {
	record.Incarnation
	flush uint64
}

type simPart struct {
	simFlushID
	part uint64
	last bool
}

// simFlush is the ops of one flush, in order.
type simFlush struct {
	simFlushID
	ops      []simOp
	begins   uint64 // the message that its first part is in
	sequence uint64 // of the message that made it whole; 0: it is not
	acked    bool
	lost     bool  // the log lost a message of it
	leaving  bool  // nothing comes after it in its life
	at       int64 // Unix ms, as it says

	cut   int64 // true Unix ms when it was cut
	clock int64 // ms that its node's clock was ahead then
}

// simLane is how far an origin's flushes are in the log.
type simLane struct {
	epoch, flush, parts uint64
}

func newSimModel() *simModel {
	return &simModel{
		parts: map[*byte]simPart{}, flushes: map[simFlushID]*simFlush{}, whole: map[uint64]*simFlush{}, lanes: map[uint64]*simLane{}, once: map[string][]*simFlush{},
	}
}

// cut notes what is in a flush.
func (m *simModel) cut(origin record.Incarnation, number uint64, parts [][]byte, ops []simOp, once []string) *simFlush {
	f := &simFlush{simFlushID: simFlushID{origin, number}, ops: ops}
	m.flushes[f.simFlushID] = f
	if len(parts) > 0 {
		p, err := record.DecodePart(parts[0])
		if err != nil {
			m.faults = append(m.faults, err.Error())
		}
		f.at = p.At
	}
	for i, data := range parts {
		m.parts[&data[0]] = simPart{f.simFlushID, uint64(i), i == len(parts)-1}
	}
	for _, key := range once {
		m.once[key] = append(m.once[key], f)
	}
	return f
}

// appended gets each message that the log takes. A flush counts when all its
// parts are there, once, unless its origin has begun a later life.
func (m *simModel) appended(sequence uint64, data []byte) {
	p := m.parts[&data[0]]
	l := m.lanes[p.Origin]
	if l == nil {
		l = &simLane{}
		m.lanes[p.Origin] = l
	}
	if p.Epoch > l.epoch {
		*l = simLane{epoch: p.Epoch}
	}
	if p.Epoch < l.epoch || p.flush <= l.flush || p.part < l.parts {
		return // after its life, or again
	}
	if p.flush != l.flush+1 || p.part != l.parts {
		m.faults = append(m.faults, "a message overtook one that was not acknowledged")
	}
	f := m.flushes[p.simFlushID]
	if l.parts == 0 {
		f.begins = sequence
	}
	if l.parts++; !p.last {
		return
	}
	l.flush, l.parts = p.flush, 0
	f.sequence, m.whole[sequence] = sequence, f
	m.counted = append(m.counted, f)
}

// lost tells whether the log lost a message of some flush.
func (m *simModel) lost() bool {
	for _, f := range m.flushes {
		if f.lost {
			return true
		}
	}
	return false
}

// simTruth is what all nodes must give at the end.
type simTruth struct {
	hits     map[string]map[int64]uint64 // by key and second
	all      map[string]map[int64]uint64 // those of deleted keys too
	admitted map[string]uint64           // by key
}

func (m *simModel) truth(partitionOf func(key string) int) simTruth {
	t := simTruth{map[string]map[int64]uint64{}, map[string]map[int64]uint64{}, map[string]uint64{}}
	add := func(to map[string]map[int64]uint64, key string, op simOp) {
		if to[key] == nil {
			to[key] = map[int64]uint64{}
		}
		to[key][op.at] += op.n
	}
	by, read := map[simRequest][]*simFlush{}, uint64(0)
	for _, f := range m.counted {
		upTo := read
		for _, op := range f.ops {
			if counts := by[op.request]; op.request.key != "" && !slices.Contains(counts, f) {
				if slices.ContainsFunc(counts, func(c *simFlush) bool { return max(c.at-f.at, f.at-c.at) < requestsFor.Milliseconds() }) {
					continue // its retry at another node
				}
				by[op.request] = append(counts, f)
			}
			if op.from > 0 {
				if op.from-1 != upTo {
					continue // another node read it before
				}
				read++
			}
			switch op.kind {
			case simHit:
				add(t.hits, op.key, op)
				add(t.all, op.key, op)
			case simDelete:
				delete(t.hits, op.key)
			case simClear:
				gone := func(key string, _ map[int64]uint64) bool { return partitionOf(key) == int(op.at) }
				maps.DeleteFunc(t.hits, gone)
				maps.DeleteFunc(t.all, gone)
			case simAdmission:
				t.admitted[op.key] += op.n
			}
		}
	}
	for _, seconds := range t.all {
		for at, n := range seconds {
			add(t.hits, engine.AllKeys, simOp{at: at, n: n})
		}
	}
	return t
}

// Count is the hits of a key in (now-w, now].
func (t simTruth) Count(key string, now, w int64) (n uint64) {
	for at, hits := range t.hits[key] {
		if at > now-w && at <= now {
			n += hits
		}
	}
	return n
}

func (t simTruth) newest() (now int64) {
	for at := range t.hits[engine.AllKeys] {
		now = max(now, at)
	}
	return now
}
