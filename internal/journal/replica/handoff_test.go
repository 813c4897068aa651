package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/limit"
)

// taking is a node that lets partitions go and takes them back, and its log.
type taking struct {
	t   *testing.T
	log *soundLog
	now time.Time     // goes on
	set time.Duration // by how much the time of day was set
	e   *engine.Engine
	r   *Replica
}

func newTaking(t *testing.T, origin uint64, log *soundLog) *taking {
	n := &taking{t: t, log: log, now: time.Unix(1_700_000_000, 0)}
	begin := n.now
	e, err := engine.New(engine.Config{
		Partitions: 2, Clock: engine.EventClock, Gather: true,
		Now: func() time.Time { return n.now.Add(n.set) }, Elapsed: func() time.Duration { return n.now.Sub(begin) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	n.e, n.r = e, New(e, origin, "n", true)
	n.r.Stamp = e.Wall
	n.r.Begin(record.Incarnation{Origin: origin, Epoch: 1})
	n.log.add(n.r.Hello(n.now))
	n.follow()
	n.r.Ready()
	return n
}

func (n *taking) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *taking) follow() {
	n.t.Helper()
	_, err := n.r.FollowTo(n.now, n.log.len(), n.log)
	n.must(err)
}

// flush writes all that was taken, with the states of some partitions, and follows it.
func (n *taking) flush(states map[int]bool) Flush {
	n.t.Helper()
	f := n.r.Cut(n.now, CutOptions{States: states, EvenEmpty: true})
	n.log.add(f.Parts)
	n.follow()
	return f
}

// take is a hand-off up to where the next cut takes the partition. then is what happens after
// the node began to keep what it follows.
func (n *taking) take(partition int, snap *record.Snapshot, then func()) (held <-chan error) {
	n.t.Helper()
	snaps := make([]*record.Snapshot, 2)
	snaps[partition] = snap
	h, ok := n.r.beginHandOff([]int{partition}, snaps)
	if !ok {
		n.t.Fatal("the snapshot is ahead of what was followed")
	}
	h.scratch.audit.ResumeOf(h.gathered.of, h.snaps, h.upTo)
	_, err := h.scratch.FollowTo(n.now, h.upTo, n.log)
	n.must(err)
	then()
	held = h.arrivals[0].held
	n.must(n.r.commitHandOff(h))
	return held
}

// A partition whose state is due in the flush that it arrives with is held from that flush on, and its
// state is taken later in the same round: with the flush itself the own hits from before are on
// their way still.
func TestPartitionIsDueAsItArrives(t *testing.T) {
	t.Parallel()
	const partition = 1
	n := newTaking(t, 1, &soundLog{})
	n.r.Release(partition)
	held := n.take(partition, nil, func() {})
	due := map[int]bool{partition: true}
	f := n.flush(due)
	if !n.e.Holds(partition) {
		t.Fatal("the flush did not take the partition")
	}
	n.must(<-held)
	if later := n.r.Later(due, f.Snaps); len(f.Snaps) > 0 || !slices.Equal(later, []int{partition}) {
		t.Errorf("the flush has %d states, and %v are to be taken later", len(f.Snaps), later)
	}
}

// The time of day is set forward by hours around a hand-off: what keys have used of their
// limits counts as long as it should where the partition is taken, whatever has it.
func TestTheClockIsSetAroundAHandOff(t *testing.T) {
	t.Parallel()
	const step = 3 * time.Hour
	for name, c := range map[string]struct {
		state  bool // a snapshot has it; else the journal has
		before bool // the clock is set before the hand-off begins; else in the middle
		other  bool // it is another node's, and comes in the middle
		noted  bool // the set is in the list that starts read too
	}{
		"a snapshot, and then a set":            {state: true, before: true, noted: true},
		"a snapshot, and a set that is new":     {state: true, before: true},
		"a snapshot, and a set in the middle":   {state: true},
		"the journal, and then a set":           {before: true, noted: true},
		"the journal, and a set that is new":    {before: true},
		"the journal, and a set in the middle":  {},
		"another's in the middle, and then set": {other: true},
		"set, and then another's in the middle": {other: true, before: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &soundLog{}
			n := newTaking(t, 1, log)
			by := n
			if c.other {
				by = newTaking(t, 2, log)
				n.follow()
			}
			const key = "k"
			partition := n.e.PartitionOf(key)
			limitOf := func(n *taking) *engine.KeyedLimit {
				l, err := n.e.LimitIn("n", limit.WhereLeased, "hourly", engine.Limit{N: 5, Per: time.Hour})
				n.must(err)
				return l
			}
			use := func() {
				for range 5 {
					v, err := limitOf(by).Take(key, 1)
					if n.must(err); !v.Allowed {
						t.Fatal("denied below the limit")
					}
				}
				by.flush(nil)
				n.follow()
			}
			set := func() {
				n.set += step
				if c.noted {
					n.r.NoteClockSet(n.r.Next() - 1)
				}
			}
			var snap *record.Snapshot
			if !c.other {
				use()
			}
			if c.state {
				f := n.flush(map[int]bool{partition: true})
				snap = &f.Snaps[0]
			}
			n.r.Release(partition)
			n.now = n.now.Add(time.Minute)
			if c.before {
				set()
			}
			held := n.take(partition, snap, func() {
				if c.other {
					by.now = n.now
					use()
				}
				if !c.before {
					set()
				}
			})
			n.flush(nil)
			n.must(<-held)
			v, err := limitOf(n).Peek(key, 1)
			if n.must(err); v.Allowed || v.RetryAfter < 58*time.Minute || v.RetryAfter > time.Hour {
				t.Errorf("after 5 of 5 an hour, a minute ago: %+v", v)
			}
			n.now = n.now.Add(time.Hour)
			if v, err = limitOf(n).Peek(key, 1); err != nil || !v.Allowed {
				t.Errorf("an hour later: %+v, %v", v, err)
			}
		})
	}
}
