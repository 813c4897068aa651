package shadow

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones, on machines without them

	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/units"
)

// A quota by the calendar denies of a log what a count by local dates says, across a change of the clocks, and the smallest
// one that is enough is the most of any date.
func TestCalendarOfALog(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 1))
	at := time.Date(2024, 10, 24, 9, 0, 0, 0, zone)
	var log []ask
	days, denied, most := map[string]int{}, 0, 0
	for range 3000 {
		at = at.Add(time.Duration(random.IntN(300)) * time.Second)
		log = append(log, ask{at: at.Unix(), n: 1, keys: []string{"ip:10.0.0.1", "url:/"}})
		day := at.In(zone).Format(time.DateOnly)
		if days[day]++; days[day] > 250 {
			denied++
		}
		most = max(most, days[day])
	}
	r, err := runOn(t, clf(log), Options{
		Log: replay.Options{Keys: []string{"ip:{host}"}}, Policies: policies(t, "limits:\n- {name: daily, keys: \"ip:*\", limit: 250, per: day, tz: Europe/Berlin}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	l := r.Limits[0]
	if l.Denied != uint64(denied) || denied == 0 || l.Needs[0].N != uint64(most) || l.Calendar != "day, Europe/Berlin" {
		t.Errorf("%d denied, needs %+v, want %d and %d", l.Denied, l.Needs, denied, most)
	}
	if want := fmt.Sprintf("250 per day, Europe/Berlin would have denied %s of 3,000 requests", units.Grouped(uint64(denied))); !strings.Contains(l.sentence(), want) {
		t.Errorf("%s\nwant %s", l.sentence(), want)
	}
}
