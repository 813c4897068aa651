package membership

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestSettingsThatDiffer(t *testing.T) {
	t.Parallel()
	own := Settings{"a": 10, "b": 20, "c": 30}
	node := func(name string, has Settings) Holder {
		return Holder{PlacementEntry: PlacementEntry{Node: name, Settings: has}, Here: true}
	}
	same, other, short := node("n2", Settings{"a": 10, "b": 20, "c": 30}), node("n3", Settings{"a": 10, "b": 21, "c": 31}), node("n4", Settings{"a": 10, "b": 20})
	self := Holder{PlacementEntry: PlacementEntry{Node: "n1", Settings: Settings{"a": 0}}, Self: true, Here: true}
	v := &View{cfg: HoldersConfig{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}}
	at := time.Unix(1_800_000_000, 0)
	say := func(after time.Duration, nodes ...Holder) string {
		var said []string
		for ; after > 0; after -= keepEvery {
			at = at.Add(keepEvery)
			v.compareSettings(at, own, nodes)
		}
		for _, a := range v.SettingsAlarms(at) {
			said = append(said, a.Code+": "+a.Message)
		}
		return strings.Join(said, "\n")
	}
	if got := say(differAfter, same, other, short, self); got != "" {
		t.Errorf("a file that is put on one node after the other: %s", got)
	}
	const want = "settings_differ: node n3 has another b, c than this one since 2027-01-15T08:00:01Z: give all nodes of a cluster the same"
	if got := say(keepEvery, same, other, short, self); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := say(keepEvery, same, node("n3", own)); got != "" {
		t.Errorf("the same again: %s", got)
	}
	own = short.Settings // another build, of fewer settings
	if got := say(2*differAfter, node("n3", same.Settings)); got != "" {
		t.Errorf("of another build: %s", got)
	}
	if got := say(2*differAfter, node("n3", Settings{"a": 0})); !strings.Contains(got, "another a than") {
		t.Errorf("differs: %s", got)
	}
	if got := say(keepEvery, Holder{PlacementEntry: PlacementEntry{Node: "n3", Settings: Settings{"a": 0}}}); got != "" {
		t.Errorf("a node that is silent may have been started again: %s", got)
	}
}
