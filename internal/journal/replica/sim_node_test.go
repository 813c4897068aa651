package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// simNode is a replica with the world of a simulation around it, as Journal is one
// with a real world.
type simNode struct {
	c    *simCluster
	name string

	clock  time.Duration // what its clock is ahead
	base   time.Duration // what it was ahead when the process started
	latest atomic.Int64  // Unix ms: the latest time that it has shown

	// On its disk.
	origin uint64
	epoch  uint64
	sets   record.ClockSets

	// In its memory: run changes when it starts and when it ends, so that what was
	// on its way to an earlier one finds nobody.
	run     int
	ready   bool      // it takes hits
	since   time.Time // when it became ready
	leaving bool
	e       *engine.Engine
	limit   *engine.KeyedLimit
	scarce  *engine.KeyedLimit
	r       *Replica

	ops   []simOp // since the last cut
	moved uint64  // the flush with its last move of the topic
	once  []string

	stores Stores               // what it knows of the replicas
	looked uint64               // the last message, when it looked at its own
	mute   map[string]time.Time // replicas that do not store, and could tell it since then

	f       *Flusher
	space   *Space
	sending *simFlush // the flush under way, in the model
	handing bool      // a flush of a backup is under way
	snaps   []simSnapshot

	flushEvery time.Duration
	follower   *Follower
	arrived    map[uint64]int64     // Unix ms, true: when it followed a message of the log in this life
	unseen     uint64               // the next of them
	met        map[uint64]time.Time // by origin: when it first followed something of it in this life
	ages       simAges

	stalled time.Duration // until then it follows nothing
	batch   int           // snapshots of the last flush that are not stored yet, nor given up

	takes  bool // it believes that it holds the lease of snapshots
	listed bool // it knows what is in the slots
	rounds Rounds
	wants  []int // partitions of a round that is to start, whatever its rules say
	named  map[string]bool
}

const (
	simPartitions = 4
	simAckTime    = 400 * time.Millisecond
	simMemory     = 64 << 10 // of a partition, where keys are evicted: the least there is
)

// start makes a process: snapshots, then the log, then a new life.
func (n *simNode) start() {
	n.run++
	run := n.run
	n.c.net.SetDown(n.name, false)
	n.c.w.Logf("%s starts", n.name)
	var load func()
	load = func() {
		if n.run != run {
			return
		}
		n.c.log.Restart(n.name) // a start that fails ends the process, and its supervisor makes another
		if err := n.load(); err != nil {
			n.c.w.Logf("%s can't load: %v", n.name, err)
			n.c.w.After(200*time.Millisecond, load)
			return
		}
		n.hello(run)
	}
	load()
}

// load is Journal.load.
func (n *simNode) load() error {
	n.newEngine()
	first, last, err := n.c.log.Bounds(n.name)
	if err != nil {
		return err
	}
	snaps := make([]*record.Snapshot, simPartitions)
	for p := range snaps {
		if snaps[p], err = n.loadPartition(p); err != nil {
			return err
		}
	}
	start := n.r.Resume(snaps, first, last)
	n.c.w.Logf("%s loads messages %d to %d", n.name, start, last)
	n.c.blind = n.c.blind || len(n.r.audit.Findings) > 0
	if _, err = n.r.FollowTo(n.c.now(), last, n); err == nil {
		_, err = n.r.EndReplay(last, last)
	}
	n.learnRead(start)
	n.met = map[uint64]time.Time{}
	for sequence := uint64(1); sequence < n.r.Next(); sequence++ {
		n.meet(sequence)
	}
	n.arrived, n.unseen = map[uint64]int64{}, n.r.Next()
	return err
}

func (n *simNode) newEngine() {
	n.close()
	cfg := engine.Config{Partitions: simPartitions, Clock: engine.EventClock, Gather: true, Now: n.now, Elapsed: n.c.w.Now}
	if n.c.wild {
		cfg.Retention = simRetention
	}
	if n.c.crowded {
		cfg.Memory = simPartitions * simMemory
	}
	n.base, n.ages = n.clock, simAges{}
	e, err := engine.New(cfg)
	n.c.must(err)
	n.e = e
	n.newLimits()
	n.r = New(e, n.origin, n.name, true)
	n.r.Stamp, n.r.Sets = n.now, n.sets
	n.space = &Space{}
	for p := range simPartitions {
		if n.c.shares && n.c.w.Chance(.4) {
			n.e.Release(p)
		}
	}
	n.r.resends.most = n.c.ringBytes
	n.ops, n.once, n.sending, n.snaps, n.wants = nil, nil, nil, nil, nil
	n.moved = 0
	n.rounds = Rounds{AtOnce: 1 + n.c.w.IntN(simPartitions), Have: make([][record.Slots]Slot, simPartitions)}
	n.handing = false
	n.batch, n.stalled = 0, 0
	n.stores, n.mute = Stores{}, map[string]time.Time{}
	n.ready, n.leaving, n.listed, n.named = false, false, false, map[string]bool{}
	n.follower = NewFollower(n.r, n.c.now)
}

