package view

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/region/digest"
	"github.com/weir-counter/weir/region/ledger"
)

// Who bounds the process' memory hears of each region that has windows, and of each that has them no more.
func TestOthersAreTold(t *testing.T) {
	t.Parallel()
	var told []int
	v := New(weir.Config{Memory: 4 * 64 << 10}, func(regions int) { told = append(told, regions) })
	defer v.Close()
	base := func(name string) ledger.Event {
		return ledger.Event{Kind: ledger.Base, Region: &ledger.Region{Name: name, Note: &digest.Note{Partitions: 4, Retention: time.Hour}}}
	}
	gone := ledger.Event{Kind: ledger.Gone, Region: &ledger.Region{Name: "us"}}
	for _, e := range []ledger.Event{base("us"), base("ap"), base("us"), gone, gone, base("us")} {
		if err := v.Take(e); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{1, 2, 1, 2}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
