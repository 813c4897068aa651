package window

import (
	"math"
	"math/rand/v2"
	"testing"
)

// naive is the second, deliberately simple implementation that every answer is
// checked against: a list of hits.
type naive struct {
	retention int64
	newest    int64
	any       bool
	hits      []pair
}

func (v *naive) add(at int64, n uint64) Outcome {
	switch {
	case at < 0 || at > MaxTime:
		return Refused
	case v.any && at <= v.newest-v.retention:
		return TooLate
	case n == 0:
		return Counted
	}
	outcome := Counted
	if v.any && at < v.newest {
		outcome = Late
	}
	v.hits = append(v.hits, pair{at, n})
	v.newest, v.any = max(v.newest, at), true
	return outcome
}

func (v *naive) count(at, seconds int64) uint64 {
	var sum uint64
	for _, h := range v.hits {
		if at-seconds < h.at && h.at <= at {
			sum = addSat(sum, h.n)
		}
	}
	return sum
}

// twin drives a window and its naive model together.
type twin struct {
	t *testing.T
	w Window
	v naive
}

func newTwin(t *testing.T, retention int64) *twin {
	t.Helper()
	w, err := New(retention)
	if err != nil {
		t.Fatal(err)
	}
	return &twin{t: t, w: w, v: naive{retention: max(retention, MinRetention)}}
}

func (tw *twin) add(at int64, n uint64) {
	tw.t.Helper()
	if got, want := tw.w.Add(at, n), tw.v.add(at, n); got != want {
		tw.t.Fatalf("Add(%d, %d) = %d, want %d", at, n, got, want)
	}
}

// check asks one window and holds the answer against the promises.
func (tw *twin) check(at, seconds int64) {
	tw.t.Helper()
	checkCount(tw.t, &tw.w, &tw.v, at, seconds)
}

func checkCount(t *testing.T, w *Window, v *naive, at, seconds int64) {
	t.Helper()
	got, truth := w.Count(at, seconds), v.count(at, seconds)
	if got.Lower > truth || truth > got.Upper || got.Estimate < got.Lower || got.Estimate > got.Upper {
		t.Fatalf("Count(%d, %d) = %+v, truth %d (newest %d, dense %v)", at, seconds, got, truth, v.newest, w.Dense())
	}
	if seconds <= 300 && at >= v.newest && !got.Exact() {
		t.Fatalf("Count(%d, %d) = %+v, must be exact up to 300 s", at, seconds, got)
	}
	if at < v.newest || seconds > v.retention || got.Exact() || got.Upper == math.MaxUint64 {
		return
	}
	// The doubt is the hits of one slot of at most 1 % of the window, around
	// its start. Those in the window before the start's slot are not in doubt.
	edge := at - seconds + 1
	slot := seconds / 100
	near := v.count(edge+slot-1, 2*slot)
	if got.Upper-got.Lower > near {
		t.Fatalf("Count(%d, %d) = %+v: doubt of %d, but only %d hits within 1 %% of the edge", at, seconds, got, got.Upper-got.Lower, near)
	}
}

// sweep checks windows of all magnitudes, at the newest second, after it and before it.
func (tw *twin) sweep(r *rand.Rand) {
	tw.t.Helper()
	newest := tw.v.newest
	for _, seconds := range []int64{1, 2, 299, 300, 301, 511, 512, 513, 1000, 1023, 1024, 1025, 3600, 86400, 604800, 2592000, MaxSeconds} {
		tw.check(newest, seconds)
		tw.check(newest+1+r.Int64N(seconds), seconds)
	}
	for range 40 {
		seconds := 1 + int64(math.Exp(r.Float64()*math.Log(MaxSeconds)))
		tw.check(newest, min(seconds, MaxSeconds))
		tw.check(max(0, newest-int64(math.Exp(r.Float64()*math.Log(1e7)))), min(seconds, MaxSeconds))
	}
}
