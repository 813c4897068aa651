package calendar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/history/calendar"
)

// In each zone, units are without holes, begin at the first moment of their day, and hold the
// times that the calendar says.
func TestZones(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "Asia/Beirut", "Africa/Cairo"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		from, to := time.Date(2010, 12, 3, 4, 5, 6, 0, zone), time.Date(2019, 3, 3, 4, 5, 6, 0, zone)
		for _, unit := range []calendar.Unit{calendar.Hour, calendar.Day, calendar.Week, calendar.Month} {
			bounds, err := calendar.Bounds(unit, from, to, zone, 100_000)
			if err != nil {
				t.Fatal(err)
			}
			if bounds[0] > from.Unix() || bounds[len(bounds)-1] < to.Unix() {
				t.Errorf("%s %s: %d to %d do not hold all", name, unit, bounds[0], bounds[len(bounds)-1])
			}
			for i, at := range bounds[:len(bounds)-1] {
				checkSpan(t, unit, time.Unix(at, 0).In(zone), time.Unix(bounds[i+1], 0).In(zone))
			}
		}
	}
}

func checkSpan(t *testing.T, unit calendar.Unit, start, end time.Time) {
	t.Helper()
	length := map[calendar.Unit][2]time.Duration{
		calendar.Hour: {30 * time.Minute, 90 * time.Minute}, calendar.Day: {22 * time.Hour, 26 * time.Hour},
		calendar.Week: {166 * time.Hour, 170 * time.Hour}, calendar.Month: {27 * 24 * time.Hour, 32 * 24 * time.Hour},
	}[unit]
	if got := end.Sub(start); (got < length[0] || got > length[1]) && start.Location().String() != "Pacific/Apia" { // which had no 30 December 2011
		t.Errorf("%s: %s to %s", unit, start, end)
	}
	if unit == calendar.Hour {
		if start.Minute() != 0 && start.Location().String() != "Australia/Lord_Howe" {
			t.Errorf("an hour begins at %s", start)
		}
		return
	}
	if before := start.Add(-time.Second); before.Day() == start.Day() {
		t.Errorf("%s: the day of %s begins before", unit, start)
	}
	if unit == calendar.Week && start.Weekday() != time.Monday || unit == calendar.Month && start.Day() != 1 {
		t.Errorf("%s begins at %s", unit, start)
	}
}

func TestRefusesTooMany(t *testing.T) {
	t.Parallel()
	from := time.Unix(0, 0)
	if _, err := calendar.Bounds(calendar.Day, from, from, time.UTC, 10); err == nil {
		t.Error("nothing is asked for")
	}
	if bounds, err := calendar.Bounds(calendar.Day, from, from.Add(240*time.Hour), time.UTC, 10); err != nil || len(bounds) != 11 {
		t.Error(len(bounds), err)
	}
	if _, err := calendar.Bounds(calendar.Day, from, from.Add(241*time.Hour), time.UTC, 10); err == nil {
		t.Error("eleven days are not more than ten")
	}
	if _, err := calendar.ParseUnit("fortnight"); err == nil {
		t.Error("a fortnight is a unit")
	}
}

// No key of a file is a formula to a spreadsheet, and each can be had back.
func TestCSVFormulas(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"=1+1", "+1", "-1", "@x", "\tx", "\rx", "\x1b[2J", "'x", "a=1", "plain"} {
		var b strings.Builder
		w, err := calendar.NewExport(&b)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(key, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(b.String(), "\n")
		line = strings.TrimPrefix(line, `"`)
		if marked := strings.HasPrefix(line, "'"); marked != strings.ContainsAny(key[:1], "=+-@\t\r\x1b'") {
			t.Errorf("%q: %q", key, line)
		}
	}
}
