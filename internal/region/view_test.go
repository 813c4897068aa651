package region

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Who bounds the process' memory hears of each region that has windows, and of each that has them no more.
func TestOthersAreReported(t *testing.T) {
	t.Parallel()
	var reported []int
	v := NewViews(engine.Config{Memory: 4 * 64 << 10}, func(regions int) { reported = append(reported, regions) })
	defer v.Close()
	base := func(name string) Event {
		return Event{Kind: Base, Region: &LedgerRegion{Name: name, Note: &Note{Partitions: 4, Retention: time.Hour}}}
	}
	gone := Event{Kind: LedgerGone, Region: &LedgerRegion{Name: "us"}}
	for _, e := range []Event{base("us"), base("ap"), base("us"), gone, gone, base("us")} {
		if err := v.Take(e, func(func(Message) error) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{1, 2, 1, 2}; !slices.Equal(reported, want) {
		t.Errorf("reported %v, want %v", reported, want)
	}
}
