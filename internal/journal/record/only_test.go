package record

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// Only leaves what it keeps as it was, removals where they were, and makes the window of all hits anew.
func TestOnly(t *testing.T) {
	t.Parallel()
	e := NewEncoder(Incarnation{1, 1}, 1)
	e.Node = "n"
	e.Begin(time.Unix(100, 0))
	e.Add(0, []replication.Delta{{Key: "a:1", At: 90, N: 2}, {Key: "b", At: 91, N: 3}, {Key: "b"}, {Key: "a:1", At: 92, N: 4}, {Key: "a:2"}, {Key: "a:2", At: 93, N: 1}})
	var w window.Window
	restored := AppendWindowEntry(nil, "", &w)
	for _, key := range []string{"a:1", "b", "limit:x:allowed"} {
		restored = AppendWindowEntry(restored, key, &w)
	}
	e.AddRestored(0, KindWindows, restored, 1)
	p, err := DecodePart(e.End(nil)[0])
	if err != nil || len(p.Batches) != 2 {
		t.Fatal(p, err)
	}
	keep := func(key string) bool { return strings.HasPrefix(key, "a:") || strings.HasPrefix(key, "limit:") }
	hits := p.Batches[0].Only(keep)
	if got := fmt.Sprint(hits.Deltas()); got != "[{a:1 90 2} {a:1 92 4} {a:2 0 0} {a:2 93 1}]" || hits.N != 7 || !hits.Removes {
		t.Errorf("%s, %d, %v", got, hits.N, hits.Removes)
	}
	windows := p.Batches[1].Only(keep)
	var keys []string
	list, sound := windows.Windows()
	for _, one := range list {
		keys = append(keys, one.Key)
	}
	if fmt.Sprintf("%q", keys) != `["a:1" "" "limit:x:allowed"]` || !sound || windows.N != 3 {
		t.Errorf("%q, %v, %d", keys, sound, windows.N)
	}
	if none := p.Batches[0].Only(func(string) bool { return false }); len(none.Entries) > 0 || none.N > 0 || none.Removes {
		t.Errorf("%+v", none)
	}
}
