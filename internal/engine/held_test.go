package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// heldNode is an engine that holds some partitions, and what its journal has of each:
// the state of the last cut that was asked for it, and the deltas after it.
type heldNode struct {
	t      *testing.T
	e      *Engine
	states map[int][]byte
	then   map[int][]replication.Delta
}

func newHeldNode(t *testing.T) *heldNode {
	e, err := New(Config{Partitions: 4, Gather: true, Clock: EventClock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return &heldNode{t, e, map[int][]byte{}, map[int][]replication.Delta{}}
}

func (n *heldNode) cut(partition int, withState bool) {
	var c replication.Cut
	withState = withState && n.e.keys.Holds(partition)
	n.e.Cut(partition, &c, withState)
	n.then[partition] = append(n.then[partition], c.Deltas...)
	if withState {
		n.states[partition], n.then[partition] = c.State, nil
	}
}

func (n *heldNode) hold(partition int) {
	n.cut(partition, false)
	if err := hold(n.e, partition, n.states[partition], []replication.Followed{{Deltas: n.then[partition]}}); err != nil {
		n.t.Fatal(err)
	}
}

// A partition that went and came back counts as one that was always held, whatever
// was hit, cut and deleted meanwhile.
func TestReleaseAndHold(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		n, model := newHeldNode(t), newHeldNode(t)
		for range 400 {
			partition, key := r.IntN(4), fmt.Sprint("k", r.IntN(30))
			switch r.IntN(12) {
			case 0:
				n.e.Release(partition)
			case 1:
				if !n.e.keys.Holds(partition) {
					n.hold(partition)
				}
			case 2, 3:
				n.cut(partition, r.IntN(3) == 0)
			case 4:
				was, err := n.e.Delete(key)
				if held := n.e.keys.Holds(n.e.keys.PartitionOf(key)); held != (err == nil) {
					t.Fatalf("seed %d: held %v, and a removal says %v", seed, held, err)
				}
				if err == nil {
					if modelWas, _ := model.e.Delete(key); was != modelWas {
						t.Fatalf("seed %d: %s was there: %v, want %v", seed, key, was, modelWas)
					}
				}
			default:
				at, hits := time.Unix(1_700_000_000+r.Int64N(900), 0), 1+r.Uint64N(3)
				if r.IntN(20) == 0 {
					hits += keyspace.MaxCellHits
				}
				for _, e := range []*Engine{n.e, model.e} {
					if _, err := e.HitAt(at, key, hits); err != nil {
						t.Fatal(err)
					}
				}
			}
			n.check(seed, model, key)
		}
		for partition := range 4 {
			if !n.e.keys.Holds(partition) {
				n.hold(partition)
			}
			n.cut(partition, false)
			model.cut(partition, false)
		}
		for i := range 30 {
			n.check(seed, model, fmt.Sprint("k", i))
		}
		n.check(seed, model, AllKeys)
		if got, want := n.e.Stats(), model.e.Stats(); got.Keys != want.Keys || got.Waiting != 0 {
			t.Fatalf("seed %d: %d keys, %d waiting, want %d keys", seed, got.Keys, got.Waiting, want.Keys)
		}
	}
}

func (n *heldNode) check(seed uint64, model *heldNode, key string) {
	n.t.Helper()
	at := time.Unix(1_700_000_900, 0)
	for _, w := range []time.Duration{time.Minute, 300 * time.Second, time.Hour} {
		got, err := n.e.CountAt(at, key, w)
		if key != AllKeys && !n.e.keys.Holds(n.e.keys.PartitionOf(key)) {
			var refused *Error
			if !errors.As(err, &refused) || refused.Code != api.CodeNotHeld {
				n.t.Fatalf("seed %d: a count of a key that is not held: %v, %v", seed, got, err)
			}
			continue
		}
		want, _ := model.e.CountAt(at, key, w)
		if err != nil || got != want {
			n.t.Fatalf("seed %d: %s in %v is %v, want %v; %v", seed, key, w, got, want, err)
		}
	}
}

// Hits of many goroutines are each in one cut, whatever is released and taken back.
func TestReleaseBesideHits(t *testing.T) {
	n := newHeldNode(t)
	const each, writers = 10_000, 4
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for i := range each {
				if _, err := n.e.HitAt(time.Unix(1_700_000_000+int64(i/1000), 0), fmt.Sprint("k", i%7), 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		for partition := range 4 {
			n.cut(partition, true)
			n.e.Release(partition)
			n.cut(partition, false)
			n.hold(partition)
		}
	}
	for partition := range 4 {
		n.cut(partition, false)
	}
	c, err := n.e.CountAt(time.Unix(1_700_000_100, 0), AllKeys, time.Hour)
	if err != nil || c.Lower != each*writers || !c.Exact() {
		t.Errorf("%v hits, %v, want %d", c, err, each*writers)
	}
	if s := n.e.Stats(); s.Waiting != 0 || s.Keys != 7 {
		t.Errorf("%d wait, %d keys", s.Waiting, s.Keys)
	}
}

// What is kept of a partition that is not held goes with the cut.
func TestReleaseFreesMemory(t *testing.T) {
	n := newHeldNode(t)
	empty := n.e.Stats().Bytes
	for partition := range 4 {
		n.e.Release(partition)
	}
	for i := range 10_000 {
		if _, err := n.e.HitAt(time.Unix(1_700_000_000, 0), fmt.Sprint("k", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	for partition := range 4 {
		n.cut(partition, false)
	}
	if s := n.e.Stats(); s.Keys != 0 || s.Bytes != empty || s.Waiting != 0 {
		t.Errorf("%d keys, %d bytes, %d waiting; want %d bytes", s.Keys, s.Bytes, s.Waiting, empty)
	}
}

// While the journal is away, keys that pass through leave those that are held alone, and
// take no more than their part.
func TestWhatPassesThroughEvictsNothing(t *testing.T) {
	const budget = 4 << 20
	e, err := New(Config{Partitions: 16, Gather: true, Clock: EventClock, Memory: budget})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	hit := func(key string) {
		if _, err := e.HitAt(time.Unix(1_700_000_000, 0), key, 1); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10_000 {
		hit(fmt.Sprint("k", i))
	}
	var c replication.Cut
	for partition := range 16 {
		e.Cut(partition, &c, false)
		if partition >= 8 {
			e.Release(partition)
		}
	}
	before := e.Stats()
	for i, n := 0, 0; n < 60_000; i++ {
		if key := fmt.Sprint("n", i); !e.keys.Holds(e.keys.PartitionOf(key)) {
			hit(key)
			n++
		}
	}
	if s := e.Stats(); s.EvictedKeys != 0 || s.Bytes > before.Bytes+budget/8+budget/100 || s.Hits != before.Hits+60_000 {
		t.Errorf("%d keys evicted, %d bytes after %d, %d hits", s.EvictedKeys, s.Bytes, before.Bytes, s.Hits)
	}
}

// A partition that does not fit takes space of all alike.
func TestHoldMakesSpaceEvenly(t *testing.T) {
	e, err := New(Config{Partitions: 16, Gather: true, Clock: EventClock, Memory: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	fill := func(name string, upTo int64) {
		for i := 0; e.Stats().Bytes < upTo; i++ {
			if _, err := e.HitAt(time.Unix(1_700_000_000, 0), fmt.Sprint(name, i), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill("k", 3900<<10)
	var c replication.Cut
	e.Cut(3, &c, true)
	state := append([]byte(nil), c.State...)
	e.Release(3)
	fill("n", 4000<<10)
	if err := hold(e, 3, state, nil); err != nil {
		t.Fatal(err)
	}
	for i := range e.cfg.Partitions {
		keys := -1 // the window of all is none
		e.keys.Settled(i, func(string, *window.Window) { keys++ })
		if keys < 1000 {
			t.Errorf("partition %d has %d keys left", i, keys)
		}
	}
	if s := e.Stats(); s.Bytes > s.MemoryBudget || s.EvictedKeys == 0 {
		t.Errorf("%d bytes of %d, %d keys evicted", s.Bytes, s.MemoryBudget, s.EvictedKeys)
	}
}

// No answer lacks anything, whenever it is asked.
func TestQuestionsWhileReleasedAndHeld(t *testing.T) {
	n := newHeldNode(t)
	key := "k"
	partition := n.e.keys.PartitionOf(key)
	at := time.Unix(1_700_000_299, 0)
	for i := range int64(300) {
		if _, err := n.e.HitAt(time.Unix(1_700_000_000+i, 0), key, 1); err != nil {
			t.Fatal(err)
		}
	}
	n.cut(partition, true)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for _, ask := range []func() (uint64, error){
		func() (uint64, error) { c, err := n.e.CountAt(at, key, time.Hour); return c.Lower, err },
		func() (sum uint64, err error) {
			points, err := n.e.Series(key, at.Add(-300*time.Second), at, time.Second)
			for _, p := range points {
				sum += p.Lower
			}
			return sum, err
		},
	} {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got, err := ask(); err == nil && got != 300 {
					t.Errorf("%d hits, want 300", got)
					return
				}
			}
		})
	}
	for range 300 {
		n.e.Release(partition)
		n.hold(partition)
	}
	close(stop)
	asking.Wait()
}

func TestQuestionsAboutSomePartitions(t *testing.T) {
	n := newHeldNode(t)
	at := time.Unix(1_700_000_000, 0)
	keys := map[string]bool{}
	for i := range 100 {
		key := fmt.Sprint("k", i)
		if _, err := n.e.HitAt(at, key, 1); err != nil {
			t.Fatal(err)
		}
		keys[key] = true
	}
	for partition := range 4 {
		n.cut(partition, false)
	}
	n.e.Release(3)
	var sum uint64
	for partition := range 3 {
		in := replication.NewPartitionSet(4)
		in.Add(partition)
		top, err := n.e.TopIn(in, at, time.Minute, 100, "k")
		if err != nil {
			t.Fatal(err)
		}
		list, err := n.e.KeysIn(in, "k", "", 100)
		if err != nil || len(list) != len(top) {
			t.Errorf("%d keys, %d in the top, %v", len(list), len(top), err)
		}
		for _, key := range list {
			if n.e.keys.PartitionOf(key) != partition || !keys[key] {
				t.Errorf("%s is not of partition %d", key, partition)
			}
		}
		c, err := n.e.CountIn(in, at, AllKeys, time.Minute)
		if err != nil || c.Lower != uint64(len(list)) {
			t.Errorf("%v hits of %d keys, %v", c, len(list), err)
		}
		points, err := n.e.SeriesIn(in, AllKeys, at.Add(-time.Minute), at, time.Minute)
		if err != nil || len(points) != 1 || points[0].Count != c {
			t.Errorf("%v, %v, want %v", points, err, c)
		}
		sum += c.Lower
	}
	var refused *Error
	for name, ask := range map[string]func() error{
		"count":  func() error { _, err := n.e.CountAt(at, AllKeys, time.Minute); return err },
		"series": func() error { _, err := n.e.Series(AllKeys, at.Add(-time.Minute), at, time.Minute); return err },
		"top":    func() error { _, err := n.e.Top(at, time.Minute, 10, ""); return err },
		"keys":   func() error { _, err := n.e.Keys("", "", 10); return err },
	} {
		if err := ask(); !errors.As(err, &refused) || refused.Code != api.CodeNotHeld {
			t.Errorf("%s of all partitions: %v", name, err)
		}
	}
	if held := n.e.HeldPartitions(); held.Len() != 3 || held.Has(3) || !held.Has(0) || sum == 0 {
		t.Errorf("%v is held, %d hits", held, sum)
	}
}

// hold has an engine take a partition back from a copy of it, as a hand-off does. state is what Cut made; nil: nothing.
func hold(e *Engine, partition int, state []byte, then []replication.Followed) error {
	copied, err := New(e.Config())
	if err != nil {
		return err
	}
	if err := copied.Close(); err != nil { // its janitor
		return err
	}
	if state != nil {
		if err := copied.LoadHits(partition, state); err != nil {
			return err
		}
	}
	return e.Hold(partition, copied.Keyspace().Take(partition), then)
}
