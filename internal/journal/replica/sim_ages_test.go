package replica

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A node counts an admission of another one as of when it came, less how old it was when
// its origin cut it; one that it reads when it starts, as of what its origin's clock said;
// and whoever loads a snapshot, as of when its taker counted it. So an admission counts for
// some time longer than its interval, and how long is not the same on every node: it is
// what simAge tells, so that decisions can be held against exactly what a node knows.

// simAge is by how many ms the admissions of a key in a flush may count as later than they
// were, on one node: at least and at most. That of what may be missing is simMissing at least.
type simAge struct{ least, most int64 }

// simMissing is the age of what counts no more, or may not have come.
const simMissing = math.MinInt64 / 4

// simRounding is by how many ms a time may be off.
const simRounding = 2

// or is the age of what is known either way.
func (a simAge) or(b simAge) simAge { return simAge{min(a.least, b.least), max(a.most, b.most)} }

// simUsed are the admissions of a key in a flush.
type simUsed struct {
	flush *simFlush
	key   string
}

// times are when the first and the last of them were, in true Unix ms.
func (u simUsed) times() (oldest, newest int64) {
	oldest = math.MaxInt64
	for _, op := range u.flush.ops {
		if op.admits() && op.key == u.key {
			oldest, newest = min(oldest, op.right), max(newest, op.right)
		}
	}
	return oldest, newest
}

// used are the admissions of a flush, by key.
func (f *simFlush) used() (list []simUsed) {
	keys := map[string]bool{}
	for _, op := range f.ops {
		if op.admits() && !keys[op.key] {
			keys[op.key] = true
			list = append(list, simUsed{f, op.key})
		}
	}
	return list
}

// simPer is the interval in ms of the limit that a key is asked for.
func simPer(key string) int64 {
	if strings.HasPrefix(key, "s") {
		return simScarcePer.Milliseconds()
	}
	return simLimitPer.Milliseconds()
}

func (op simOp) admits() bool { return op.kind == simAdmission || op.kind == simScarceAdmission }

// simAges are what a node, or a snapshot, knows of admissions.
type simAges map[simUsed]simAge

// learn notes admissions that count as by ms later from now on, in true Unix ms: no later
// than now, and not at all if they are over.
func (ages simAges) learn(u simUsed, by simAge, now int64) {
	oldest, newest := u.times()
	by.most = min(by.most, now-newest)
	by.least = min(by.least, now-newest)
	if oldest+by.least <= now-simPer(u.key) {
		by.least = simMissing
	}
	switch was, ok := ages[u]; {
	case ok && was.least == simMissing: // it has come
		by.most = max(by.most, was.most)
	case ok:
		by = by.or(was)
	}
	ages[u] = by
}

// rightly is the true time in Unix ms.
func (c *simCluster) rightly() int64 { return c.now().UnixMilli() }

// learnOwn notes what a node has just cut: it counts as of when it was.
func (n *simNode) learnOwn(f *simFlush) {
	f.cut, f.clock = n.c.rightly(), n.clock.Milliseconds()
	for _, u := range f.used() {
		n.ages[u] = simAge{}
	}
}

// learnFollowed notes what a message made whole that was followed: of another life it
// counts as of when it came.
func (n *simNode) learnFollowed(sequence uint64) {
	f := n.c.model.whole[sequence]
	if f == nil {
		return
	}
	now := n.c.rightly()
	for _, u := range f.used() {
		if _, known := n.ages[u]; !known { // else it is its own, or a snapshot had it
			n.ages.learn(u, asSaid(now-f.cut, u.key), now)
		}
	}
}

// simSlack is by how many ms the admissions of the scarce limit, which one node may decide for all, count as later.
const simSlack = 1000

// asSaid is the age in ms of admissions of a key that the journal has.
func asSaid(by int64, key string) simAge {
	if strings.HasPrefix(key, "s") {
		by += simSlack
	}
	return simAge{by - simRounding, by + simRounding}
}

// asRead is the age of what a flush of the log says by its origin's clock, where it is read now:
// later by what the reader's clock was set forward since.
func (n *simNode) asRead(f *simFlush, key string) simAge {
	return asSaid(f.clock-n.clock.Milliseconds()+n.sinceSet(f.sequence), key)
}

// learnRead notes what is read in the journal, from a message up to the one before next, by
// who starts: it counts as of what its origin's clock said.
func (n *simNode) learnRead(start uint64) {
	now := n.c.rightly()
	for _, f := range n.c.model.counted {
		if f.sequence < start || f.sequence >= n.r.Next() {
			continue
		}
		for _, u := range f.used() {
			if _, known := n.ages[u]; known { // by a snapshot
				continue
			}
			by := n.asRead(f, u.key)
			if f.begins < start {
				by.least = simMissing
			}
			n.ages.learn(u, by, now)
		}
	}
}

// simClock is by which clock the times of a snapshot are: what it was ahead when the process
// started, and when the snapshot was taken, in ms.
type simClock struct{ base, taken int64 }

// agesOf are what a snapshot of a partition knows.
func (n *simNode) agesOf(partition int) (ages simAges, by simClock) {
	ages = simAges{}
	now := n.c.rightly()
	for u, age := range n.ages {
		if n.e.Keyspace().PartitionOf(u.key) == partition {
			ages.learn(u, age, now)
		}
	}
	return ages, simClock{n.base.Milliseconds(), n.clock.Milliseconds()}
}

// inherit notes what a snapshot knows, whose times are moved to this node's clock, unless the
// two are a second apart or less.
func (n *simNode) inherit(s simSlot) {
	base, clock, now := n.base.Milliseconds(), n.clock.Milliseconds(), n.c.rightly()
	moved, kept := s.clock.taken-clock+n.sinceSet(s.from), s.clock.base-base
	by := simAge{moved, moved}
	if gap := moved - kept; gap > -time.Second.Milliseconds()-simRounding && gap < simRounding {
		by = by.or(simAge{kept, kept})
	}
	for u, age := range s.ages {
		if age.least > simMissing {
			age.least += by.least - simRounding
		}
		n.ages.learn(u, simAge{age.least, age.most + by.most + simRounding}, now)
	}
}

// checkArrived checks that the node holds the partitions that a cut took.
func (n *simNode) checkArrived(arriving map[int]*arrival) {
	for _, p := range slices.Sorted(maps.Keys(arriving)) {
		if !n.e.Keyspace().Holds(p) {
			n.c.failf("%s cut partition %d, which was ready to be taken, and does not hold it", n.name, p)
		}
	}
}

// admissions are those of a key within the interval of its limit that a node must know
// of, and all that may count for it.
func (n *simNode) admissions(key string) (known, made int) {
	since := n.c.rightly() - simPer(key)
	count := func(ops []simOp, age simAge) {
		all, each, counts := 0, 0, false
		for _, op := range ops {
			if op.admits() && op.key == key {
				all++
				if age.most >= since-1-op.right {
					each, counts = each+1, true
				}
				if age.least > since-op.right {
					known++
				}
			}
		}
		switch {
		case age == simAge{}: // its own: each as of when it was
			made += each
		case counts:
			made += all
		}
	}
	count(n.ops, simAge{})
	seen := maps.Clone(n.ages)
	for _, f := range n.c.model.flushes {
		if f.lost { // it may have been sent again, to anybody at any time
			seen[simUsed{f, key}] = simAge{simMissing, math.MaxInt64 / 4}
		}
	}
	for u, age := range seen {
		if u.key == key {
			count(u.flush.ops, age)
		}
	}
	return known, made
}
