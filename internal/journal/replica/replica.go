// Package replica decides what a node does with the journal, in pure code:
//
//   - it cuts flushes from its engine (Flusher)
//   - it follows the flushes of all nodes: audit, repair (Follower)
//   - it takes over partitions (TakeOver)
//   - it says how fresh answers are, and whose clock is wrong
//   - it decides when snapshots are due (Rounds), and divides the data directory's space (Space)
//
// Pure means: no NATS, no file, no clock that is read (now is an argument) and no goroutine that outlives a call. So
// the journal drives it with real clocks, networks and disks, and the simulation (sim_test.go) with seeded ones that
// fail. TakeOver waits, with a function that its caller supplies.
//
// Invariants:
//   - A batch counts once: (origin, epoch, seq) has no hole. A repeat is dropped, a gap is asked for, and the running
//     totals of the origin must agree.
//   - A flush counts as a whole or not at all, in the order of the journal.
//   - A snapshot has what its positions say, and is stored once its own hits came back.
//   - Nothing that frees space in the journal waits for space (Space).
//   - What is late is named: an answer never claims a node's hits that are not here.
//
// Neighbors: package record has the bytes; package journal has the goroutines and the messages; packages above it have
// NATS.
package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// Replica is a node's part in the journal: it cuts flushes from its engine, and applies the flushes of others. It
// knows no clock, no network and no disk.
//
// One goroutine cuts, another one follows; both may be the same.
type Replica struct {
	engine    *engine.Engine
	node      string // name of this node; empty: alone
	clustered bool   // the journal has batches of other origins

	// Of the goroutine that cuts.
	encoder *record.Encoder // nil until begin
	cut     replication.Cut
	entries int                    // hits and admissions of the flush, one for each key and second
	beat    time.Time              // of the last flush
	Stamp   func() time.Time       // returns the time of day that flushes carry; nil: the time of the cut
	audited time.Time              // when all positions were last journaled
	Timed   func(takeState func()) // runs it, and may look at the clock; nil: runs it
	resends resendBuffer           // of flushes of this life

	// cutting keeps a cut from having hits that are neither in the engine nor in the
	// resend buffer, while a removal is applied. It is locked before mu.
	cutting sync.Mutex

	// mu keeps a cut from taking a partition's state while a batch is applied but not yet in audit. A snapshot would
	// otherwise count that batch twice.
	mu       sync.Mutex
	audit    *Auditor
	Sets     record.ClockSets // of the directory, before this life and in it: see NoteClockSet
	behind   time.Duration    // LimitClockBehind when Sets was noted
	peers    map[uint64]*peer // by origin, this one's too
	to       Sink
	holding  *Holding                // which is to
	reported int                     // findings that were handed out
	claims   []atomic.Pointer[Claim] // by partition; nil: none was followed
	holes    uint64                  // messages that the journal lost
	hole     hole                    // the last lost message, while it is in doubt whose it was
	repaired uint64                  // flushes that their origin sent again
}

// New returns the replica of an engine that was made with Config.Gather. The data directory has the identity origin.
func New(e *engine.Engine, origin uint64, node string, clustered bool) *Replica {
	r := &Replica{engine: e, node: node, clustered: clustered, audit: NewAuditor(origin, e.Config().Partitions), peers: map[uint64]*peer{}, claims: make([]atomic.Pointer[Claim], e.Config().Partitions)}
	r.audit.Alone, r.audit.AtOnce = !clustered, e.Keyspace().AtOnce
	r.holding = NewHolding(e)
	r.behind = e.LimitClockBehind()
	r.holding.Set = r.sinceSet
	r.holding.own, r.holding.ownAll = r.ownSince, r.ownAll
	r.to = r.holding
	if clustered {
		e.Receipts().Share()
	}
	return r
}

// Begin starts a life of this process, after everything in the journal was
// applied: further hits belong to this life.
func (r *Replica) Begin(l record.Incarnation) {
	r.encoder = record.NewEncoder(l, r.audit.Partitions)
	r.encoder.Node = r.node
	r.mu.Lock()
	defer r.mu.Unlock()
	r.audit.self = l
	r.reported = len(r.audit.Findings)
	r.goOn()
}

