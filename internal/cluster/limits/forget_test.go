package limits_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/limits"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// What keys that begin so have used is forgotten by all nodes, whichever is asked and whoever decides.
func TestForgetKeys(t *testing.T) {
	t.Parallel()
	names := []string{"strict", "leased"}
	// A take whose answer is late may be used: what is taken again until it is answered needs space for it.
	file := "limits:\n  - {name: banned, keys: \"{u}:banned\", limit: 10, per: 1h}\n"
	for _, name := range names {
		file += "  - {name: " + name + ", keys: \"{u}:" + name + "\", limit: 1000, per: 1h, where: " + name + "}\n"
	}
	c := newCluster(t, file, 5*time.Millisecond)
	for _, name := range names {
		for _, user := range []string{"u42", "u43"} {
			transporttest.Eventually(t, user+" is admitted by "+name, func() bool { d := c.Take(1, user+":"+name); return d.Allowed && d.Results[0].Away == "" })
		}
	}
	if err := c.At(2).Live.Ban("banned", "u42:banned", time.Hour); err != nil {
		t.Fatal(err)
	}
	all := func(what string, bans int, before func(), users ...string) {
		t.Helper()
		transporttest.Eventually(t, what, func() bool {
			before()
			for i := range limits.ClusterSize {
				if len(c.At(i).Engine.Limits().Bans(10)) != bans {
					return false
				}
				for _, name := range names {
					kl, _ := c.At(i).Live.Limit(name)
					var keys []string
					for _, u := range kl.Keys(10) {
						keys = append(keys, u.Key)
					}
					want := slices.Clone(users)
					for j := range want {
						want[j] += ":" + name
					}
					if slices.Sort(keys); !slices.Equal(keys, want) {
						return false
					}
				}
			}
			return true
		})
	}
	all("all nodes know who has used something, and who is banned", 1, func() {}, "u42", "u43")
	if n, err := c.At(0).Engine.Limits().ForgetKeys("u42:"); n != len(names)+1 || err != nil {
		t.Fatal(n, err)
	}
	again := func() { // a node may have reported late what it was granted
		if _, err := c.At(0).Engine.Limits().ForgetKeys("u42:"); err != nil {
			t.Error(err)
		}
	}
	all("all nodes have forgotten", 0, again, "u43")
}
