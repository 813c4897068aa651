package ratelimitfields

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weir-counter/weir/limit"
)

var numbers = regexp.MustCompile(`;q=([0-9]+);w=([0-9]+)|;r=([0-9]+);t=([0-9]+)`)

// A client that paces itself by q and w reaches the rate of the limit, and one by r and t
// where the burst comes back many times a second.
func TestObedientClientsReachTheRate(t *testing.T) {
	for _, l := range []limit.Limit{
		{N: 1000, Per: time.Second, Burst: 50},
		{N: 1000, Per: time.Second},
		{N: 10, Per: 100 * time.Millisecond},
		{N: 5, Per: 1500 * time.Millisecond},
		{N: 7, Per: 1001 * time.Millisecond, Burst: 2},
		{N: 20, Per: time.Minute},
		{N: 100, Per: time.Minute, Burst: 500},
		{N: 1, Per: 3 * time.Millisecond},
	} {
		for _, a := range []limit.Algorithm{limit.Window, limit.GCRA} {
			l.Algorithm = a
			rate := float64(l.N) / l.Per.Seconds()
			for by, told := range []string{"q and w", "r and t"} {
				got, interval := pace(t, l, by)
				if by == 1 && interval > time.Second/10 {
					continue
				}
				if got < 0.9*rate {
					t.Errorf("%+v, paced by %s: %.2f a second, the limit admits %.2f", l, told, got, rate)
				}
			}
		}
	}
}

// pace asks a limit for ten minutes, as fast as the fields say, and returns how many were
// admitted in a second, and how long the burst takes to come back.
func pace(t *testing.T, of limit.Limit, by int) (rate float64, interval time.Duration) {
	t.Helper()
	plan, err := limit.New(of)
	if err != nil {
		t.Fatal(err)
	}
	var (
		state    limit.State
		list     List
		admitted int
	)
	const begin, length = int64(1e18), int64(10 * time.Minute)
	for now := begin; now < begin+length && admitted < 20_000; {
		v := plan.Take(&state, now, 1)
		if v.Allowed {
			admitted++
		}
		h := http.Header{}
		list.Reset()
		burst := plan.Limit().Burst
		list.Add(Member{Name: "l", Quota: of.N, Window: of.Per, Burst: burst, Remaining: v.Remaining, Reset: v.Reset})
		list.Write(h, v.RetryAfter)
		pause := int64(v.RetryAfter)
		if v.Allowed {
			pause = pauseOf(t, h, by)
		}
		now += max(1, pause)
		if now >= begin+length || admitted >= 20_000 {
			return float64(admitted) / (time.Duration(now - begin)).Seconds(), plan.Interval()
		}
	}
	return 0, 0
}

// pauseOf spreads q over w, or r over t.
func pauseOf(t *testing.T, h http.Header, by int) int64 {
	t.Helper()
	text := h.Get([]string{Policy, Limit}[by])
	found := numbers.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("field %q", text)
	}
	n, err := strconv.ParseInt(found[1+2*by], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseInt(found[2+2*by], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds * int64(time.Second) / max(1, n)
}
