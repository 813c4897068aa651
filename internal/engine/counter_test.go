package engine

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
)

func unix(second int64) time.Time { return time.Unix(second, 0) }

// naive is the second, deliberately simple implementation: a list of hits.
type naive struct {
	mu   sync.Mutex
	hits []struct {
		at int64
		n  uint64
	}
}

func (v *naive) add(at int64, n uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hits = append(v.hits, struct {
		at int64
		n  uint64
	}{at, n})
}

func (v *naive) count(at, seconds int64) (sum uint64) {
	for _, h := range v.hits {
		if at-seconds < h.at && h.at <= at {
			sum += h.n
		}
	}
	return sum
}

func checkBounds(t *testing.T, what string, got Count, truth uint64, exact bool) {
	t.Helper()
	if got.Lower > truth || truth > got.Upper || got.Estimate < got.Lower || got.Estimate > got.Upper || exact && !got.Exact() {
		t.Fatalf("%s: %+v, truth %d, must be exact: %v", what, got, truth, exact)
	}
}

// Many goroutines, each in its own second, some of them late: nothing is lost,
// nothing is counted twice.
func TestCounterConcurrent(t *testing.T) {
	for range 5 {
		var c Counter
		var v naive
		var wg sync.WaitGroup
		for g := range int64(8) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 0))
				for i := range int64(5000) {
					at, n := 1_000_000+i/500-g*r.Int64N(2), 1+r.Uint64N(2)
					if outcome, err := c.HitAt(unix(at), n); err != nil || outcome == TooLate {
						t.Errorf("HitAt: %d, %v", outcome, err)
						return
					}
					v.add(at, n)
					if i%1000 == 0 {
						c.CountAt(unix(at), time.Minute)
					}
				}
			})
		}
		wg.Wait()
		for _, at := range []int64{1_000_000, 1_000_010, 1_000_039, 1_000_100} {
			for _, seconds := range []int64{1, 7, 60, 300, MaxWindow.Nanoseconds() / 1e9} {
				got, err := c.CountAt(unix(at), time.Duration(seconds)*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				checkBounds(t, "CountAt", got, v.count(at, seconds), true)
			}
		}
	}
}

// A read between two hits must see the first one, cached answer or not.
func TestCounterReadsItsWrites(t *testing.T) {
	var c Counter
	r := rand.New(rand.NewPCG(1, 1))
	var v naive
	at := int64(1000)
	for range 20_000 {
		switch r.IntN(4) {
		case 0:
			at++
		case 1:
			late := at - r.Int64N(200)
			c.HitAt(unix(late), 1)
			v.add(late, 1)
		default:
			c.HitAt(unix(at), 2)
			v.add(at, 2)
		}
		seconds := []int64{5, 300}[r.IntN(2)]
		got, _ := c.CountAt(unix(at), time.Duration(seconds)*time.Second)
		checkBounds(t, "CountAt", got, v.count(at, seconds), true)
	}
}

// Reads while the second changes see all hits that had returned, and none twice: also where
// they find the answer of the read before.
func TestCounterReadsWhileSecondsChange(t *testing.T) {
	t.Parallel()
	var c Counter
	var begun, done atomic.Uint64
	c.HitAt(unix(1000), 1)
	begun.Store(1)
	done.Store(1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range int64(5000) {
			begun.Add(1)
			c.HitAt(unix(1000+i/3), 1)
			done.Add(1)
		}
	})
	for range 2 {
		wg.Go(func() {
			for done.Load() < 5001 {
				least := done.Load()
				got, _ := c.CountAt(unix(10_000), 10_000*time.Second) // the same window again and again
				if most := begun.Load(); got.Lower < least || got.Lower > most {
					t.Errorf("%d hits, want %d to %d", got.Lower, least, most)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestCounterFractions(t *testing.T) {
	var c Counter
	for i := range int64(100) {
		c.HitAt(unix(1000+i), 10)
	}
	got, _ := c.CountAt(time.UnixMilli(1_050_250), 10*time.Second)
	// Seconds 1041 .. 1049 lie wholly in (1040.25, 1050.25]; 1040 and 1050 are cut.
	if want := (Count{Lower: 90, Estimate: 100, Upper: 110}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got, _ = c.CountAt(time.UnixMilli(1_050_250), time.Second)
	if want := (Count{Lower: 0, Estimate: 10, Upper: 20}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCounterRefuses(t *testing.T) {
	var c Counter
	for _, s := range []struct {
		at   time.Time
		n    uint64
		code api.Code
	}{
		{unix(5), 0, api.CodeInvalidCount},
		{unix(-1), 1, api.CodeInvalidTime},
		{unix(1 << 40), 1, api.CodeInvalidTime},
		{time.Time{}, 1, api.CodeInvalidTime},
	} {
		_, err := c.HitAt(s.at, s.n)
		wantCode(t, err, s.code)
	}
	for _, w := range []time.Duration{0, -time.Second, time.Millisecond, 1500 * time.Millisecond, MaxWindow + time.Second} {
		_, err := c.CountAt(unix(5), w)
		wantCode(t, err, api.CodeInvalidWindow)
		_, err = c.Load(w)
		wantCode(t, err, api.CodeInvalidWindow)
		_, err = NewCounter(w)
		wantCode(t, err, api.CodeInvalidWindow)
	}
}

func wantCode(t *testing.T, err error, code api.Code) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code || e.Message == "" {
		t.Errorf("got error %v, want code %s", err, code)
	}
}

func TestCounterTooLate(t *testing.T) {
	c, err := NewCounter(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c.HitAt(unix(10_000), 1)
	if outcome, _ := c.HitAt(unix(6400), 1); outcome != TooLate {
		t.Errorf("an hour late: %d, want TooLate", outcome)
	}
	if outcome, _ := c.HitAt(unix(6401), 1); outcome != Late {
		t.Errorf("a second less: %d, want Late", outcome)
	}
	if got := c.total(); got != 2 {
		t.Errorf("total %d, want 2", got)
	}
}

// Hits larger than a live cell holds, and a cell that runs full.
func TestCounterLargeHits(t *testing.T) {
	var c Counter
	var want uint64
	for _, n := range []uint64{1, keyspace.MaxCellHits, 1, keyspace.MaxCellHits + 1, 1 << 40, keyspace.MaxCellHits - 1, 5} {
		for range 3 {
			c.HitAt(unix(100), n)
			want += n
		}
	}
	got, _ := c.CountAt(unix(100), time.Second)
	checkBounds(t, "CountAt", got, want, true)
}

// The mark of an idle cell is no time that a hit may have.
func TestCounterIdleSecond(t *testing.T) {
	var c Counter
	c.HitAt(unix(100), 1)
	_, err := c.HitAt(unix(1<<34-1), 1)
	wantCode(t, err, api.CodeInvalidTime)
	if outcome, err := c.HitAt(unix(101), 1); outcome != Counted || err != nil {
		t.Errorf("afterwards: %v, %v", outcome, err)
	}
}

// A hit from the future changes nothing: what comes after is counted.
func TestCounterCannotBePoisoned(t *testing.T) {
	var c Counter
	c.HitN(10)
	for _, ahead := range []time.Duration{6 * time.Second, 40 * 24 * time.Hour} {
		outcome, err := c.HitAt(time.Now().Add(ahead), 1)
		wantCode(t, err, api.CodeTooFarAhead)
		if outcome != Refused {
			t.Errorf("%v ahead: %v", ahead, outcome)
		}
	}
	c.HitN(100)
	got, _ := c.Count(5 * time.Minute)
	checkBounds(t, "afterwards", got, 110, true)
}
