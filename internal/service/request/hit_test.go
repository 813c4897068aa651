package request_test

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/service/request"
)

// Times are the one thing that the readers of bodies and their naive twins share.
func TestAt(t *testing.T) {
	start := time.Unix(1_769_860_800, 0)
	for text, want := range map[string]time.Time{"0": time.Unix(0, 0), "1769860800": start, "1769860800.5": start.Add(500 * time.Millisecond), "2026-01-31T12:00:00Z": start} {
		if got, rej := request.ParseAt(text); rej != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v", text, got, rej)
		}
	}
}
