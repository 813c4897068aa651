package region

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
)

// A region whose digests come as they should, and are old, as of one that is overloaded, is late like one of which nothing comes: answers
// name it and have no upper bound.
func TestOldDigestsAreLate(t *testing.T) {
	t.Parallel()
	w, _ := halfBase(t)
	w.clock = w.clock.Add(2 * buildPause)
	w.drain(0)
	n := w.regions[0].nodes[0]
	for _, c := range []struct {
		age, heard time.Duration
		nodes      []api.Late // of it that are late
		behind     bool
	}{
		{age: 0, heard: 0, behind: false},
		{age: time.Minute, heard: 0, behind: false},
		{age: time.Hour, heard: 0, behind: true},
		{age: time.Hour, heard: 0, nodes: []api.Late{{Node: "n2"}}, behind: false}, // the node is named
		{age: time.Hour, heard: time.Hour, nodes: []api.Late{{Node: "n2"}}, behind: true},
	} {
		is := n.shown["c"]
		note := *is.note
		note.Every, note.Late = time.Minute, c.nodes
		is.note, is.at, is.heard = &note, time.Now().Add(-c.age).UnixMilli(), time.Now().Add(-c.heard)
		n.shown["c"] = is
		if got := n.statusOf("c"); got.Late != c.behind || len(got.Nodes) != len(c.nodes) || time.Since(got.AsOf.Time) < c.age {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
