package admit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// takeForms are the common ways to ask.
var takeForms = []struct {
	name, file string
	req        Request
	allocs     float64 // most, beside what the engine allocates for its answer
}{
	{"one", "  - {name: a, keys: \"login:*\", limit: 60000000, per: 1m}\n", Request{Key: "login:bob", N: 1}, 0},
	{"cut", "  - {name: a, keys: \"login:{user}:*\", by: \"login:{user}\", limit: 60000000, per: 1m}\n", Request{Key: "login:bob:10.0.0.1", N: 1}, 0},
	{"built", "  - {name: a, keys: \"login:{user}:*\", by: \"user:{user}\", limit: 60000000, per: 1m}\n", Request{Key: "login:bob:10.0.0.1", N: 1}, 1},
	{"three", "  - {name: a, keys: \"login:*\", limit: 60000000, per: 1m}\n  - {name: b, keys: \"*\", limit: 60000000, per: 1m}\n  - {name: c, keys: \"*:bob\", limit: 1, per: 1m, mode: shadow}\n", Request{Key: "login:bob", N: 1}, 0},
	{"named", "  - {name: a, keys: \"login:*\", limit: 60000000, per: 1m}\n", Request{Key: "login:bob", Limit: "a", N: 1}, 0},
	{"inline", "  - {name: a, keys: \"login:*\", limit: 60000000, per: 1m}\n", Request{Key: "k", Inline: &engine.Limit{N: 60_000_000, Per: time.Minute}, N: 1}, 0},
	{"unmatched", "  - {name: a, keys: \"login:*\", limit: 60000000, per: 1m}\n", Request{Key: "other", N: 1}, 0},
	{"of1000", thousand(), Request{Key: "service500:bob:x", N: 1}, 0},
}

// thousand is as many policies, each with a prefix of its own.
func thousand() string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "  - {name: n%d, keys: \"service%d:{user}:*\", by: \"service%d:{user}\", limit: 60000000, per: 1m}\n", i, i, i)
	}
	return b.String()
}

func TestTakeAllocates(t *testing.T) {
	for _, form := range takeForms {
		r := newRig(t, "limits:\n"+form.file)
		reqs := []Request{form.req}
		var d Decision
		got := testing.AllocsPerRun(200, func() {
			if err := r.Take(reqs, &d); err != nil || !d.Allowed {
				t.Fatal(err, d.Results)
			}
		})
		got -= testing.AllocsPerRun(200, func() {
			if len(d.checks) > 0 {
				r.engine.Limits().TakeAll(d.checks, d.verdicts)
			}
		})
		if got > form.allocs {
			t.Errorf("%s: %v allocations, want %v", form.name, got, form.allocs)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for _, form := range takeForms {
		b.Run(form.name, func(b *testing.B) {
			r := newRig(b, "limits:\n"+form.file)
			reqs := []Request{form.req}
			var d Decision
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Take(reqs, &d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What it costs to find the policies of a key.
func BenchmarkMatch(b *testing.B) {
	for _, form := range takeForms {
		b.Run(form.name, func(b *testing.B) {
			s := mustParse(b, "limits:\n"+form.file)
			for b.Loop() {
				for _, at := range s.Candidates(form.req.Key) {
					s.CountedKey(int(at), form.req.Key)
				}
			}
		})
	}
}
