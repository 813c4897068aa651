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

// A client that paces itself by q and w reaches the rate of the limit, and r at once are admitted.
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
			if got := pace(t, l); got < 0.9*rate {
				t.Errorf("%+v: %.2f a second, the limit admits %.2f", l, got, rate)
			}
		}
	}
}

// pace asks a limit for ten minutes, as fast as the fields say, and returns how many were
// admitted in a second. r may pass at once each time.
func pace(t *testing.T, rule limit.Limit) (rate float64) {
	t.Helper()
	plan, err := limit.New(rule)
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
		list.Add(Member{Name: "l", Quota: rule.N, Window: rule.Per, Burst: burst, Remaining: v.Remaining, Reset: v.Reset})
		list.Write(h, v.RetryAfter)
		pause := int64(v.RetryAfter)
		if v.Allowed {
			pause = number(t, h, Policy, 2) * int64(time.Second) / max(1, number(t, h, Policy, 1))
			if r := uint64(number(t, h, Limit, 3)); !plan.Peek(&state, now, r).Allowed || plan.Peek(&state, now, r+1).Allowed {
				t.Fatalf("%+v: r=%d is not what may pass at once", rule, r)
			}
		}
		now += max(1, pause)
		if now >= begin+length || admitted >= 20_000 {
			return float64(admitted) / (time.Duration(now - begin)).Seconds()
		}
	}
	return 0
}

// number is a number of a field, by its place in numbers.
func number(t *testing.T, h http.Header, field string, place int) int64 {
	t.Helper()
	text := h.Get(field)
	found := numbers.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("field %q", text)
	}
	n, err := strconv.ParseInt(found[place], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