// goOn numbers batches after those that the journal has of earlier lives.
func (r *Replica) goOn() {
	for partition, at := range r.audit.progressOf(r.audit.Origin).positions {
		r.encoder.Seqs[partition], r.encoder.Totals[partition] = at.Seq, at.Total
	}
}

// Hello is the first flush of a life among other nodes, and has no hits. Messages of this origin's earlier life may
// arrive after it from a slow network, and count nowhere. Messages before it must be followed, up to the hello itself.
// Only then, after ready, may flushes be cut. moves say where topics are counted whose hits this node brings along.
func (r *Replica) Hello(now time.Time, moves ...replication.Request) [][]byte {
	today := r.stamped(now)
	r.mu.Lock()
	r.audit.began = now
	for _, l := range r.audit.byOrigin {
		l.notAhead(now, today)
	}
	r.mu.Unlock()
	r.encoder.Begin(today)
	parts := r.encoder.End(nil, moves...)
	r.resends.add(r.encoder.Flush, parts)
	return parts
}

// stamped is what a flush tells of the time: intervals are by another clock, which is not
// set.
func (r *Replica) stamped(now time.Time) time.Time {
	if r.Stamp == nil {
		return now
	}
	return r.Stamp()
}

// Ready ends the start of a life, after its hello was followed.
func (r *Replica) Ready() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.goOn()
}

// Flush is one flush and the snapshots that were taken with it.
type Flush struct {
	Parts   [][]byte          // a message each; none: there is nothing to say
	Entries int               // hits, admissions and receipts, one for each key and second: what would be lost with it
	Snaps   []record.Snapshot // count once all parts are in the journal
}

// CutOptions is what a flush is to be like.
type CutOptions struct {
	Leaving bool         // the last one
	States  map[int]bool // of which partitions the state is taken
	Quiet   bool         // no heartbeats and totals: there is hardly any space
	Speak   bool         // the heartbeat is due, whenever the last one was

	EvenEmpty bool // there is a flush also if there is nothing in it

	Claims []int // partitions whose groups' limits this node owns from this flush on
}

// Cut makes a flush of all that the engine gathered until now, and takes the
// states of some partitions.
func (r *Replica) Cut(now time.Time, as CutOptions) (f Flush) {
	r.cutting.Lock()
	defer r.cutting.Unlock()
	if as.Speak {
		r.beat = time.Time{}
	}
	e := r.encoder
	e.Begin(r.stamped(now))
	e.Leaving = as.Leaving
	restate := r.clustered && !as.Quiet && now.Sub(r.audited) >= auditEvery
	r.entries = 0
	arriving := r.nextArrivals()
	receipts, requests := r.engine.Receipts().Cut(func() {
		for partition := range r.audit.Partitions {
			c := arriving[partition]
			switch {
			case c != nil: // its state may be due as well: that waits for own hits of until now
				r.mu.Lock()
				r.cutPartition(partition, false, restate)
				r.completeHandOff(partition, c)
				r.mu.Unlock()
			case as.States[partition]:
				f.Snaps = append(f.Snaps, r.cutWithState(now, partition, restate)...)
			default:
				r.cutPartition(partition, false, restate)
			}
		}
	})
	if !r.clustered && len(requests) > 0 { // moves, which nobody else makes: the snapshots of this cut have them
		r.mu.Lock()
		r.audit.requests.settle([]record.Part{{Incarnation: e.Incarnation, Flush: e.Flush, Requests: requests}})
		for i := range f.Snaps {
			if f.Snaps[i].Partition == 0 {
				f.Snaps[i].Requests = r.audit.requests.list(now)
			}
		}
		r.mu.Unlock()
	}
	for _, partition := range as.Claims {
		e.Claim(partition)
	}
	if e.Empty() && len(receipts)+len(requests) == 0 && !as.Leaving && !as.EvenEmpty && (!r.clustered || as.Quiet || now.Sub(r.beat) < HeartbeatEvery) {
		e.Cancel()
		r.openBefore(f.Snaps)
		return f
	}
	f.Parts, f.Entries = e.End(receipts, requests...), r.entries+len(receipts)
	r.beat = now
	if restate {
		r.audited = now
	}
	if r.clustered {
		r.resends.add(e.Flush, f.Parts)
	}
	return f
}

// auditEvery is how often a node journals the running totals of all partitions. A hole in its batches is found within
// that time, even if no batch follows.
const auditEvery = 10 * time.Second

