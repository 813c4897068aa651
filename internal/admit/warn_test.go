package admit

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// A limit warns from the admission on that uses its share of the burst, and not before; its denials are no warnings.
func TestWarn(t *testing.T) {
	t.Parallel()
	for warn, want := range map[string]int{"80%": 8, "1%": 1, "75%": 8, "71%": 8, "70%": 7, "100%": 10} {
		set, err := policy.Parse("p.yaml", []byte("limits:\n- {name: a, keys: \"k\", limit: 10, per: 1h, warn: "+warn+"}\n- {name: quiet, keys: \"k\", limit: 10, per: 1h}\n"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		live, err := NewLive(e, set)
		if err != nil {
			t.Fatal(err)
		}
		var d Decision
		for n := 1; n <= 12; n++ {
			if err := live.Take([]Request{{Key: "k", N: 1}}, &d); err != nil {
				t.Fatal(err)
			}
			if d.Results[0].Warning != (n >= want && n <= 10) || d.Results[1].Warning || d.Allowed != (n <= 10) {
				t.Errorf("%s: number %d: %+v", warn, n, d.Results)
			}
		}
		if c, err := e.Count("limit:a:warned", time.Hour); err != nil || c.Estimate != uint64(11-want) {
			t.Errorf("%s: %+v, %v", warn, c, err)
		}
	}
	for _, wrong := range []string{"80", "0%", "101%", "-1%", "much", "1.5%", "[]"} {
		_, err := policy.Parse("p.yaml", []byte("limits:\n- {name: a, keys: \"k\", limit: 10, per: 1h, warn: "+wrong+"}\n"))
		if err == nil || !strings.Contains(err.Error(), "p.yaml:2: warn: ") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
