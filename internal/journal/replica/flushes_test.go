package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/wire"
)

// world is a journal that some origins wrote: their flushes in parts, interleaved, some messages twice.
type world struct {
	messages []record.Part
	flushes  map[uint64][]record.Head // by origin, those that are whole
}

func newWorld(rng *rand.Rand) world {
	w := world{flushes: map[uint64][]record.Head{}}
	type writer struct {
		record.Part
		parts uint64
	}
	writers := make([]writer, 1+rng.IntN(4))
	for i := range writers {
		writers[i].Origin, writers[i].Epoch = uint64(i+1), 1
	}
	for range 200 {
		at := &writers[rng.IntN(len(writers))]
		if at.parts == 0 || rng.IntN(50) == 0 { // or the process ends in the middle of a flush
			if at.parts > 0 {
				at.Epoch, at.Flush = at.Epoch+1, 0
			}
			at.Flush, at.Number, at.parts = at.Flush+1, 0, uint64(1+rng.IntN(3))
		}
		p := at.Part
		p.Last = at.Number+1 == at.parts
		w.messages = append(w.messages, p)
		if p.Last {
			w.flushes[p.Origin] = append(w.flushes[p.Origin], record.Head{Epoch: p.Epoch, Flush: p.Flush})
			at.parts = 0
		}
		at.Number++
		if rng.IntN(10) == 0 { // its acknowledgement was lost
			w.messages = append(w.messages, p)
		}
	}
	return w
}

// A tail hands out each whole flush once, in order, wherever it is stopped and goes on from its position.
func TestEachFlushOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(rng)
		got := map[uint64][]record.Head{}
		tl := NewTailFlushes(FlushPosition{})
		for tl.Next() <= uint64(len(w.messages)) {
			message := tl.Next()
			p := w.messages[message-1]
			if _, _, missing := tl.Missing(p); missing {
				t.Fatalf("seed %d: message %d: something is missing", seed, message)
			}
			if flush := tl.Take(message, p); flush != nil {
				if last := flush[len(flush)-1]; int(last.Number)+1 != len(flush) || !last.Last {
					t.Fatalf("seed %d: flush of %d parts ends with part %d", seed, len(flush), last.Number)
				}
				got[p.Origin] = append(got[p.Origin], record.Head{Epoch: p.Epoch, Flush: p.Flush})
			}
			if rng.IntN(10) == 0 {
				stands, at := tl.Position(), FlushPosition{}
				r := wire.NewReader(wire.Append(nil, stands.Fields))
				if wire.Read(r, at.Fields); !r.Done() {
					t.Fatalf("seed %d: a position can't be read back", seed)
				}
				tl = NewTailFlushes(at)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(w.flushes) {
			t.Fatalf("seed %d: got %v\nwant %v", seed, got, w.flushes)
		}
		if tl.Lost() > 0 {
			t.Fatalf("seed %d: %d lost", seed, tl.Lost())
		}
	}
}

// What a journal lost is reported, and is handed out in its place when its origin sends it again; else
// the tail goes on without it.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, resent := range []bool{true, false} {
		for seed := range uint64(100) {
			rng := rand.New(rand.NewPCG(seed, 2))
			w := newWorld(rng)
			lost := map[string]record.Part{}
			name := func(origin, epoch, flush, number uint64) string { return fmt.Sprint(origin, epoch, flush, number) }
			for range 5 {
				i := rng.IntN(len(w.messages))
				p := w.messages[i]
				if i > 0 && i < len(w.messages)-1 && w.messages[i-1].Flush > 0 {
					lost[name(p.Origin, p.Epoch, p.Flush, p.Number)] = p
				}
			}
			tl, got := NewTailFlushes(FlushPosition{}), map[uint64][]record.Head{}
			take := func(message uint64, p record.Part) {
				if tl.Take(message, p) != nil {
					got[p.Origin] = append(got[p.Origin], record.Head{Epoch: p.Epoch, Flush: p.Flush})
				}
			}
			for i, p := range w.messages {
				if _, is := lost[name(p.Origin, p.Epoch, p.Flush, p.Number)]; is {
					tl.Skip(uint64(i + 1))
					continue
				}
				for flush, number, missing := tl.Missing(p); missing && resent; flush, number, missing = tl.Missing(p) {
					again, ok := lost[name(p.Origin, p.Epoch, flush, number)]
					if !ok {
						break
					}
					take(uint64(i+1), again)
				}
				take(uint64(i+1), p)
			}
			for origin, heads := range got {
				if !slices.IsSortedFunc(heads, func(a, b record.Head) int {
					if a.Before(b) {
						return -1
					}
					return 1
				}) {
					t.Fatalf("seed %d: flushes of %d are out of order: %v", seed, origin, heads)
				}
				if missed := len(w.flushes[origin]) - len(got[origin]); missed > len(lost) {
					t.Fatalf("seed %d: %d flushes of %d are missing, and %d messages were lost", seed, missed, origin, len(lost))
				}
			}
		}
	}
}
