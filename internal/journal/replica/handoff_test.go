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
	t   testing.TB
	log *soundLog
	now time.Time     // goes on
	set time.Duration // by how much the time of day was set
	e   *engine.Engine
	r   *Replica
}

func newTaking(t *testing.T, origin uint64, log *soundLog) *taking {
	return newTakingOf(t, origin, log, engine.Config{Partitions: 2})
}

func newTakingOf(t testing.TB, origin uint64, log *soundLog, cfg engine.Config) *taking {
	n := &taking{t: t, log: log, now: time.Unix(1_700_000_000, 0)}
	begin := n.now
	cfg.Clock, cfg.Gather = engine.EventClock, true
	cfg.Now, cfg.Elapsed = func() time.Time { return n.now.Add(n.set) }, func() time.Duration { return n.now.Sub(begin) }
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	n.e, n.r = e, New(e, origin, "n", true)
	n.r.Stamp = e.Wall().Time
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
// the node began to keep what it follows. held returns once the partition is held.
func (n *taking) take(partition int, snap *record.Snapshot, then func()) (held func() error) {
	n.t.Helper()
	h, err := n.r.newHandOff([]int{partition})
	n.must(err)
	n.must(h.load(takingFrom{n, snap}))
	if !n.r.covers(h) {
		n.t.Fatal("the snapshot is ahead of what was followed")
	}
	n.must(h.catchUp(takingFrom{n, snap}, n.r.beginHandOff(h)))
	then()
	n.r.commitHandOff(h)
	return func() error {
		c := h.arrivals[partition]
		<-c.held
		return c.err
	}
}

// takingFrom is the world around a hand-off of a partition with one snapshot, or none.
type takingFrom struct {
	*taking
	snap *record.Snapshot
}

func (t takingFrom) Now() time.Time         { return t.now }
func (t takingFrom) Pause() error           { return nil }
func (t takingFrom) First() (uint64, error) { return 1, nil }
func (t takingFrom) Hurry([]int)            {}

func (t takingFrom) Message(sequence uint64) ([]byte, error) { return t.log.Message(sequence) }

func (t takingFrom) Resend(origin record.Incarnation, flush, part uint64) ([]byte, error) {
	return t.log.Resend(origin, flush, part)
}

func (t takingFrom) Snapshots(_ []int, each func(record.Snapshot)) error {
	if t.snap != nil {
		each(*t.snap)
	}
	return nil
}

func (t takingFrom) Read(from, to uint64, each func(sequence uint64, data []byte) error) error {
	for ; from <= to; from++ {
		data, err := t.log.Message(from)
		if err == nil {
			err = each(from, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t takingFrom) Await(held <-chan struct{}) error {
	<-held
	return nil
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
	if !n.e.Keyspace().Holds(partition) {
		t.Fatal("the flush did not take the partition")
	}
	n.must(held())
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
			partition := n.e.Keyspace().PartitionOf(key)
			limitOf := func(n *taking) *engine.KeyedLimit {
				l, err := n.e.Limits().LimitIn("n", limit.WhereLeased, "hourly", engine.Limit{N: 5, Per: time.Hour})
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
			n.must(held())
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
