package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const day = 86400

// The textbook's contract (LeetCode 362 and its relatives).
func TestTextbook(t *testing.T) {
	var w Window
	for _, at := range []int64{1, 2, 3} {
		w.Add(at, 1)
	}
	step := func(at, seconds int64, want uint64) {
		t.Helper()
		if got := w.Count(at, seconds); got != Exactly(want) {
			t.Errorf("Count(%d, %d) = %+v, want %d", at, seconds, got, want)
		}
	}
	step(4, 300, 3)
	w.Add(300, 1)
	step(300, 300, 4)
	step(301, 300, 3)

	w = Window{}
	step(1000, 300, 0)
	for _, at := range []int64{1, 2, 2, 3, 150, 301} {
		w.Add(at, 1)
	}
	step(301, 300, 5)
	step(301, 200, 2)
	step(301, MaxSeconds, 6)
	step(301, 0, 0)
	step(0, 300, 0)
}

func TestNewRefusesRetention(t *testing.T) {
	for _, retention := range []int64{-1, 0, MaxSeconds + 1} {
		if _, err := New(retention); err == nil || !strings.Contains(err.Error(), "must be 1 to 1000000000 s") {
			t.Errorf("New(%d): %v", retention, err)
		}
	}
}

func TestOutcomes(t *testing.T) {
	w, err := New(600)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		at   int64
		n    uint64
		want Outcome
		all  uint64
	}{
		{1000, 1, Counted, 1},
		{1000, 1, Counted, 2},
		{999, 1, Late, 3},
		{401, 1, Late, 4},
		{400, 1, TooLate, 4},
		{0, 1, TooLate, 4},
		{-1, 1, Refused, 4},
		{MaxTime + 1, 1, Refused, 4},
		{math.MinInt64, 1, Refused, 4},
		{math.MaxInt64, 1, Refused, 4},
		{1001, 0, Counted, 4},
		{MaxTime, 1, Counted, 5},
		{1000, 1, TooLate, 5},
	} {
		if got := w.Add(s.at, s.n); got != s.want || w.Total() != s.all {
			t.Errorf("Add(%d, %d) = %d, total %d; want %d, total %d", s.at, s.n, got, w.Total(), s.want, s.all)
		}
	}
}

// patterns are shapes of traffic; each gives the times of its hits in order.
var patterns = map[string]func(r *rand.Rand) []int64{
	"every second": func(r *rand.Rand) (at []int64) {
		for i := range 5000 + r.Int64N(5000) {
			at = append(at, 1_000_000+i)
		}
		return at
	},
	"sparse day": func(r *rand.Rand) (at []int64) {
		for range 10 {
			at = append(at, 1_000_000+r.Int64N(day))
		}
		return at
	},
	"bursts": func(r *rand.Rand) (at []int64) {
		second := r.Int64N(1000)
		for range 300 {
			second += 1 + int64(math.Exp(r.Float64()*9))
			for range 1 + r.IntN(20) {
				at = append(at, second+r.Int64N(3))
			}
		}
		return at
	},
	"gaps of years": func(r *rand.Rand) (at []int64) {
		second := r.Int64N(100)
		for range 30 {
			second += r.Int64N(365 * day)
			for i := range r.Int64N(700) {
				at = append(at, second+i)
			}
		}
		return at
	},
	"from the first second": func(r *rand.Rand) (at []int64) {
		for i := range int64(3000) {
			at = append(at, i)
		}
		return at
	},
	"week of minutes": func(r *rand.Rand) (at []int64) {
		for i := range int64(7 * day / 60) {
			at = append(at, 5_000_000+i*60+r.Int64N(60))
		}
		return at
	},
}

func times(name string, r *rand.Rand) []int64 {
	at := patterns[name](r)
	slices.Sort(at)
	return at
}

func TestAgainstNaive(t *testing.T) {
	for name := range patterns {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 1))
			at := times(name, r)
			orders := map[string]func(){
				"in order": func() {},
				"a minute late": func() {
					for i := range at {
						j := i + r.IntN(min(60, len(at)-i))
						at[i], at[j] = at[j], at[i]
					}
				},
				"shuffled":  func() { r.Shuffle(len(at), func(i, j int) { at[i], at[j] = at[j], at[i] }) },
				"backwards": func() { slices.Reverse(at) },
			}
			for order, arrange := range orders {
				for _, retention := range []int64{1, 300, 512, 3600, 30 * day, MaxSeconds} {
					slices.Sort(at)
					arrange()
					t.Run(name+"/"+order, func(t *testing.T) {
						tw := newTwin(t, retention)
						for i, second := range at {
							tw.add(second, 1+r.Uint64N(3))
							if i%(len(at)/3+1) == 0 {
								tw.sweep(r)
							}
						}
						tw.sweep(r)
					})
				}
			}
		}
	}
}

