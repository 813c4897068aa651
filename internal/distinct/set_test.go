package distinct

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-counter/weir/internal/wire"
)

const month = 30 * 86400

// hashOf is splitmix64, which is a bijection: hashes of different ids differ.
func hashOf(id uint64) uint64 {
	id += 0x9E3779B97F4A7C15
	id = (id ^ id>>30) * 0xBF58476D1CE4E5B9
	id = (id ^ id>>27) * 0x94D049BB133111EB
	return id ^ id>>31
}

type sighting struct {
	second int64
	id     uint64
}

// schedule is a seeded list of sightings within some time, of so many ids, some of which come back.
func schedule(r *rand.Rand, n int, ids uint64, span int64) []sighting {
	const start = 1_700_000_000
	list := make([]sighting, n)
	for i := range list {
		list[i] = sighting{start + r.Int64N(span), r.Uint64N(ids)}
	}
	slices.SortFunc(list, func(a, b sighting) int { return int(a.second - b.second) })
	for range n / 10 { // late ones
		i, j := r.IntN(n), r.IntN(n)
		list[i], list[j] = list[j], list[i]
	}
	return list
}

func filled(list []sighting) *Set {
	s := New(month)
	for _, one := range list {
		s.Add(one.second, hashOf(one.id))
	}
	return s
}

// lastSeen is the naive twin of a Set.
func lastSeen(list []sighting) map[uint64]int64 {
	last := map[uint64]int64{}
	for _, one := range list {
		if at, ok := last[one.id]; !ok || one.second > at {
			last[one.id] = one.second
		}
	}
	return last
}

// Windows with few ids are exact. Of all others, 0.3 % at most are beyond three standard errors of their bounds.
func TestAgainstBruteForce(t *testing.T) {
	questions, outside, exact := 0, 0, 0
	sum := 0.0 // of squared errors, in standard errors
	for seed := uint64(0); questions < 10_000; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1000 + int(math.Exp(r.Float64()*math.Log(50_000)))
		list := schedule(r, n, uint64(n), 1+r.Int64N(month-1))
		for i := range list {
			list[i].id += seed << 32 // other hashes for each seed
		}
		s, last := filled(list), lastSeen(list)
		times := make([]int64, 0, len(last))
		for _, at := range last {
			times = append(times, at)
		}
		slices.Sort(times)
		for range 40 {
			w := int64(month * math.Exp(-r.Float64()*math.Log(1000)))
			i, _ := slices.BinarySearch(times, s.Newest()-w+1)
			truth := float64(len(times) - i)
			got := s.Count(s.Newest() - w)
			if got.Error == 0 {
				exact++
				if float64(got.Estimate) != truth || got.Lower != got.Upper {
					t.Fatalf("seed %d, window %d: %+v, want exactly %v", seed, w, got, truth)
				}
				continue
			}
			if truth < Few || got.Lower > got.Estimate || got.Estimate > got.Upper || got.Error > 0.0325 {
				t.Fatalf("seed %d, window %d: %+v of %v", seed, w, got, truth)
			}
			questions++
			sum += math.Pow((float64(got.Estimate)/truth-1)/got.Error, 2)
			if truth < float64(got.Lower)*(1-3*got.Error) || truth > float64(got.Upper)*(1+3*got.Error) {
				outside++
			}
		}
	}
	t.Logf("%d questions and %d exact ones, %d outside, root mean square %.2f standard errors", questions, exact, outside, math.Sqrt(sum/float64(questions)))
	if outside*1000 > 3*questions || exact == 0 {
		t.Errorf("%d of %d questions are outside", outside, questions)
	}
}

// A window that is past has at least the ids that were last seen in it, and at most those that were seen since it began.
func TestCountUntil(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		n := 1 + r.IntN(3000)
		list := schedule(r, n, 1+r.Uint64N(uint64(n)), 1+r.Int64N(month-1))
		s := filled(list)
		from := s.Newest() - r.Int64N(month)
		to := from + r.Int64N(month)
		within := map[uint64]bool{}
		for _, one := range list {
			if one.second > from && one.second <= to {
				within[one.id] = true
			}
		}
		truth, got := float64(len(within)), s.CountUntil(from, to)
		if float64(got.Lower) > truth*(1+4*got.Error) || float64(got.Upper)*(1+4*got.Error) < truth || got.Lower > got.Estimate || got.Estimate > got.Upper {
			t.Fatalf("seed %d: %+v of %v", seed, got, truth)
		}
	}
}

