package journal

import (
	"sync"
	"time"

	"github.com/weir-counter/weir"
)

// replica is what a node does with the journal, without the world around it: it
// cuts flushes from its engine, and applies those of others. It knows no clock,
// no network and no disk: Journal drives it with real ones, and the simulation
// (sim_test.go) with seeded ones that fail.
//
// One goroutine cuts, another one follows; both may be the same.
type replica struct {
	engine    *weir.Engine
	node      string // name of this node; empty: alone
	clustered bool   // the journal has batches of other origins

	// Of the goroutine that cuts.
	encoder *encoder // nil until begin
	cut     weir.Cut
	entries int                    // hits and admissions of the flush, one for each key and second
	beat    time.Time              // of the last flush
	stamp   func() time.Time       // the time of day that flushes tell; nil: that of the cut
	audited time.Time              // when all positions were last journaled
	timed   func(takeState func()) // runs it, and may look at the clock; nil: runs it
	ring    ring                   // of flushes of this life

	// cutting keeps a cut from having hits that are neither in the engine nor in the
	// ring, while a removal is applied. It is locked before mu.
	cutting sync.Mutex

	// mu keeps a cut from taking a partition's state while a batch of it is
	// applied and not yet in audit: a snapshot would have it twice.
	mu       sync.Mutex
	audit    *auditor
	peers    map[uint64]*peer // by origin, this one's too
	to       sink
	holding  *holding // which is to
	told     int      // findings that were handed out
	holes    uint64   // messages that the journal lost
	repaired uint64   // flushes that their origin sent again
}

func newReplica(engine *weir.Engine, origin uint64, node string, clustered bool) *replica {
	r := &replica{engine: engine, node: node, clustered: clustered, audit: newAuditor(origin, engine.Config().Partitions), peers: map[uint64]*peer{}}
	r.audit.alone = !clustered
	r.holding = newHolding(engine)
	r.holding.own, r.holding.ownAll = r.ownSince, r.ownAll
	r.to = r.holding
	return r
}

// begin starts a life of this process, after all that is in the journal was
// applied: hits from now on are of this life.
func (r *replica) begin(l life) {
	r.encoder = newEncoder(l, r.audit.partitions)
	r.encoder.node = r.node
	r.mu.Lock()
	defer r.mu.Unlock()
	r.audit.self = l
	r.told = len(r.audit.findings)
	r.goOn()
}

// goOn numbers batches after those that the journal has of earlier lives.
func (r *replica) goOn() {
	for partition, at := range r.audit.lane(r.audit.origin).positions {
		r.encoder.seqs[partition], r.encoder.totals[partition] = at.seq, at.total
	}
}

// hello is the first flush of a life among other nodes, and is empty. Messages of
// this origin's life before that come after it, from a network that was slow,
// count nowhere; those before it are to be followed, up to hello's own message.
// Only then, after ready, may flushes be cut.
func (r *replica) hello(now time.Time) [][]byte {
	today := r.stamped(now)
	r.mu.Lock()
	for _, l := range r.audit.lanes {
		l.notAhead(now, today)
	}
	r.mu.Unlock()
	r.encoder.begin(today)
	parts := r.encoder.end(nil)
	r.ring.add(r.encoder.flush, parts)
	return parts
}

// stamped is what a flush tells of the time: intervals are by another clock, which is not
// set.
func (r *replica) stamped(now time.Time) time.Time {
	if r.stamp == nil {
		return now
	}
	return r.stamp()
}

// ready ends the start of a life, after its hello was followed.
func (r *replica) ready() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.goOn()
}

// cutFlush is one flush and the snapshots that were taken with it.
type cutFlush struct {
	parts   [][]byte   // a message each; none: there is nothing to say
	entries int        // hits, admissions and receipts, one for each key and second: what would be lost with it
	snaps   []snapshot // count once all parts are in the journal
}

// cutAs is what a flush is to be like.
type cutAs struct {
	leaving bool         // the last one
	states  map[int]bool // of which partitions the state is taken
	quiet   bool         // no heartbeats and totals: there is hardly any room
}

