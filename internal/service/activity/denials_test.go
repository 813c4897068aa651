package activity

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// asker asks limits that requests bring along.
type asker struct {
	testing.TB
	ring     *Denials
	live     *admit.Live
	now      time.Time
	requests []admit.Request
	d        admit.Decision
}

func newAsker(t testing.TB) *asker {
	a := &asker{TB: t, now: time.Unix(1_769_860_800, 0), requests: make([]admit.Request, 1)}
	a.ring = NewDenials("", func() (Moment, api.DenialKnowledge) {
		return Moment{a.now, a.now}, api.DenialKnowledge{AsOf: api.Time{Time: a.now}}
	})
	e, err := engine.New(engine.Config{Now: func() time.Time { return a.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if a.live, err = admit.NewLive(e, nil); err != nil {
		t.Fatal(err)
	}
	return a
}

// ask returns the ID of a denial; "": it passed.
func (a *asker) ask(key string, n uint64, inline *limit.Limit) string {
	a.requests[0] = admit.Request{Key: key, Inline: inline, Limit: "l", N: n}
	if err := a.live.Take(a.requests, &a.d); err != nil {
		a.Fatal(err)
	}
	a.ring.Note(a.requests, &a.d)
	return string(a.d.Denial)
}

func (a *asker) deny(key string) string {
	one := limit.Limit{N: 1, Per: time.Hour}
	for range 2 {
		if id := a.ask(key, 1, &one); id != "" {
			return id
		}
	}
	a.Fatal("it passed twice")
	return ""
}

// Denials of the same share an ID for SameFor, which says how many they were; whatever differs has one of its own.
func TestDenialsOfTheSame(t *testing.T) {
	t.Parallel()
	for _, inline := range []limit.Limit{
		{N: 5, Per: time.Minute}, {N: 100, Per: time.Minute}, {N: 5, Per: time.Minute, Algorithm: limit.Fixed}, {N: 5, Per: time.Minute, Algorithm: limit.GCRA},
	} {
		a := newAsker(t)
		a.now = a.now.Add(time.Second)
		for a.ask("a", 1, &inline) == "" { // the last one is denied
		}
		ask := func(n uint64) string {
			t.Helper()
			id := a.ask("a", n, &inline)
			if id == "" {
				t.Fatalf("%+v: it passed", inline)
			}
			return id
		}
		first, began := ask(1), a.now
		a.now = a.now.Add(SameFor - 2)
		if same := ask(1); same != first {
			t.Errorf("%+v: %s and %s, of the same", inline, first, same)
		}
		if d, found := a.ring.Find(first); found != Here || d.Times != 3 || !d.At.Equal(began) || !d.Last.Equal(a.now) {
			t.Errorf("%+v: %v, %+v, want 3 from %v to %v", inline, found, d, began, a.now)
		}
		two := ask(2)
		a.now = a.now.Add(SameFor)
		later := ask(1)
		wider := inline
		wider.N++
		a.requests[0] = admit.Request{Key: "a", Inline: &wider, Limit: "l", N: wider.N}
		if err := a.live.Take(a.requests, &a.d); err != nil {
			t.Fatal(err)
		}
		a.ring.Note(a.requests, &a.d)
		other := string(a.d.Denial)
		if one := map[string]bool{first: true, two: true, later: true, other: true}; len(one) != 4 || one[""] {
			t.Errorf("%+v: %v are not of the same", inline, one)
		}
	}
}

// An admission in between ends what is the same.
func TestDenialsAfterAnotherAdmission(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	inline := &limit.Limit{N: 2, Per: 100 * time.Millisecond}
	ids := map[string]bool{}
	for range 9 { // each time two pass and one is denied
		for range 2 {
			if a.ask("a", 1, inline) != "" {
				t.Fatal("denied")
			}
		}
		id := a.ask("a", 1, inline)
		if d, _ := a.ring.Find(id); id == "" || d.Times != 1 || !d.At.Equal(a.now) {
			t.Fatalf("%s: %+v at %v", id, d, a.now)
		}
		ids[id] = true
		a.now = a.now.Add(100 * time.Millisecond)
	}
	if len(ids) != 9 {
		t.Errorf("%d IDs", len(ids))
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "n1", "a-b"} {
		c := newCodec(name)
		for range 1000 {
			place := rand.Uint64() >> rand.IntN(64)
			node, number := Cut(string(c.append(nil, place)))
			if got, ok := c.place(number); !ok || got != place || node != name {
				t.Fatalf("%d: %s-%s is %d, %v", place, node, number, got, ok)
			}
		}
	}
	c, other := newCodec(""), newCodec("")
	for range 1000 {
		_, number := Cut(string(c.append(nil, uint64(rand.IntN(1<<20)))))
		if place, ok := other.place(number); ok && place < 1<<30 {
			t.Errorf("%s of another life is taken for %d", number, place)
		}
	}
}

// Whatever was noted is found as it was, or is gone when PerSet newer ones of its part came, never another one.
func TestRingAgainstList(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	type noted struct {
		key string
		at  time.Time
	}
	byID := map[string]noted{}
	for i := range 3 * Kept / 2 {
		key := fmt.Sprint(rand.IntN(2000))
		if i%3 == 0 {
			key = "hot"
		}
		a.now = a.now.Add(SameFor)
		byID[a.deny(key)] = noted{key, a.now}
	}
	kept := 0
	for id, want := range byID {
		d, found := a.ring.Find(id)
		switch found {
		case Here:
			kept++
			if len(d.Rules) != 1 || d.Rules[0].Key != want.key || d.Rules[0].Asked != want.key || !d.At.Equal(want.at) || len(d.Rules[0].Known) != 1 {
				t.Fatalf("%s: %+v, want %+v", id, d, want)
			}
		case Unknown:
			t.Fatalf("%s was noted", id)
		case Gone:
		}
	}
	if uint64(len(byID)) != a.ring.Noted() || kept < Kept/2 || kept > Kept {
		t.Errorf("%d IDs of %d denials, %d kept", len(byID), a.ring.Noted(), kept)
	}
}

func TestNoteOfManyAtOnce(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	a.deny("a")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			requests := []admit.Request{{Key: fmt.Sprint("k", i), Inline: &limit.Limit{N: 1, Per: time.Hour}, N: 1}}
			var d admit.Decision
			for range 200 {
				if err := a.live.Take(requests, &d); err != nil {
					t.Error(err)
				}
				a.ring.Note(requests, &d)
				if _, number := Cut(string(d.Denial)); number != "" {
					if got, found := a.ring.Find(number); found == Here && got.Rules[0].Key != requests[0].Key {
						t.Errorf("%s: %+v", requests[0].Key, got)
					}
				}
				a.ring.Who(a.now, time.Minute, 10, func(*api.LimitedKey) bool { return true })
			}
		})
	}
	all.Wait()
}