// hello is Journal.sayHello.
func (n *simNode) hello(run int) {
	n.epoch++
	n.r.Begin(record.Incarnation{Origin: n.origin, Epoch: n.epoch})
	if !n.c.crowded { // which key is evicted is not by the seed, nor is the size of batches then
		n.r.encoder.BatchBytes, n.r.encoder.PartBytes = 1<<n.c.w.IntN(8), 1<<n.c.w.IntN(9)
	}
	parts, began := n.r.Hello(n.c.now()), n.c.now()
	n.c.model.cut(n.r.encoder.Incarnation, 1, parts, nil, nil)
	done := false
	var follow func(sequence uint64)
	follow = func(sequence uint64) {
		if n.run != run {
			return
		}
		_, err := n.r.FollowTo(n.c.now(), sequence, n)
		n.arrive()
		if err != nil {
			n.c.w.Logf("%s can't follow to its hello: %v", n.name, err)
			if errors.Is(err, ErrLeftBehind) {
				n.crash()
				n.start()
				return
			}
			n.c.w.After(200*time.Millisecond, func() { follow(sequence) })
			return
		}
		n.space.Init(n.c.max, true)
		n.space.SetWriters(len(n.c.nodes))
		n.f = NewFlusher(n.r, n.space, sequence)
		n.lookForSpace()
		n.f.SaidHello(began, sequence)
		n.r.Ready()
		n.ready, n.since = true, n.c.now()
		n.c.w.Logf("%s is ready in epoch %d, hello at %d", n.name, n.epoch, sequence)
		n.tellFindings()
		n.c.w.Every(n.flushEvery, func() bool { return n.tick(run) })
		n.c.w.Every(HeartbeatEvery, func() bool { return n.beat(run) })
		if n.c.disks {
			n.c.w.Every(StoresEvery, func() bool { return n.watchStores(run) })
		}
		n.c.w.Every(n.c.w.Between(20*time.Millisecond, 60*time.Millisecond), func() bool { return n.follow(run) })
	}
	n.c.w.Every(simAckTime, func() bool {
		if n.run != run || done {
			return false
		}
		n.c.log.Restart(n.name)
		n.c.log.Publish(n.name, parts[0], func(sequence uint64) {
			if n.run == run && !done {
				done = true
				follow(sequence)
			}
		})
		return true
	})
}

// close lets the engine's goroutine go.
func (n *simNode) close() {
	if n.e != nil {
		n.c.must(n.e.Close())
	}
	n.e = nil
}

// crash loses all that is in memory.
func (n *simNode) crash() {
	n.c.w.Logf("%s crashes, with %d ops", n.name, len(n.ops))
	n.run++
	n.ready = false
	n.c.net.SetDown(n.name, true)
	n.c.log.Crash(n.name)
	n.close()
}

func (n *simNode) up() bool { return n.e != nil }

// tick is one interval of Journal.runFlusher.
func (n *simNode) tick(run int) bool {
	if n.run != run {
		return false
	}
	if n.sending != nil || n.handing || n.c.quiet {
		return true
	}
	n.lookForSpace()
	arriving := n.r.nextArrivals()
	n.f.Begin(n.c.now(), FlushOptions{CutOptions{Leaving: n.leaving, EvenEmpty: n.noteClockSet()}, n.leaving, n.due})
	if n.f.Part() == nil {
		if len(n.ops) > 0 {
			n.c.t.Fatalf("%s has %d ops and makes no flush", n.name, len(n.ops))
		}
		n.checkArrived(arriving)
		n.offer(n.f.End(), n.with(n.f.cut.Snaps))
		return true
	}
	n.sending = n.c.model.cut(n.r.encoder.Incarnation, n.r.encoder.Flush, n.f.Parts(), n.ops, n.once)
	n.sending.leaving = n.leaving
	n.learnOwn(n.sending)
	n.checkArrived(arriving)
	n.snaps = n.with(n.f.cut.Snaps)
	n.c.w.Logf("%s cuts flush %d: %d ops, %d parts, %d snapshots", n.name, n.sending.flush, len(n.ops), len(n.f.Parts()), len(n.snaps))
	n.ops, n.once = nil, nil
	n.send(run)
	return true
}

