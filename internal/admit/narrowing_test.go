package admit

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// Limits that a file narrows and widens again admit no more than the widest of them.
func TestNarrowingGivesNoFreshAllowance(t *testing.T) { reloadUnderLoad(t, 8, 9, 10) }

// A caller who brings limits along in turn gets no more than the widest of them.
func TestInlineLimitsInTurnGiveNoFreshAllowance(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.Window, limit.Fixed, limit.GCRA} {
		for _, n := range [][]uint64{{10, 8}, {100, 10}, {10, 1000, 8}} {
			r := newRig(t, good)
			var d Decision
			var most uint64
			for _, n := range n {
				most = max(most, n)
			}
			admitted := uint64(0)
			for i := range 10 * int(most) {
				l := engine.Limit{N: n[i%len(n)], Per: time.Hour, Algorithm: algorithm}
				if err := r.Take([]Request{{Key: "k", Inline: &l, N: 1}}, &d); err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					admitted++
				}
			}
			if admitted > most || admitted < most*9/10 {
				t.Errorf("%v %d: %d admitted within an hour", algorithm, n, admitted)
			}
		}
	}
}