// A set has the same bytes whatever the order of sightings and merges, and however often they come.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 1 + r.IntN(6000)
		list := schedule(r, n, 1+r.Uint64N(uint64(2*n)), 1+r.Int64N(month))
		want := filled(list).Append(nil)
		r.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
		if got := filled(list).Append(nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: another order makes another set", seed)
		}
		parts := make([]*Set, 1+r.IntN(20))
		for i := range parts {
			parts[i] = New(month)
		}
		for i, one := range append(list, list[:r.IntN(n)]...) {
			parts[i*len(parts)/(2*n+1)].Add(one.second, hashOf(one.id))
		}
		sum := New(month)
		for _, i := range append(r.Perm(len(parts)), r.Perm(len(parts))...) {
			p := readBack(t, parts[i])
			if r.IntN(2) == 0 {
				p.Merge(sum)
				sum = p
			} else {
				sum.Merge(p)
			}
		}
		if got := sum.Append(nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d parts make another set, newest %d, %d ids in the list, floor %d", seed, len(parts), sum.newest, len(sum.hashes), sum.floor)
		}
	}
}

func readBack(t *testing.T, s *Set) *Set {
	t.Helper()
	b := s.Append(nil)
	r := wire.NewReader(b)
	got := Read(r, s.retention)
	if !r.Done() {
		t.Fatalf("a set of %d bytes can't be read", len(b))
	}
	if again := got.Append(nil); !bytes.Equal(again, b) {
		t.Fatal("another set came back")
	}
	return got
}

// A dense key with 30 days takes at most 16 KiB, in memory and as bytes, and says how exact it still is.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		ids   uint64
		error float64
	}{{100, 0}, {10_000, 0.023}, {200_000, 0.0325}, {2_000_000, 0.046}} {
		s := New(month)
		n := max(c.ids, 1000)
		for i := range n {
			s.Add(1_700_000_000+int64(i*month/n), hashOf(i%c.ids))
			if i%16 == 0 && s.Size() > MaxBytes {
				t.Fatalf("%d ids: %d bytes after %d", c.ids, s.Size(), i)
			}
		}
		got := s.Count(s.Newest() - month)
		b := s.Append(nil)
		t.Logf("%d ids: %d bytes, %d encoded, %+v", c.ids, s.Size(), len(b), got)
		if len(b) > MaxBytes || got.Error != c.error || math.Abs(float64(got.Estimate)-float64(c.ids)) > 3*c.error*float64(c.ids) {
			t.Errorf("%d ids: %d bytes, %+v", c.ids, len(b), got)
		}
	}
}

// What the retention has left does not count, and windows in which few ids are left are exact again.
func TestRetention(t *testing.T) {
	s := New(1000)
	for i := range uint64(5000) {
		s.Add(1_700_000_000, hashOf(i))
	}
	if got := s.Count(1_700_000_000 - 1); got.Error == 0 || got.Estimate < 4500 || got.Estimate > 5500 {
		t.Errorf("%+v of 5000", got)
	}
	s.Add(1_700_000_999, hashOf(9999))
	if got := s.Count(1_700_000_000); got != (Count{1, 1, 1, 0}) {
		t.Errorf("%+v after the first second", got)
	}
	s.Add(1_700_001_000, hashOf(1))
	if got := s.Count(0); got != (Count{2, 2, 2, 0}) || s.sketch != nil {
		t.Errorf("%+v after all others have left", got)
	}
	if s.Add(1_700_000_000, hashOf(2)) {
		t.Error("an id from before the retention is taken")
	}
}

// A clock that was ahead takes its ids with it when it is set back.
func TestSetBack(t *testing.T) {
	for _, n := range []uint64{3, 1000} {
		s := New(month)
		for i := range n {
			s.Add(1_700_000_000+int64(i), hashOf(i))
		}
		s.Add(1_800_000_000-month/2, hashOf(1))
		s.SetBack(1_700_001_000)
		s.Add(1_700_001_001, hashOf(2))
		if got := s.Count(1_700_000_999); s.Newest() != 1_700_001_001 || got != (Count{2, 2, 2, 0}) {
			t.Errorf("%d ids: %+v at %d", n, got, s.Newest())
		}
		readBack(t, s)
	}
}

func TestHas(t *testing.T) {
	s := New(month)
	for i := range uint64(2000) {
		s.Add(1_700_000_000+int64(i), hashOf(i))
	}
	missed, known := 0, 0
	for i := range uint64(2000) {
		if !s.Has(hashOf(i)) {
			missed++
		}
		if s.Has(hashOf(1e6 + i)) {
			known++
		}
	}
	if missed > 0 || known > 1500 {
		t.Errorf("%d of 2000 are not known, %d of others are", missed, known)
	}
}