// send publishes the next part until it is acknowledged.
func (n *simNode) send(run int) {
	flush, part := n.sending, n.f.sent
	again := func() bool { return n.run == run && n.sending == flush && n.f.sent == part }
	publish := func() {
		n.c.log.Publish(n.name, n.f.Part(), func(sequence uint64) {
			if !again() {
				return
			}
			n.f.Acknowledged(sequence)
			if n.f.Part() != nil {
				n.send(run)
				return
			}
			done := n.f.End()
			n.sending = nil
			flush.acked = true
			n.c.w.Logf("%s has flush %d acknowledged at %d", n.name, flush.flush, sequence)
			n.offer(done, n.snaps)
			if n.leaving {
				n.c.w.Logf("%s has left", n.name)
				n.crash()
			}
		})
	}
	publish()
	n.c.w.Every(simAckTime, func() bool {
		if !again() {
			return false
		}
		publish()
		return true
	})
}

// follow is some turns of Journal.runFollower.
func (n *simNode) follow(run int) bool {
	if n.run != run {
		return false
	}
	if n.c.w.Now() >= n.stalled {
		if n.c.w.Chance(.9) { // else the announcement is lost
			n.follower.Ahead.Hint(n.c.log.Last())
		}
		if failed := n.follower.Ask(simAsker{n, run}); failed != nil {
			n.c.w.Logf("%s can't ask: %v", n.name, failed)
		}
		for range 1 + n.c.w.IntN(20) {
			others, ok, err := n.follower.Apply(n)
			if !ok {
				break
			}
			if others > 0 {
				n.space.Wrote(others)
			}
			n.arrive()
			n.tellFindings()
			if errors.Is(err, ErrLeftBehind) {
				n.c.w.Logf("%s is left behind", n.name)
				if n.c.protected[n.name] { // with its resend buffer goes what the log lost
					n.c.holes = simBeyond
				}
				n.crash()
				n.start()
				return false
			}
		}
	}
	n.checkFreshness()
	n.checkLate()
	return true
}

// simAsker puts the asks of one life of a node to the log. Answers come from some replica, some time later, or never.
type simAsker struct {
	n   *simNode
	run int
}

func (a simAsker) Send(ask *Ask) error {
	n, ahead := a.n, &a.n.follower.Ahead
	n.c.log.Read(n.name, ask.From, int(ask.To-ask.From+1), func(list []Message, pending int, err error) {
		if n.run != a.run {
			return
		}
		if err != nil {
			ahead.Fail(n.c.now(), ask)
			return
		}
		for _, m := range list {
			ahead.Take(n.c.now(), ask, n.r.Next(), m.Sequence, m.Data)
		}
		ahead.End(n.c.now(), ask, uint64(pending))
	})
	return nil
}

func (simAsker) GiveUp(*Ask) {}

// beat is a turn of Journal.runBeats.
func (n *simNode) beat(run int) bool {
	if n.run != run {
		return false
	}
	b := Heartbeat{n.r.encoder.Incarnation, n.name, Promised(n.flushEvery), n.f.Written().Flush, n.c.now().Sub(n.f.Written().Began), ""}
	n.r.Hear(n.c.now(), b)
	registered := n.c.log.leaderFor(n.name) != nil // Keeper.Run reaches the registry
	if registered {
		n.c.members[n.name] = n.r.encoder.Incarnation
	}
	for _, other := range n.c.nodes {
		if other == n {
			continue
		}
		if peer := n.c.members[other.name]; registered && peer.Epoch > 0 {
			n.r.Expect(n.c.now(), peer, other.name)
		}
		n.c.net.Send(n.name, other.name, func() {
			if other.ready {
				got, ok := DecodeHeartbeat(b.Encode())
				if !ok {
					n.c.failf("a beat can't be read: %+v", b)
				}
				other.r.Hear(other.now(), got)
			}
		})
	}
	return true
}

// Message and resend are those of asked.
func (n *simNode) Message(sequence uint64) ([]byte, error) {
	data, err := n.c.log.Get(n.name, sequence)
	if errors.Is(err, ErrNoMessage) {
		data, err = n.c.log.GetOfLeader(n.name, sequence)
	}
	if !errors.Is(err, ErrNoMessage) {
		return data, err
	}
	first, _, err := n.c.log.Bounds(n.name)
	switch {
	case err != nil:
		return nil, err
	case first > sequence:
		return nil, ErrLeftBehind
	}
	n.c.w.Logf("%s finds a hole at %d", n.name, sequence)
	n.c.alarms++
	return nil, ErrLost
}

