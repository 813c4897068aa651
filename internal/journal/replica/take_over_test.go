package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Whatever the number of partitions and the length of the journal, a node that takes partitions over reads the journal once: the
// partitions share the read. Only where they need more memory than a part of the engine's budget, the rest is left to another call.
func TestTakeOverReadsTheJournalOnce(t *testing.T) {
	t.Parallel()
	const partitions, flushes, keys = 64, 1000, 20
	for name, c := range map[string]struct {
		memory int64
		calls  int // at most
	}{
		"memory enough": {1 << 30, 1},
		"little memory": {partitions * 64 << 10, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &soundLog{}
			n := newTakingOf(t, 1, log, engine.Config{Partitions: partitions, Memory: c.memory})
			var want uint64
			for i := range flushes {
				for key := range keys {
					_, err := n.e.HitAt(n.now, fmt.Sprintf("%0200d", (i*keys+key)%(flushes*6)), 1)
					n.must(err)
					want++
				}
				n.now = n.now.Add(100 * time.Millisecond)
				n.flush(nil)
			}
			for p := range partitions {
				n.r.Release(p)
			}
			n.now = n.now.Add(100 * time.Millisecond)
			n.flush(nil)
			by := &countedReads{takingFrom: takingFrom{n, nil}}
			calls := 0
			for len(n.missing()) > 0 {
				if calls++; calls > c.calls {
					t.Fatalf("after %d calls, %d partitions are not held", c.calls, len(n.missing()))
				}
				tried, err := n.r.TakeOver(n.missing(), by)
				n.must(err)
				for _, p := range tried {
					if !n.e.Keyspace().Holds(p) {
						t.Errorf("partition %d was tried and is not held", p)
					}
				}
			}
			if most := calls * (int(log.len()) + handOffNear); by.messages > most {
				t.Errorf("%d messages were read in %d calls of a journal with %d", by.messages, calls, log.len())
			}
			if c.calls > 1 && calls == 1 {
				t.Error("one call had memory enough: the test shows nothing")
			}
			if got, err := n.e.CountIn(n.e.HeldPartitions(), n.now, engine.AllKeys, time.Hour); err != nil || got.Lower != want {
				t.Errorf("counts %+v, %v, want %d hits", got, err, want)
			}
		})
	}
}

// missing are the partitions that are not held.
func (n *taking) missing() (list []int) {
	for p := range n.e.Config().Partitions {
		if !n.e.Keyspace().Holds(p) {
			list = append(list, p)
		}
	}
	return list
}

// countedReads counts the messages that a hand-off reads, and lets flushes take what it hands over.
type countedReads struct {
	takingFrom
	messages int
}

func (c *countedReads) Read(from, to uint64, each func(sequence uint64, data []byte) error) error {
	return c.takingFrom.Read(from, to, func(sequence uint64, data []byte) error {
		c.messages++
		return each(sequence, data)
	})
}

func (c *countedReads) Await(held <-chan struct{}) error {
	for range 1000 {
		select {
		case <-held:
			return nil
		default:
			c.flush(nil)
		}
	}
	return fmt.Errorf("no flush takes the partition")
}

// A partition whose snapshot the journal does not reach back to is not taken; the others are.
func TestTakeOverWithoutAPartitionThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	n := newTakingOf(t, 1, &soundLog{}, engine.Config{Partitions: 2})
	for i := range 10 {
		_, err := n.e.HitAt(n.now, fmt.Sprint("k", i), 1)
		n.must(err)
	}
	f := n.flush(map[int]bool{0: true})
	n.flush(nil)
	snap := f.Snaps[0]
	snap.From = n.log.len() - 1
	for p := range 2 {
		n.r.Release(p)
	}
	by := &countedReads{takingFrom: takingFrom{n, &snap}}
	tried, err := n.r.TakeOver([]int{1, 0}, trimmed{by})
	if err == nil || len(tried) != 2 || !n.e.Keyspace().Holds(0) || n.e.Keyspace().Holds(1) {
		t.Errorf("tried %v, %v; held: %v, %v; want partition 0 alone", tried, err, n.e.Keyspace().Holds(0), n.e.Keyspace().Holds(1))
	}
}

// trimmed is a journal whose first messages are gone.
type trimmed struct{ *countedReads }

func (t trimmed) First() (uint64, error) { return t.log.len() - 1, nil }
