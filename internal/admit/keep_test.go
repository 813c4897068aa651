package admit

import (
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

func one(t *testing.T, name, text string, version uint64) *policy.Set {
	t.Helper()
	s, err := policy.ParsePolicy(name, []byte(text), version)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Policies of the API stand beside those of the file, behind those of the same order; of one name the file's is in use, or the API's.
func TestKeep(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	file := mustParse(t, "limits:\n  - {name: a, keys: \"k:*\", limit: 1, per: 1h}\n  - {name: b, keys: \"k:*\", limit: 2, per: 1h}\n")
	live, err := NewLive(e, file)
	if err != nil {
		t.Fatal(err)
	}
	inUse := func() string {
		var text []string
		for _, p := range live.Set().Policies() {
			text = append(text, p.Name+weirLimit(p.Limit.N))
		}
		return strings.Join(text, " ")
	}
	kept := policy.Join(one(t, "a", `{keys: "k:*", limit: 7, per: 1h}`, 3), one(t, "c", `{keys: "k:*", limit: 8, per: 1h}`, 4), one(t, "first", `{keys: "k:*", limit: 9, per: 1h, order: -1}`, 5))
	for _, want := range []struct {
		kept  *policy.Set
		first bool
		is    string
	}{
		{kept, false, "first9 a1 b2 c8"},
		{kept, true, "first9 b2 a7 c8"},
		{nil, true, "a1 b2"},
	} {
		if err := live.Keep(want.kept, want.first); err != nil {
			t.Fatal(err)
		}
		if got := inUse(); got != want.is {
			t.Errorf("first %v: %s, want %s", want.first, got, want.is)
		}
	}
	if err := live.Keep(kept, false); err != nil {
		t.Fatal(err)
	}
	if err := live.Replace(mustParse(t, "limits: [{name: c, keys: \"k:*\", limit: 2, per: 1h}]")); err != nil {
		t.Fatal(err)
	}
	if got := inUse(); got != "first9 c2 a7" {
		t.Errorf("after another file: %s", got)
	}
	global := one(t, "g", `{keys: "k:*", limit: 7, per: 1h, where: global, regions: {eu: 50%}}`, 3)
	if err := live.Fits(global); err == nil {
		t.Error("a limit over regions on a server of none fits")
	}
	if err := live.Keep(global, false); err == nil || inUse() != "first9 c2 a7" {
		t.Errorf("%v, and then %s", err, inUse())
	}
}

func weirLimit(n uint64) string { return string(rune('0' + n)) }

// Limits of how many at once stand in a file beside others, and are not decided by a Live.
func TestFileWithAtOnce(t *testing.T) {
	t.Parallel()
	set := mustParse(t, good+"  - {name: jobs, keys: \"job:*\", max: 20}\n")
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := NewLive(e, set); err != nil {
		t.Error(err)
	}
	if _, err := NewClusterLive(e, set, Cluster{Node: "n1"}); err != nil {
		t.Error(err)
	}
}