func (n *simNode) Resend(origin record.Incarnation, flush, part uint64) ([]byte, error) {
	for _, other := range n.c.nodes {
		if !other.up() || other.r.encoder == nil || other.r.encoder.Incarnation != origin {
			continue
		}
		if data := other.r.resends.get(flush, part); data != nil && (n.c.holes == simCovered || n.c.net.Reach(n.name, other.name)) {
			n.c.w.Logf("%s gets flush %d part %d again from %s", n.name, flush, part, other.name)
			return data, nil
		}
	}
	return nil, ErrUnreachable
}

func (n *simNode) tellFindings() {
	for _, f := range n.r.NewFindings() {
		n.c.alarms++
		n.c.w.Logf("%s: FINDING %s", n.name, f)
		for p := range simPartitions {
			if strings.HasSuffix(f.Where, fmt.Sprintf("partition %d", p)) && strings.HasPrefix(f.What, "a key was deleted") {
				n.c.unsure[p] = true
			}
		}
	}
}

// request applies a request under an idempotency key: the first time it comes, with hits that are new.
func (n *simNode) request(key string) {
	must := n.mustKnow(key)
	answer, repeated, err := n.e.Receipts().Once(context.Background(), "", key, 1, func(recorded *replication.RequestRecorder) (answer []byte) {
		var ops [3]simOp
		for i := range ops {
			ops[i] = n.newHit(n.c.key())
		}
		if was, again := n.c.requests[key]; again {
			ops = was
		}
		n.c.requests[key] = ops
		counted := len(n.ops)
		for _, op := range ops {
			op.wall, op.right = n.wall(), n.c.now().UnixMilli()
			removals := n.e.Keyspace().Removals(op.key)
			outcome, err := n.e.HitAt(time.Unix(op.at, 0), op.key, op.n)
			if err != nil || outcome == engine.TooLate {
				break // as a server does; the clock of a retry's node may be another
			}
			recorded.Add(op.at, op.key, removals, op.n)
			n.ops = append(n.ops, op)
			answer = []byte("ok")
		}
		total := uint64(0)
		for _, op := range n.ops[counted:] {
			total += op.n
		}
		for i := range n.ops[counted:] {
			n.ops[counted+i].request = simRequest{key, total}
		}
		return answer
	})
	n.c.must(err)
	if must && !repeated {
		n.c.failf("%s applied request %s again", n.name, key)
	}
	if !repeated && answer != nil {
		n.once = append(n.once, key)
	}
}

// simTopic is the topic that nodes read, with no lease: several at once.
var simTopic = replication.RequestID{1}

// read counts the next messages of the topic, as far as this node knows: another node may have, and it may be one that read it long ago.
func (n *simNode) read() {
	if n.r.audit.progressOf(n.origin).flush < n.moved {
		return // it does not know yet whether its last move counts
	}
	from, _ := n.r.Position(simTopic)
	for len(n.c.topic) < int(from.Offset)+5 {
		n.c.topic = append(n.c.topic, n.newHit(n.c.key()))
	}
	n.e.Receipts().Advance(simTopic, func(recorded *replication.RequestRecorder) replication.Move {
		move := replication.Move{From: from, To: from}
		for _, op := range n.c.topic[from.Offset:][:1+n.c.w.IntN(5)] {
			op.wall, op.right, op.from = n.wall(), n.c.now().UnixMilli(), from.Offset+1
			removals := n.e.Keyspace().Removals(op.key)
			outcome, err := n.e.HitAt(time.Unix(op.at, 0), op.key, op.n)
			if err != nil || outcome == engine.TooLate {
				break // its clock may be another
			}
			recorded.Add(op.at, op.key, removals, op.n)
			n.ops = append(n.ops, op)
			move.To.Offset++
		}
		if move.To != from {
			n.moved = n.r.encoder.Flush + 1
		}
		return move
	})
}

func (n *simNode) newHit(key string) simOp {
	return simOp{kind: simHit, key: key, at: n.now().Unix() - n.c.w.Int64N(900), n: 1 + n.c.w.Uint64N(3), wall: n.wall(), right: n.c.now().UnixMilli()}
}

func (n *simNode) hit(key string) {
	op := n.newHit(key)
	outcome, err := n.e.HitAt(time.Unix(op.at, 0), key, op.n)
	if n.refused(err) {
		return
	}
	n.c.must(err)
	if outcome == engine.Counted || outcome == engine.Late {
		n.ops = append(n.ops, op)
	} else {
		n.c.failf("a hit is %v", outcome)
	}
}