// Who is denied most stays on the list, however many others are denied once.
func TestWhoUnderAFlood(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	for i := range 10 {
		for range 10 + i {
			a.deny(fmt.Sprint("most", i))
		}
	}
	for i := range 3 * MostLimited {
		a.deny(fmt.Sprint("flood", i))
	}
	list, over := a.ring.Who(a.now, time.Minute, 10, func(*api.LimitedKey) bool { return true })
	for i, l := range list {
		if want := fmt.Sprint("most", 9-i); l.Key != want || l.Denied != uint64(19-i) || l.Limit != "l" && l.Limit != "inline/window/1h" {
			t.Errorf("%d: %+v, want %s", i, l, want)
		}
	}
	all, _ := a.ring.Who(a.now, time.Minute, 1<<20, func(*api.LimitedKey) bool { return true })
	if len(list) != 10 || over == 0 || len(all) > MostLimited {
		t.Errorf("%d listed, %d of all, %d left", len(list), len(all), over)
	}
	a.now = a.now.Add(Pause + time.Second)
	if list, _ := a.ring.Who(a.now, Pause, 10, func(*api.LimitedKey) bool { return true }); len(list) != 0 {
		t.Errorf("long after: %+v", list)
	}
	a.deny("most9")
	list, _ = a.ring.Who(a.now, Pause, 10, func(*api.LimitedKey) bool { return true })
	if len(list) != 1 || list[0].Denied != 1 || !list[0].Since.Equal(a.now) {
		t.Fatalf("denied anew: %+v", list)
	}
	_, number := Cut(list[0].Denial)
	if d, found := a.ring.Find(number); found != Here || d.Rules[0].Key != "most9" || !d.At.Equal(a.now) {
		t.Errorf("the denial of %+v is %+v", list[0], d)
	}
}

// DENIED is about the window that was asked for, to the second, whatever was denied before it.
func TestWhoWithin(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	began := a.now
	var at []time.Time
	check := func(window time.Duration) {
		t.Helper()
		want := uint64(0)
		for _, moment := range at {
			if a.now.Unix()-moment.Unix() < int64(window/time.Second) {
				want++
			}
		}
		list, _ := a.ring.Who(a.now, window, 10, func(*api.LimitedKey) bool { return true })
		switch {
		case want == 0 && len(list) == 0:
		case len(list) != 1 || list[0].Denied != want || !list[0].Since.Equal(began):
			t.Fatalf("%v until %v: %+v, want %d", window, a.now, list, want)
		}
	}
	one := limit.Limit{N: 1, Per: 1000 * time.Hour}
	a.ask("a", 1, &one)
	for range 2000 {
		a.ask("a", 1, &one)
		at = append(at, a.now)
		for _, window := range []time.Duration{time.Second, 7 * time.Second, time.Minute, Pause} {
			check(window)
		}
		a.now = a.now.Add(time.Duration(rand.Int64N(int64(3 * time.Second))))
		if rand.IntN(50) == 0 {
			a.now = a.now.Add(time.Duration(rand.Int64N(int64(Pause - 3*time.Second))))
		}
		check(time.Minute)
	}
	a.now = at[len(at)-1].Add(-time.Second) // a clock that is set back loses nothing, and counts nothing anew later
	a.ask("a", 1, &one)
	at[len(at)-1], at = a.now.Add(time.Second), append(at, a.now.Add(time.Second))
	a.now = a.now.Add(time.Second)
	check(time.Second)
	check(Pause)
}

