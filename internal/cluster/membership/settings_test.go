package membership

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// tellsOf is a node's, with hashes of settings a, b...
func tellsOf(t *testing.T, origin, node string, hashes ...uint64) *Settings {
	return &Settings{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Origin: origin, Node: node, Own: func() (list []Setting) {
		for i, hash := range hashes {
			list = append(list, Setting{string(rune('a' + i)), hash})
		}
		return list
	}}
}

func TestSettingsThatDiffer(t *testing.T) {
	t.Parallel()
	own := tellsOf(t, "1", "n1", 10, 20, 30)
	same, other, short := tellsOf(t, "2", "n2", 10, 20, 30), tellsOf(t, "3", "n3", 10, 21, 31), tellsOf(t, "4", "n4", 10, 20)
	namesake := tellsOf(t, "1", "n1", 0, 0, 0)
	at := time.Unix(1_800_000_000, 0)
	say := func(after time.Duration, nodes ...*Settings) string {
		var said []string
		for ; after > 0; after -= settingsEvery {
			at = at.Add(settingsEvery)
			for _, n := range nodes {
				own.hear(at, n.encode())
			}
		}
		for _, a := range own.alarms(at) {
			said = append(said, a.Code+": "+a.Message)
		}
		return strings.Join(said, "\n")
	}
	if got := say(differAfter, same, other, short, namesake); got != "" {
		t.Errorf("a file that is put on one node after the other: %s", got)
	}
	const want = "settings_differ: node n3 has another b, c than this one since 2027-01-15T08:00:05Z: give all nodes of a cluster the same"
	if got := say(settingsEvery, same, other, short, namesake); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	other.Own = own.Own
	if got := say(settingsEvery, same, other); got != "" {
		t.Errorf("the same again: %s", got)
	}
	other.Own = same.Own
	own.Own = short.Own // another build, of fewer settings
	if got := say(2*differAfter, other); got != "" {
		t.Errorf("of another build: %s", got)
	}
	other.Own = tellsOf(t, "3", "n3", 0).Own
	if got := say(2*differAfter, other); !strings.Contains(got, "another a than") {
		t.Errorf("differs: %s", got)
	}
	if at = at.Add(settingsFor + 1); len(own.alarms(at)) > 0 {
		t.Error("a node that is silent may have been started again")
	}
	if own.hear(at, same.encode()); len(own.others) != 1 {
		t.Errorf("%d nodes are known", len(own.others))
	}
}

// What is cut or made up is passed over.
func TestSettingsOnTheWire(t *testing.T) {
	t.Parallel()
	whole := tellsOf(t, "7", "n7", 1, 2).encode()
	if origin, node, list, ok := decodeSettings(whole); !ok || origin != "7" || node != "n7" || len(list) != 2 || list["a"] != 1 || list["b"] != 2 {
		t.Error(origin, node, list, ok)
	}
	ends := map[int]bool{len(whole): true, len(whole) - 10: true, len(whole) - 20: true} // after a setting
	for n := range len(whole) {
		if _, _, _, ok := decodeSettings(whole[:n]); ok && !ends[n] {
			t.Errorf("the first %d bytes are taken", n)
		}
	}
	many := make([]uint64, maxSettings+1)
	if _, _, _, ok := decodeSettings(tellsOf(t, "7", "n7", many...).encode()); ok {
		t.Error("too many are taken")
	}
}
