package replica

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// aheadWorld answers the asks of one follower, some time later: any of three replicas,
// each with messages that it does not have, or does not have yet.
type aheadWorld struct {
	t      *testing.T
	random *rand.Rand
	a      ReadAhead
	now    time.Time
	trip   time.Duration
	size   int // bytes of a message, at most
	last   uint64
	lag    [3]uint64 // messages that a replica does not have yet
	lost   [3]map[uint64]bool
	way    []aheadAnswer // in the order in which they come

	next    uint64
	skipped map[uint64]bool // passed over, to be had one by one
	most    int
	asks    int
}

type aheadAnswer struct {
	at time.Time
	do func()
}

func newAheadWorld(t *testing.T, seed uint64, trip time.Duration) *aheadWorld {
	w := &aheadWorld{t: t, random: rand.New(rand.NewPCG(seed, 3)), now: time.UnixMilli(1_800_000_000_000), trip: trip, size: 500, next: 1, skipped: map[uint64]bool{}}
	for i := range w.lost {
		w.lost[i] = map[uint64]bool{}
	}
	return w
}

func (w *aheadWorld) after(d time.Duration, do func()) {
	at := w.now.Add(d)
	i, _ := slices.BinarySearchFunc(w.way, at, func(a aheadAnswer, at time.Time) int {
		if !a.at.After(at) {
			return -1
		}
		return 1
	})
	w.way = slices.Insert(w.way, i, aheadAnswer{at, do})
}

// serve is one replica's answer, after one trip. broken: it never ends.
func (w *aheadWorld) serve(ask *Ask, broken bool) {
	replica := w.random.IntN(3)
	w.after(w.trip, func() {
		bytes, came, at := 0, uint64(0), ask.From
		have := w.last - min(w.last, w.lag[replica])
		for ; at <= have && came < ask.To-ask.From+1 && bytes < AskBytes; at++ {
			if w.lost[replica][at] {
				continue
			}
			data := make([]byte, 8+w.random.IntN(w.size))
			binary.LittleEndian.PutUint64(data, at)
			w.a.Take(w.now, ask, w.next, at, data)
			bytes, came = bytes+len(data), came+1
			if broken && w.random.IntN(4) == 0 {
				return
			}
		}
		if !broken {
			w.a.End(w.now, ask, have-min(have, at-1))
		}
	})
}

// run lets the follower follow for a while. trouble is how many asks in a hundred fail.
func (w *aheadWorld) run(during time.Duration, trouble int) {
	for end := w.now.Add(during); ; {
		for ask := w.a.Silent(w.now); ask != nil; ask = w.a.Silent(w.now) {
			w.a.GiveUp(w.now, ask)
		}
		for {
			want, ok := w.a.Want(w.now, w.next)
			if !ok {
				break
			}
			ask := w.a.Begin(w.now, want)
			w.asks++
			switch chance := w.random.IntN(100); {
			case chance < trouble/2:
				w.a.Fail(w.now, ask)
			case chance < trouble:
				w.serve(ask, true)
			default:
				w.serve(ask, false)
			}
		}
		if sequence, data, ok := w.a.Turn(w.next); ok {
			if got := binary.LittleEndian.Uint64(data); got != sequence || sequence < w.next {
				w.t.Fatalf("message %d is handed out as %d, after %d", got, sequence, w.next-1)
			}
			for ; w.next < sequence; w.next++ {
				w.skipped[w.next] = true
			}
			w.next++
			continue
		}
		w.most = max(w.most, w.a.bytes)
		next := end
		if len(w.way) > 0 && w.way[0].at.Before(next) {
			next = w.way[0].at
		}
		if due := w.a.Due(w.now); !due.IsZero() && due.Before(next) {
			next = due
		}
		w.now = next
		if !w.now.Before(end) {
			return
		}
		for len(w.way) > 0 && !w.way[0].at.After(w.now) {
			do := w.way[0].do
			w.way = w.way[1:]
			do()
		}
	}
}