// FuzzRead has whatever is read behave as a set.
func FuzzRead(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 3, 500, 5000} {
		s := New(month)
		if n > 0 {
			s = filled(schedule(r, n, uint64(n), month))
		}
		f.Add(s.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := wire.NewReader(data)
		s := Read(r, month)
		if r.Failed() {
			return
		}
		s = readBack(t, s)
		if c := s.Count(s.Newest() - 1000); c.Lower > c.Estimate || c.Estimate > c.Upper || math.IsNaN(c.Error) {
			t.Fatalf("%+v", c)
		}
		if other := filled(schedule(rand.New(rand.NewPCG(2, 2)), 2000, 3000, month)); s.Newest() < MaxSecond-10 {
			other.Merge(s)
			s.Merge(other)
			s.Add(s.Newest()+5, 77)
			if s.Size() > MaxBytes+1024 {
				t.Fatalf("%d bytes", s.Size())
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	for _, ids := range []uint64{100, 100_000} {
		for _, every := range []uint64{1, 1000} {
			b.Run(fmt.Sprintf("ids=%d/hits_per_s=%d", ids, every), func(b *testing.B) {
				s := New(month)
				for i := range uint64(b.N) {
					s.Add(1_700_000_000+int64(i/every), hashOf(hashOf(i)%ids))
				}
			})
		}
	}
}

func BenchmarkCount(b *testing.B) {
	s := filled(schedule(rand.New(rand.NewPCG(1, 1)), 300_000, 1e9, month))
	for b.Loop() {
		s.Count(s.Newest() - month)
	}
}

func BenchmarkMerge(b *testing.B) {
	s := filled(schedule(rand.New(rand.NewPCG(1, 1)), 300_000, 1e9, month))
	one := New(month)
	one.Add(s.Newest()-5, 5)
	for b.Loop() {
		s.Merge(one)
	}
}

// The estimator has no bias, and the error that a sketch states.
func TestEstimator(t *testing.T) {
	const seeds, ids = 400, 20_000
	for _, precision := range []uint8{9, 10, 11} {
		var sum, squares float64
		k := &sketch{precision: precision}
		for seed := range uint64(seeds) {
			ranks := make([]uint8, 1<<precision)
			for i := range uint64(ids) {
				e := k.entry(hashOf(seed<<32 | i))
				ranks[e>>rankBits] = max(ranks[e>>rankBits], uint8(e&maxRank))
			}
			off := estimate(ranks)/ids - 1
			sum, squares = sum+off, squares+off*off
		}
		mean, rms := sum/seeds, math.Sqrt(squares/seeds)
		if math.Abs(mean) > 3*k.error()/math.Sqrt(seeds) || rms > 1.1*k.error() || rms < 0.9*k.error() {
			t.Errorf("precision %d: off by %.4f on average and %.4f root mean square, states %.4f", precision, mean, rms, k.error())
		}
	}
}

// What sets of one hour each have, hour by hour and day by day, is the union of their ids, however they come and are merged.
func TestSpans(t *testing.T) {
	const hour, day = 3600, 86400
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 9))
		truth, got := map[int64]map[uint64]bool{}, map[int64]*Set{}
		add := func(begin int64, ids *Set) {
			for _, span := range []int64{begin, -begin/day - 1} { // an hour, and a day
				if got[span] == nil {
					got[span] = New(1)
				}
				got[span].Merge(ids)
			}
		}
		for range 30 {
			begin := int64(1_700_000_000/day*day) + hour*r.Int64N(40)
			set := New(month)
			for range 1 + r.IntN(1<<r.IntN(14)) {
				id := r.Uint64N(20_000)
				set.Add(begin+r.Int64N(hour), hashOf(id))
				for _, span := range []int64{begin, -begin/day - 1} {
					if truth[span] == nil {
						truth[span] = map[uint64]bool{}
					}
					truth[span][id] = true
				}
			}
			spans := 0
			set.Spans(hour, func(start int64, ids *Set) {
				if spans++; start != begin {
					t.Fatalf("seed %d: ids of %d are in %d", seed, begin, start)
				}
				add(start, ids)
				if r.IntN(3) == 0 { // a message that comes again
					again := wire.NewReader(ids.Append(nil))
					add(start, Read(again, 1))
				}
			})
			if spans != 1 {
				t.Fatalf("seed %d: %d spans", seed, spans)
			}
		}
		for span, ids := range truth {
			c, n := got[span].Count(-1), float64(len(ids))
			if c.Lower != c.Upper || c.Error == 0 && float64(c.Estimate) != n || c.Error > 0.023 || n <= Few && c.Error > 0 || math.Abs(float64(c.Estimate)/n-1) > 5*c.Error {
				t.Errorf("seed %d, span %d: %+v, want %v", seed, span, c, n)
			}
			if size := len(got[span].Append(nil)); size > 8<<10 {
				t.Errorf("%d bytes", size)
			}
		}
	}
}

// Of ids that were seen in many spans, each has those that were seen last in it.
func TestSpansOfOneSet(t *testing.T) {
	set := New(month)
	for id := range uint64(100) {
		set.Add(int64(1000*(id%10)), hashOf(id))
	}
	text := ""
	set.Spans(2500, func(start int64, ids *Set) { text += fmt.Sprint(start, ":", ids.Count(-1).Estimate, " ") })
	if text != "0:30 2500:20 5000:30 7500:20 " {
		t.Error(text)
	}
}