// cutPartition puts a partition's new hits into the flush, or what they come to so
// far if that is to be restated. It takes the partition's state if it is asked for.
func (r *Replica) cutPartition(partition int, withState, restate bool) {
	r.engine.Cut(partition, &r.cut, withState)
	fresh := len(r.cut.PastRemoved) + len(r.cut.Deltas) + len(r.cut.Past) + len(r.cut.Changes) + len(r.cut.Admissions) + len(r.cut.Distinct)
	r.entries += fresh
	r.encoder.AddPast(partition, r.cut.PastRemoved)
	r.encoder.Add(partition, r.cut.Deltas)
	r.encoder.AddPast(partition, r.cut.Past)
	r.encoder.AddChanges(partition, r.cut.Changes)
	r.encoder.AddAdmissions(partition, r.cut.Admissions)
	r.encoder.AddDistinct(partition, r.cut.Distinct)
	if restate && fresh == 0 {
		r.encoder.Restate(partition)
	}
	if r.clustered {
		return
	}
	for _, d := range r.cut.Deltas {
		if d.N == 0 { // nothing comes from others
			r.engine.Keyspace().Confirm(partition, d.Key)
		}
	}
}

// cutWithState is cutPartition, with a snapshot if there may be one. Nobody else's hits
// are applied meanwhile.
func (r *Replica) cutWithState(now time.Time, partition int, restate bool) []record.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.audit.now = now
	switch {
	case !r.stateReady(partition):
		r.cutPartition(partition, false, restate)
		return nil
	case r.Timed != nil:
		r.Timed(func() { r.cutPartition(partition, true, restate) })
	default:
		r.cutPartition(partition, true, restate)
	}
	if r.clustered {
		r.openSnapshot(partition)
	}
	return []record.Snapshot{r.snapshotOf(now, partition)}
}

// snapshotOf is the partition as the last cut left it. The caller holds mu.
func (r *Replica) snapshotOf(now time.Time, partition int) record.Snapshot {
	begins := &beginning{}
	if r.clustered { // else the origin stands where it was at the start of this life
		begins = r.audit.startOf()
	}
	snap := record.Snapshot{
		Incarnation: r.encoder.Incarnation, Partition: partition, From: begins.from,
		Positions: r.positionsOf(partition, begins.heads),
		State:     append([]byte(nil), r.cut.State...),
	}
	if partition == 0 {
		snap.Receipts, snap.Requests = r.engine.Receipts().All(), r.audit.requests.list(now)
	}
	return snap
}

// positionsOf returns how far a partition has the batches of all origins: its own up to the last cut, the others' as
// they were applied. The caller holds mu.
func (r *Replica) positionsOf(partition int, heads map[uint64]record.Head) []record.OriginPosition {
	e := r.encoder
	list := r.audit.positionsOf(partition, heads)
	for i := range list {
		if at := &list[i]; at.Origin == e.Origin {
			at.Position = record.Position{Epoch: e.Epoch, Seq: e.Seqs[partition], Total: e.Totals[partition], Lost: at.Lost}
		}
	}
	return list
}

// LastFlush is the number of the flush that was cut last. Only the goroutine that cuts may
// ask.
func (r *Replica) LastFlush() uint64 { return r.encoder.Flush }

// Sent is a part of a flush of this life; nil: it is not kept any more, or was never cut.
func (r *Replica) Sent(flush, part uint64) []byte { return r.resends.get(flush, part) }

// KeepToResend bounds the bytes of own flushes that are kept; 0: ResendBytes.
func (r *Replica) KeepToResend(bytes int) { r.resends.most = bytes }

// Repairs are how many messages the journal has lost, and how many flushes were sent again
// by their origin.
func (r *Replica) Repairs() (holes, repaired uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holes, r.repaired
}

// Standing returns an auditor's position, as a snapshot of each partition without its state. An auditor that resumes
// from these (ResumeOf) continues here, and drops what this one has handed out. From is the same in all. A flush of
// which only some parts have come is read again.
func (a *Auditor) Standing() []*record.Snapshot {
	begins := a.startOf()
	list := make([]*record.Snapshot, a.Partitions)
	for partition := range list {
		list[partition] = &record.Snapshot{Partition: partition, From: begins.from, Positions: a.positionsOf(partition, begins.heads)}
	}
	return list
}
