package engine

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones, on machines without them

	"github.com/weir-counter/weir/limit"
)

// A quota by the calendar goes on after restarts, from states and admissions of the journal, and never admits more than it has
// from one midnight to the next, of a zone whose clocks change in between.
func TestCalendarGoesOn(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	quota := Limit{N: 20, Calendar: limit.Calendar{Unit: limit.Day, Zone: "Europe/Berlin"}}
	random := rand.New(rand.NewPCG(1, 1))
	j, now := newJournaled(t)
	now.Store(time.Date(2024, 3, 25, 12, 0, 0, 0, zone).UnixNano())
	kl := mustLimit(t, j.e, "x", quota)
	admitted, last := map[string]int{}, ""
	for range 4000 {
		now.Add(random.Int64N(int64(8 * time.Minute)))
		day := time.Unix(0, now.Load()).In(zone).Format(time.DateOnly)
		v, err := kl.Take("k", 1)
		if err != nil {
			t.Fatal(err)
		}
		if v.Allowed {
			admitted[day]++
		}
		if day != last && !v.Allowed {
			t.Fatalf("the first of %s was denied: %+v", day, v)
		}
		last = day
		if admitted[day] > 20 {
			t.Fatalf("%d admitted on %s", admitted[day], day)
		}
		if j.live(random.IntN(40)) {
			kl = mustLimit(t, j.e, "x", quota)
		}
	}
	full := 0
	for _, n := range admitted {
		if n == 20 {
			full++
		}
	}
	if full < 10 {
		t.Errorf("only %d of %d days had all", full, len(admitted))
	}
}

// The edges are by the time of day, also where the clock is set while the engine runs; a clock that is set back grants nothing.
func TestCalendarWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	c := &twoClocks{}
	e := c.engine(t)
	kl := mustLimit(t, e, "x", Limit{N: 2, Calendar: limit.Calendar{Unit: limit.Day}})
	take := func(step string, want bool) {
		t.Helper()
		v, err := kl.Take("k", 1)
		if err != nil {
			t.Fatal(err)
		}
		now := e.Config().Now().UTC()
		edge := now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
		if strings.HasPrefix(step, "set back") {
			edge += 24 * time.Hour // the one after the day that began
		}
		if v.Allowed != want || v.Allowed && v.Reset.Round(time.Second) != edge.Round(time.Second) {
			t.Errorf("%s: %+v, the edge is in %v", step, v, edge)
		}
	}
	take("first", true)
	take("second", true)
	take("third", false)
	c.wrong += 24 * time.Hour
	take("set to the next day", true)
	c.wrong -= 24 * time.Hour
	take("set back, one is left of that day", true)
	take("set back", false)
}