// All messages come, in order, whatever replicas lose, lag and leave unanswered; those
// that are passed over are lost at some replica; memory is bounded.
func TestAheadFollowsAll(t *testing.T) {
	for seed := range uint64(40) {
		w := newAheadWorld(t, seed, time.Duration(seed%90)*time.Millisecond)
		w.size = []int{1, 500, 5_000, 60_000}[seed%4]
		for range 3 + w.random.IntN(20) {
			for range w.random.IntN(300) {
				w.last++
				for i := range w.lost {
					w.lost[i][w.last] = w.random.IntN(100) == 0
				}
				if w.random.IntN(4) == 0 { // this node wrote it
					w.a.Own(w.next, w.last, binary.LittleEndian.AppendUint64(nil, w.last))
				}
			}
			for i := range w.lag {
				w.lag[i] = w.random.Uint64N(50)
			}
			if w.random.IntN(2) == 0 { // hints come too late, too early, or never
				w.a.Hint(w.last)
			}
			w.run(time.Duration(w.random.IntN(500))*time.Millisecond, 10)
		}
		w.lag = [3]uint64{}
		w.last++ // what is lost at the end is found with the next message
		w.run(time.Minute, 0)
		if w.next != w.last+1 {
			t.Fatalf("seed %d: followed up to %d of %d, %d asks under way, %v missing, %v holes, %d came", seed, w.next-1, w.last, len(w.a.asks), w.a.missing, w.a.holes, len(w.a.came))
		}
		for sequence := range w.skipped {
			if !w.lost[0][sequence] && !w.lost[1][sequence] && !w.lost[2][sequence] {
				t.Errorf("seed %d: message %d was passed over", seed, sequence)
			}
		}
		if w.most > readAheadMost {
			t.Errorf("seed %d: %d bytes were kept", seed, w.most)
		}
	}
}

// A round trip does not bound how many messages are followed: with one of 80 ms, a second is
// enough for thousands, and each of a few comes one trip after it is announced.
func TestAheadDoesNotWaitForEachTrip(t *testing.T) {
	const trip = 80 * time.Millisecond
	w := newAheadWorld(t, 1, trip)
	w.last = 8000
	w.a.Hint(w.last)
	if w.run(time.Second, 0); w.next != w.last+1 {
		t.Errorf("%d of %d messages in a second", w.next-1, w.last)
	}
	for range 500 { // 50 a second
		w.last++
		w.a.Hint(w.last)
		w.run(20*time.Millisecond, 0)
		if behind := w.last + 1 - w.next; behind > uint64(trip/(20*time.Millisecond)) {
			t.Fatalf("%d messages behind", behind)
		}
	}
}

// What this node wrote is followed at once, and never asked for.
func TestAheadOwnMessages(t *testing.T) {
	w := newAheadWorld(t, 1, 20*time.Millisecond)
	w.last = 1
	w.run(10*time.Second, 0)
	w.asks = 0
	for range 90 {
		w.last++
		w.a.Own(w.next, w.last, binary.LittleEndian.AppendUint64(nil, w.last))
		if w.run(time.Millisecond, 0); w.next != w.last+1 {
			t.Fatalf("message %d is not followed", w.last)
		}
	}
	if w.asks > 2 { // it looks for others' now and then
		t.Errorf("%d asks for own messages", w.asks)
	}
}

// A request that is lost on its way is made again soon, also where all that follows was answered; an answer that takes long is
// waited for nevertheless.
func TestAheadAsksAgainSoon(t *testing.T) {
	w := newAheadWorld(t, 1, 20*time.Millisecond)
	w.last = 3
	w.run(time.Second, 0)
	ask := w.a.Begin(w.now, span{4, 4}) // of which nothing comes
	for range 10 {
		w.last++
		w.a.Hint(w.last)
		w.run(30*time.Millisecond, 0)
	}
	if w.next != w.last+1 {
		t.Errorf("%d of %d messages 300 ms after the request for message %d was lost", w.next-1, w.last, ask.From)
	}
	w = newAheadWorld(t, 1, 2*time.Second)
	w.last = 3
	if w.run(20*time.Second, 0); w.next != w.last+1 {
		t.Error("nothing was followed of a replica that takes 2 s to answer")
	}
}

// With nothing new, and where nobody answers, there are few asks.
func TestAheadAsksRarely(t *testing.T) {
	w := newAheadWorld(t, 1, time.Millisecond)
	w.run(time.Minute, 0)
	if w.asks > 610 {
		t.Errorf("%d asks in a minute at rest", w.asks)
	}
	w.asks = 0
	w.a.Hint(7) // which never comes
	if w.run(time.Minute, 0); w.asks > 3100 {
		t.Errorf("%d asks for a message in a minute", w.asks)
	}
	w.asks = 0
	if w.run(time.Minute, 200); w.asks > 100 {
		t.Errorf("%d asks in a minute in which all fail", w.asks)
	}
}
