package replica_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// History and digests count a request once that two nodes have counted, also if they stopped between the two flushes. A request with
// the same key long after is another one.
func TestRequestsOfTwoNodes(t *testing.T) {
	l := &log{}
	for i, after := range []time.Duration{0, time.Second, 20 * time.Minute} {
		e := record.NewEncoder(record.Incarnation{Origin: uint64(i + 1), Epoch: 1}, partitions)
		e.Begin(time.Unix(1_000_000, 0).Add(after))
		at := int64(1_000_000) - int64(i) // the clocks of the nodes differ
		e.Add(1, []replication.Delta{{Key: "k", At: at, N: 3}})
		e.AddPast(1, []replication.Delta{{Key: "k", At: 10, N: 4}})
		l.messages = append(l.messages, e.End(nil, replication.Request{ID: replication.RequestID{9}, Hits: []replication.RequestHit{
			{Key: replication.KeySum("k"), At: at, N: 2}, {Key: replication.KeySum("k"), At: 10, N: 4},
		}})...)
	}
	const want = 7 + 1 + 7
	first := record.Part{}
	if p, err := record.DecodePart(l.messages[0]); err != nil {
		t.Fatal(err)
	} else {
		first = p
	}
	listed := []record.SeenRequest{{ID: replication.RequestID{9}, Incarnation: first.Incarnation, Flush: first.Flush, At: first.At}}
	count := func(n *uint64) func(record.Batch) error {
		return func(b record.Batch) error {
			for _, d := range b.AppendHits(nil) {
				*n += d.N
			}
			return nil
		}
	}
	for stop := uint64(1); stop <= 3; stop++ {
		for _, kept := range []string{"all", "a snapshot", "a message, and a snapshot of long after"} {
			restart := func() {
				switch kept {
				case "a snapshot": // of what was read
					l.first, l.listed = stop+1, listed
				case "a message, and a snapshot of long after":
					l.first, l.upTo = 1, uint64(len(l.messages))
				}
			}
			n := uint64(0)
			l.first, l.listed, l.upTo = 1, nil, 0
			tail := replica.NewTail(l, partitions)
			never := func() bool { return false }
			if err := tail.Read(t.Context(), stop, count(&n), never); err != nil {
				t.Fatal(err)
			}
			restart()
			resumed, err := replica.ResumeTail(l, partitions, tail.Position(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := resumed.Read(t.Context(), math.MaxUint64, count(&n), never); err != nil || n != want {
				t.Errorf("a tail that stopped after message %d, of which %s is kept, counts %d, want %d, %v", stop, kept, n, want, err)
			}

			n = 0
			flushes := replica.NewTailFlushes(replica.FlushPosition{})
			l.first, l.listed, l.upTo = 1, nil, 0
			for sequence := uint64(1); sequence <= 3; sequence++ {
				if sequence == stop+1 {
					flushes = replica.NewTailFlushes(flushes.Position())
					restart()
				}
				if err := flushes.Learn(t.Context(), l, max(l.first, 1)); err != nil {
					t.Fatal(err)
				}
				p, err := record.DecodePart(l.messages[sequence-1])
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range flushes.Take(sequence, p) {
					for _, b := range p.Batches {
						_ = count(&n)(b)
					}
				}
			}
			if n != want {
				t.Errorf("flushes read up to %d, of which %s is kept, and then on have %d hits, want %d", stop, kept, n, want)
			}
		}
	}
}

// Where neither a snapshot nor the messages before its position say which requests were counted, a reader that begins again goes no
// further: it would count one twice. Of one node, which knows its own requests, it goes on.
func TestRequestsThatNothingKnowsAnyMore(t *testing.T) {
	for name, c := range map[string]struct {
		nodes   int
		first   uint64        // that is kept
		after   time.Duration // of the snapshot, after the position
		refuses bool
	}{
		"nothing before the position":           {2, 4, time.Hour, true},
		"a second before the position":          {2, 3, time.Hour, true},
		"a minute before the position":          {2, 2, time.Hour, false},
		"all before the position":               {2, 1, time.Hour, false},
		"a snapshot that lists what was before": {2, 4, 4 * time.Minute, false},
		"one node":                              {1, 4, time.Hour, false},
	} {
		l := &log{}
		write := func(number int, at time.Duration) {
			e := record.NewEncoder(record.Incarnation{Origin: uint64(1 + number%c.nodes), Epoch: uint64(1 + len(l.messages))}, partitions)
			e.Begin(time.Unix(1_000_000, 0).Add(at))
			l.messages = append(l.messages, e.End(nil)...)
		}
		for i, at := range []time.Duration{0, time.Second, time.Minute, time.Minute + time.Second, time.Minute + 2*time.Second, time.Minute + c.after} {
			write(i, at)
		}
		const position = 3
		none := func(record.Batch) error { return nil }
		never := func() bool { return false }
		tail, flushes := replica.NewTail(l, partitions), replica.NewTailFlushes(replica.FlushPosition{})
		if err := tail.Read(t.Context(), position, none, never); err != nil {
			t.Fatal(err)
		}
		for sequence := uint64(1); sequence <= position; sequence++ {
			p, err := record.DecodePart(l.messages[sequence-1])
			if err != nil {
				t.Fatal(err)
			}
			flushes.Take(sequence, p)
		}
		l.first, l.upTo = c.first, uint64(len(l.messages))
		resumed, err := replica.ResumeTail(l, partitions, tail.Position(), nil)
		if err != nil {
			t.Fatal(err)
		}
		errs := map[string]error{"tail": resumed.Read(t.Context(), math.MaxUint64, none, never), "flushes": replica.NewTailFlushes(flushes.Position()).Learn(t.Context(), l, l.first)}
		if again, err := replica.ResumeTail(l, partitions, tail.Position(), tail); err != nil {
			t.Fatal(err)
		} else if err := again.Read(t.Context(), math.MaxUint64, none, never); err != nil {
			t.Errorf("%s: a tail that has seen the requests: %v", name, err)
		}
		for what, err := range errs {
			if trimmed := (*replica.TrimmedError)(nil); errors.As(err, &trimmed) != c.refuses || !c.refuses && err != nil {
				t.Errorf("%s: %s: %v, want it refused: %v", name, what, err, c.refuses)
			}
		}
	}
}

// A reader that can't write what it reads begins again at its position, for longer than snapshots list requests: it keeps what it has seen.
func TestRequestsOfATailThatBeginsAgain(t *testing.T) {
	l := &log{}
	for i := range 2 {
		e := record.NewEncoder(record.Incarnation{Origin: uint64(i + 1), Epoch: 1}, partitions)
		e.Begin(time.Unix(1_000_000, 0))
		e.Add(1, []replication.Delta{{Key: "k", At: 1_000_000, N: 3}})
		l.messages = append(l.messages, e.End(nil, replication.Request{ID: replication.RequestID{9}, Hits: []replication.RequestHit{{Key: replication.KeySum("k"), At: 1_000_000, N: 3}}})...)
	}
	tail, n := replica.NewTail(l, partitions), uint64(0)
	count := func(b record.Batch) error {
		for _, d := range b.AppendHits(nil) {
			n += d.N
		}
		return nil
	}
	never := func() bool { return false }
	if err := tail.Read(t.Context(), 1, count, never); err != nil {
		t.Fatal(err)
	}
	l.first = 2
	again, err := replica.ResumeTail(l, partitions, tail.Position(), tail)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Read(t.Context(), 2, count, never); err != nil || n != 3 {
		t.Errorf("%d hits, %v; want 3", n, err)
	}
}
