package engine

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
)

// A ban is known where it was made, where it is followed and after kill -9, until it is over or lifted, by a reset too.
func TestBanIsFollowed(t *testing.T) {
	t.Parallel()
	for _, withState := range []bool{false, true} {
		c, pass := newChanged(t)
		kl := mustLimit(t, c.e, "x", Limit{N: 10, Per: time.Hour})
		banned := func(key string, want time.Duration) {
			t.Helper()
			c.flush(withState)
			for where, e := range map[string]*Engine{"here": c.e, "followed": c.replica, "after kill -9": c.restarted()} {
				if left := e.Limits().Banned("x", key); left != want {
					t.Errorf("%s: %s is banned for %v, want %v", where, key, left, want)
				}
				if left := e.Limits().Banned("y", key); left != 0 {
					t.Errorf("%s: banned under another limit", where)
				}
			}
		}
		ban := func(key string, length time.Duration) {
			t.Helper()
			if err := c.e.Limits().Ban("x", key, length); err != nil {
				t.Fatal(err)
			}
		}
		ban("k", time.Minute)
		ban("other", time.Hour)
		banned("k", time.Minute)
		ban("k", 2*time.Minute) // in its place
		banned("k", 2*time.Minute)
		ban("k", 0)
		banned("k", 0)
		if _, err := kl.Reset("other"); err != nil {
			t.Fatal(err)
		}
		banned("other", 0)
		ban("k", time.Minute)
		banned("k", time.Minute)
		if list := c.replica.Limits().Bans(10); len(list) != 1 || list[0].Name != "x" || list[0].Key != "k" {
			t.Errorf("%+v", list)
		}
		pass(time.Minute)
		banned("k", 0)
		for _, e := range []*Engine{c.e, c.replica} {
			if e.limits.Expire(0); e.limits.AnyBanned() {
				t.Error("a ban that is over is kept")
			}
		}
	}
}

// No more are banned than there is space for.
func TestBansAreBounded(t *testing.T) {
	t.Parallel()
	c, _ := newChanged(t)
	for i := range MaxBans {
		if err := c.e.Limits().Ban("x", string(rune('a'+i%26))+time.Duration(i).String(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, c.e.Limits().Ban("x", "one more", time.Hour), api.CodeOverloaded)
	wantCode(t, c.e.Limits().Ban("x", "", time.Hour), api.CodeInvalidKey)
	wantCode(t, c.e.Limits().Ban("x", "k", MaxBan+1), api.CodeInvalidTime)
}
