package admin

import (
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/keyspace"
)

// Memory that will be full soon is said before anything is refused, and what is refused once it is
// full, with figures. None of it refuses plain hits.
func TestEngineAlarms(t *testing.T) {
	for code, test := range map[string]struct {
		stats engine.Stats
		says  string
	}{
		"idempotency_filling":   {engine.Stats{ReceiptStats: keyspace.ReceiptStats{OnceBytes: 85 << 20, OnceBudget: 100 << 20}}, "use 85 % of 100MiB"},
		"idempotency_full":      {engine.Stats{ReceiptStats: keyspace.ReceiptStats{OnceBytes: 99, OnceBudget: 100, OnceRefused: 7}}, "7 so far"},
		"idempotency_short":     {engine.Stats{ReceiptStats: keyspace.ReceiptStats{OnceDropping: true}}, "Raise --idempotency-memory"},
		"inline_limits_filling": {engine.Stats{InlineBytes: 80, InlineBudget: 100}, "use 80 % of their quarter"},
		"inline_limits_full":    {engine.Stats{InlineBytes: 1 << 20, InlineBudget: 1 << 20}, "--limit-memory, 1MiB:"},
		"limit_memory_filling":  {engine.Stats{Figures: engine.Figures{LimitBytes: 9, LimitBudget: 10}}, "use 90 %"},
		"limit_memory_full":     {engine.Stats{Figures: engine.Figures{LimitBytes: 10, LimitBudget: 10, LimitRefused: 3}}, "3 so far"},
	} {
		got := MemoryAlarms(test.stats)
		if len(got) != 1 || got[0].Code != code || got[0].Refusing || !strings.Contains(got[0].Message, test.says) || strings.Contains(got[0].Message, "{") {
			t.Errorf("%s: %+v", code, got)
		}
	}
	if got := MemoryAlarms(engine.Stats{ReceiptStats: keyspace.ReceiptStats{OnceBytes: 79, OnceBudget: 100}}); got != nil {
		t.Errorf("while there is space: %+v", got)
	}
}