// A record that is used again shows nothing of the denial before it: those of few limits take the places of those of many.
func TestLimitsOfADenial(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	one := &limit.Limit{N: 1, Per: time.Hour}
	a.deny("k0")
	for i := range 4 * PerSet {
		limits := 1 + i*5%7
		a.requests = a.requests[:0]
		for j := range limits {
			a.requests = append(a.requests, admit.Request{Key: fmt.Sprint("k", j), Inline: one, Limit: fmt.Sprint("l", j), N: 1})
		}
		for range 2 { // the first ones pass
			if err := a.live.Take(a.requests, &a.d); err != nil {
				t.Fatal(err)
			}
		}
		a.ring.Note(a.requests, &a.d)
		denied := 0
		for j := range a.d.Results {
			if !a.d.Results[j].Allowed {
				denied++
			}
		}
		d, found := a.ring.Find(string(a.d.Denial))
		if found != Here || len(d.Rules) != min(denied, MostRules) || d.More != denied-len(d.Rules) {
			t.Fatalf("%d of %d denied: %v, %+v", denied, limits, found, d)
		}
		place := 0
		for j := range a.d.Results {
			said := &a.d.Results[j]
			if said.Allowed || place == len(d.Rules) {
				continue
			}
			if r := &d.Rules[place]; r.Name != said.Name || r.Key != said.Key || r.Asked != a.requests[j].Key || len(r.Known) != 1 || r.Limit != said.Limit {
				t.Fatalf("rule %d of %d: %+v, want %+v", place, denied, r, said)
			}
			place++
		}
	}
}

// A denial that is noted allocates nothing once the ring is full.
func TestNoteAllocatesNothing(t *testing.T) {
	a := newAsker(t)
	for range 2 * PerSet {
		a.deny("a")
	}
	one := &limit.Limit{N: 1, Per: time.Hour}
	a.requests[0] = admit.Request{Key: "a", Inline: one, N: 1}
	if allocated := testing.AllocsPerRun(100, func() {
		a.ring.Note(a.requests, &a.d)
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}

// BenchmarkNote is what a denial costs more than without an ID, by how many admissions filled the limit: one that has an ID of its
// own, and one more of the same.
func BenchmarkNote(b *testing.B) {
	for _, burst := range []uint64{1, 16, 1000} {
		for name, ns := range map[string][2]uint64{"own": {1, 2}, "same": {1, 1}} {
			b.Run(fmt.Sprintf("burst=%d/%s", burst, name), func(b *testing.B) {
				a := newAsker(b)
				inline := &limit.Limit{N: 1000, Per: time.Hour, Burst: burst}
				for a.ask("user:42", 1, inline) == "" {
					a.now = a.now.Add(time.Millisecond)
				}
				var turns [2]struct {
					requests []admit.Request
					d        admit.Decision
				}
				for i, n := range ns {
					turn := &turns[i]
					turn.requests = []admit.Request{{Key: "user:42", Inline: inline, Limit: "l", N: n}}
					if err := a.live.Take(turn.requests, &turn.d); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					turn := &turns[i%2]
					a.ring.Note(turn.requests, &turn.d)
				}
			})
		}
	}
}

// Who has no place for an ID gets none and pushes out nobody's; the key is known as limited all the same.
func TestDenialsWithoutAnID(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	one := &limit.Limit{N: 1, Per: time.Hour}
	a.d.NoID = true
	for range 3 {
		if id := a.ask("a", 1, one); id != "" {
			t.Errorf("the ID %s", id)
		}
	}
	if noted := a.ring.Noted(); noted != 0 {
		t.Errorf("%d are kept", noted)
	}
	who, _ := a.ring.Who(a.now, time.Second, 10, func(*api.LimitedKey) bool { return true })
	if len(who) != 1 || who[0].Key != "a" || who[0].Denied != 2 {
		t.Errorf("%+v", who)
	}
}

// Noted is how many IDs there were.
func (r *Denials) Noted() (n uint64) {
	for i := range r.sets {
		s := &r.sets[i]
		s.mu.Lock()
		n += s.noted
		s.mu.Unlock()
	}
	return n
}
