package durable

import (
	"testing"

	"github.com/weir-counter/weir/internal/engine"
)

// The audit's running totals have the hits that are counted separately, and AllKeys has
// them not, neither after a crash nor after snapshots.
func TestHitsCountedSeparatelyAreJournaled(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	r := start(t, cfg)
	for round := range uint64(4) {
		r.hit("a", 1000, 1)
		r.hit(engine.SeparatePrefix+"login:allowed", 1001, 2)
		r.sync()
		if round%2 == 0 {
			r.crash()
		} else {
			r.close()
		}
		r = start(t, cfg)
		if len(r.j.found) > 0 {
			t.Fatalf("round %d: %v", round, r.j.found)
		}
		r.want("a", round+1)
		r.want(engine.SeparatePrefix+"login:allowed", 2*(round+1))
		r.want(engine.AllKeys, round+1)
	}
}
