package durable

import (
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

func (r *running) increment(key string, by int64) {
	r.t.Helper()
	table := r.e.Counters()
	view := table.View()
	if _, err := view.Add(table.Now(), []byte(key), by); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) counterOf(key string) int64 {
	table := r.e.Counters()
	view := table.View()
	c, _ := view.Get(table.Now(), []byte(key))
	return c.Value
}

// A merge leaves counters of Redis commands as they are, and adds those that are missing. A replacement sets those that
// the backup has.
func TestRestoredCounters(t *testing.T) {
	t.Parallel()
	source := start(t, testConfig(t, t.TempDir()))
	source.hit("a", 1000, 1)
	source.increment("both", 50)
	source.increment("theirs", 7)
	file := source.backup()
	source.close()
	for mode, both := range map[api.RestoreMode]int64{api.Merge: 1000, api.Replace: 50} {
		t.Run(string(mode), func(t *testing.T) {
			cfg := testConfig(t, t.TempDir())
			r := start(t, cfg)
			r.increment("both", 1000)
			r.increment("mine", 3)
			r.sync()
			check := func() {
				t.Helper()
				for key, want := range map[string]int64{"both": both, "theirs": 7, "mine": 3} {
					transporttest.Eventually(t, "counter "+key, func() bool { return r.counterOf(key) == want })
				}
			}
			r.restoreInto(file, mode)
			r.sync()
			check()
			r.crash()
			r = start(t, cfg)
			check()
			r.close()
		})
	}
}
