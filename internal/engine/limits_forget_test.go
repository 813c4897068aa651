package engine

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// What keys that begin so have used of all kinds of limits, with their grants and bans, is forgotten here, where it is followed and after
// kill -9; other keys keep theirs, and what comes afterwards counts.
func TestForgetKeysIsFollowed(t *testing.T) {
	t.Parallel()
	for _, withState := range []bool{false, true} {
		c, _ := newChanged(t)
		limits := map[string]Limit{
			"window": {N: 10, Per: time.Hour}, "many": {N: 100, Per: time.Hour}, "gcra": {N: 10, Per: time.Hour, Algorithm: limit.GCRA},
			"fixed": {N: 10, Per: time.Hour, Algorithm: limit.Fixed},
		}
		for name, l := range limits {
			kl := mustLimit(t, c.e, name, l)
			kl.AllowN("u:42:a", 7)
			kl.AllowN("k", 3)
			kl.AllowN("u:4", 3)
			if err := kl.Grant("u:42:granted", 5, c.cfg.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{"u:42:banned", "k"} {
			if err := c.e.Limits().Ban("window", key, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		ofNode, err := c.replica.Limits().LimitIn("n2", limit.WhereNode, "window", limits["window"])
		if err != nil {
			t.Fatal(err)
		}
		ofNode.AllowN("u:42:a", 10)
		c.flush(withState)
		c.replica.Cut(0, new(replication.Cut), false)                         // what is fresh there stays
		mustLimit(t, c.e, "window", limits["window"]).AllowN("u:42:fresh", 1) // in no cut yet
		if n, err := c.e.Limits().ForgetKeys("u:42:"); n != 2*len(limits)+2 || err != nil {
			t.Fatalf("%d keys and limits (%v), want %d", n, err, 2*len(limits)+2)
		}
		for name, l := range limits {
			mustLimit(t, c.e, name, l).AllowN("u:42:a", 1)
		}
		c.flush(false)
		for where, e := range map[string]*Engine{"here": c.e, "followed": c.replica, "after kill -9": c.restarted()} {
			for name, l := range limits {
				kl := mustLimit(t, e, name, l)
				for key, used := range map[string]uint64{"u:42:a": 1, "u:42:fresh": 0, "u:42:granted": 0, "u:4": 3, "k": 3} {
					if v, err := kl.Peek(key, 0); err != nil || v.Remaining != l.N-used {
						t.Errorf("%s: %d of %s left to %s, want %d (%v)", where, v.Remaining, name, key, l.N-used, err)
					}
				}
			}
			if bans := e.Limits().Bans(10); len(bans) != 1 || bans[0].Key != "k" {
				t.Errorf("%s: %+v", where, bans)
			}
		}
		if v, _ := ofNode.Peek("u:42:a", 0); v.Remaining != 10 {
			t.Errorf("of a node: %+v", v)
		}
		if n, err := c.e.Limits().ForgetKeys("nobody"); n != 0 || err != nil {
			t.Error(n, err)
		}
		_, err = c.e.Limits().ForgetKeys("")
		wantCode(t, err, api.CodeInvalidKey)
	}
}
