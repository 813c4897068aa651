package main

import (
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cli"
)

// A region of which nothing comes is not reachable, and its lag grows; one whose digests come and are old is late.
func TestRegionState(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		region api.Region
		want   string
	}{
		{api.Region{Epoch: 1, Linked: true, EveryS: 1, HeardS: 0.5}, "here"},
		{api.Region{Late: true}, "LATE: nothing came yet"},
		{api.Region{Epoch: 1, Late: true, EveryS: 1, HeardS: 19}, "NOT REACHABLE for 19s, hits since " + cli.TimeText(api.Region{}.AsOf) + " may be missing"},
		{api.Region{Epoch: 1, Late: true, EveryS: 1, HeardS: 0.5}, "LATE, hits since " + cli.TimeText(api.Region{}.AsOf) + " may be missing"},
	} {
		if got := regionState(test.region); got != test.want {
			t.Errorf("%+v: %q, want %q", test.region, got, test.want)
		}
	}
}