// cutAll makes a flush of all that the engine gathered until now, and takes the
// states of some partitions.
func (r *replica) cutAll(now time.Time, as cutAs) (f cutFlush) {
	r.cutting.Lock()
	defer r.cutting.Unlock()
	e := r.encoder
	e.begin(r.stamped(now))
	e.leaving = as.leaving
	restate := r.clustered && !as.quiet && now.Sub(r.audited) >= auditEvery
	r.entries = 0
	arriving := r.arriving()
	receipts := r.engine.Replication().CutReceipts(func() {
		for partition := range r.audit.partitions {
			c := arriving[partition]
			switch {
			case as.states[partition]:
				f.snaps = append(f.snaps, r.cutWithState(now, partition, restate)...)
			case c != nil:
				r.mu.Lock()
				r.cutPartition(partition, false, restate)
				r.arrive(partition, c)
				r.mu.Unlock()
			default:
				r.cutPartition(partition, false, restate)
			}
		}
	})
	if e.empty() && len(receipts) == 0 && !as.leaving && (!r.clustered || as.quiet || now.Sub(r.beat) < heartbeat) {
		e.cancel()
		r.openBefore(f.snaps)
		return f
	}
	f.parts, f.entries = e.end(receipts), r.entries+len(receipts)
	r.beat = now
	if restate {
		r.audited = now
	}
	if r.clustered {
		r.ring.add(e.flush, f.parts)
	}
	return f
}

// auditEvery is how often a node journals the running totals of all partitions: a
// hole in its batches is found no later, even where no batch follows.
const auditEvery = 10 * time.Second

// cutPartition puts a partition's new hits into the flush, or what they come to so
// far if that is to be restated. It takes the partition's state if it is asked for.
func (r *replica) cutPartition(partition int, withState, restate bool) {
	r.engine.Replication().Cut(partition, &r.cut, withState)
	r.entries += len(r.cut.Deltas) + len(r.cut.Admissions)
	r.encoder.add(partition, r.cut.Deltas)
	r.encoder.addAdmissions(partition, r.cut.Admissions)
	if restate && len(r.cut.Deltas)+len(r.cut.Admissions) == 0 {
		r.encoder.restate(partition)
	}
	if r.clustered {
		return
	}
	for _, d := range r.cut.Deltas {
		if d.N == 0 { // nothing comes from others
			r.engine.Replication().Confirm(partition, d.Key)
		}
	}
}

// cutWithState is cutPartition, with a snapshot if there may be one. Nobody else's hits
// are applied meanwhile.
func (r *replica) cutWithState(now time.Time, partition int, restate bool) []snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.audit.now = now
	switch {
	case !r.stateReady(partition):
		r.cutPartition(partition, false, restate)
		return nil
	case r.timed != nil:
		r.timed(func() { r.cutPartition(partition, true, restate) })
	default:
		r.cutPartition(partition, true, restate)
	}
	if r.clustered {
		r.openSnapshot(partition)
	}
	return []snapshot{r.snapshotOf(partition)}
}

// snapshotOf is the partition as the last cut left it. The caller holds mu.
func (r *replica) snapshotOf(partition int) snapshot {
	begins := &beginning{}
	if r.clustered { // else the lane stands where it was at the start of this life
		begins = r.audit.startOf()
	}
	snap := snapshot{
		life: r.encoder.life, partition: partition, from: begins.from,
		positions: r.positionsOf(partition, begins.heads),
		state:     append([]byte(nil), r.cut.State...),
	}
	if partition == 0 {
		snap.receipts = r.engine.Replication().Receipts()
	}
	return snap
}

// positionsOf is how far a partition has the batches of all origins: its own as
// the last cut left them, the others' as they were applied. The caller holds mu.
func (r *replica) positionsOf(partition int, heads map[uint64]head) []originPosition {
	e := r.encoder
	list := r.audit.positionsOf(partition, heads)
	for i := range list {
		if at := &list[i]; at.origin == e.origin {
			at.position = position{epoch: e.epoch, seq: e.seqs[partition], total: e.totals[partition], lost: at.lost}
		}
	}
	return list
}
