package middleware

import (
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/engine"
)

// A journal that is full takes no admissions: requests are refused whatever Fail says, since a
// disk that fills up must not be what lifts the limits. Limits that no journal keeps go on.
func TestFullJournal(t *testing.T) {
	for _, fail := range []Fail{FailOpen, FailClosed} {
		e, err := weir.New(weir.Config{Gather: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		var limits []*weir.KeyedLimit
		for name, per := range map[string]time.Duration{"kept": time.Hour, "short": time.Second} {
			l, err := e.Limit(name, weir.Limit{N: 1000, Per: per})
			if err != nil {
				t.Fatal(err)
			}
			limits = append(limits, l)
		}
		status := func(limit string) int {
			next, _ := handled()
			m := newMiddleware(t, Config{Decider: Limits(e, limits...), Rules: []Rule{{Limit: limit, Key: byAddress}}, Fail: fail})
			return ask(m.Wrap(next), request()).StatusCode
		}
		for _, step := range []struct {
			why         string
			kept, short int
		}{{"", 200, 200}, {"full", 503, 200}, {"", 200, 200}} {
			(*engine.Engine)(e).Limits().RefuseTakes(step.why)
			if kept, short := status("kept"), status("short"); kept != step.kept || short != step.short {
				t.Errorf("fail %d, journal %q: %d and %d, want %d and %d", fail, step.why, kept, short, step.kept, step.short)
			}
		}
	}
}