// Hits placed exactly on, before and after every slot boundary of every level,
// and windows that start there.
func TestEdgesOfEveryLevel(t *testing.T) {
	newest := int64(3_000_000_017)
	for level := range topLevel(MaxSeconds) + 1 {
		tw := newTwin(t, MaxSeconds)
		for i := range int64(700) { // makes it dense
			tw.add(newest-699+i, 1)
		}
		low, high := span(level, newest)
		var marks []int64
		for _, unit := range []int64{low - 1, low, low + 1, high - 1, high, high + 1} {
			marks = append(marks, unit<<shift(level))
		}
		for _, mark := range marks {
			for d := int64(-1); d <= 1; d++ {
				if at := mark + d; at >= 0 && at <= newest && at > newest-MaxSeconds {
					tw.add(at, 5)
				}
			}
		}
		for _, mark := range marks {
			for d := int64(-2); d <= 2; d++ {
				if seconds := newest - mark + d; seconds >= 1 && seconds <= MaxSeconds {
					tw.check(newest, seconds)
					tw.check(newest+1, seconds)
					tw.check(newest-1, seconds)
				}
			}
		}
	}
}

// The same hits in any order give the same bytes, hence the same answers.
func TestOrderDoesNotMatter(t *testing.T) {
	for name := range patterns {
		r := rand.New(rand.NewPCG(7, 7))
		at := times(name, r)
		var first []byte
		for range 5 {
			r.Shuffle(len(at), func(i, j int) { at[i], at[j] = at[j], at[i] })
			w, err := New(MaxSeconds)
			if err != nil {
				t.Fatal(err)
			}
			for _, second := range at {
				w.Add(second, 1)
			}
			encoded, err := w.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = encoded
			} else if !slices.Equal(first, encoded) {
				t.Fatalf("%s: another order gave another window", name)
			}
		}
	}
}

func TestSaturates(t *testing.T) {
	for _, fill := range []int64{1, 1000} { // pairs, pyramid
		var w Window
		for i := range fill {
			w.Add(100+i, 1)
		}
		w.Add(2000, math.MaxUint64)
		w.Add(2001, math.MaxUint64)
		for _, at := range []int64{2001, 3000} {
			if got := w.Count(at, MaxSeconds); got != Exactly(math.MaxUint64) {
				t.Errorf("%d hits before: Count = %+v, want MaxUint64", fill, got)
			}
		}
		if got := w.Count(2001, 1); got.Upper != math.MaxUint64 {
			t.Errorf("%d hits before: upper bound %d is below the truth", fill, got.Upper)
		}
		if got := w.Total(); got != math.MaxUint64 {
			t.Errorf("%d hits before: total %d", fill, got)
		}
	}
}

// Windows that reach beyond the retention say in their upper bound that hits
// have left, and never claim to be exact.
func TestBeyondRetention(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	tw := newTwin(t, 600)
	for at := int64(0); at < 20_000; at += 1 + r.Int64N(5) {
		tw.add(at, 1)
	}
	tw.add(19_000_000, 1)
	tw.check(19_000_000, 20_000_000)
	if got := tw.w.Count(19_000_000, 20_000_000); got.Lower < 1 || got.Exact() {
		t.Errorf("got %+v, want the hits that left in upper", got)
	}
	if got := tw.w.Count(19_000_000, 600); got != Exactly(1) {
		t.Errorf("got %+v, want exactly 1", got)
	}
}

// A key that was hit a few times needs no memory beside its window, and forgets none of it as more come.
func TestFewHitsLieInTheWindow(t *testing.T) {
	var w Window
	for i := range int64(6) {
		w.Add(1_700_000_000+7*i, 1)
		if w.Size() != 40 {
			t.Errorf("%d hits within a minute take %d bytes, want 40", i+1, w.Size())
		}
	}
	for i := range int64(40) {
		early := w // few hits, or a form that the original leaves
		w.Add(1_700_000_100+1000*i, 3)
		if got, want := w.Total(), uint64(6+3*(i+1)); got != want {
			t.Errorf("%d hits, want %d", got, want)
		}
		if i == 0 && early.Total() != 6 {
			t.Errorf("the copy has %d hits, want 6", early.Total())
		}
	}
	few, _, err := w.WithRetention(MinRetention)
	if err != nil {
		t.Fatal(err)
	}
	if few.Size() != 40 || few.Count(1_700_039_100, 1) != Exactly(3) || few.Total() != w.Total() {
		t.Errorf("%d bytes, %v, %d in all", few.Size(), few.Count(1_700_039_100, 1), few.Total())
	}
}

// The memory targets of the design.
func TestSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var sparse Window
	for _, at := range times("sparse day", r) {
		sparse.Add(1_700_000_000+at, 1)
	}
	if sparse.Size() > 40+32 {
		t.Errorf("ten hits over a day take %d bytes, want at most 72", sparse.Size())
	}
	dense, err := New(7 * day)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(8 * day) {
		dense.Add(1_700_000_000+i, 1)
	}
	if dense.Size() > 24<<10 {
		t.Errorf("a hit every second for a week takes %d bytes, want at most 24 KiB", dense.Size())
	}
}

// Times at the ends of int64 are in no window.
func TestCountAtExtremes(t *testing.T) {
	for _, fill := range []int64{1, 2000} { // pairs, pyramid
		var w Window
		for i := range fill {
			w.Add(1000+i, 1)
		}
		for _, at := range []int64{math.MinInt64, math.MinInt64 + 5, -1, MaxTime + MaxSeconds, math.MaxInt64} {
			if got := w.Count(at, MaxSeconds); got != (Count{}) {
				t.Errorf("Count(%d) = %+v, want 0", at, got)
			}
		}
	}
}
