package durable

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// What a key was admitted under a limit of a minute or more is there after a
// crash and after a clean stop; a limit of a second starts over.
func TestLimitsSurviveRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	limits := func(r *running) (login, burst *engine.KeyedLimit) {
		login, err := r.e.Limit("login", engine.Limit{N: 5, Per: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		burst, err = r.e.Limit("burst", engine.Limit{N: 5, Per: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return login, burst
	}
	r := start(t, testConfig(t, dir))
	login, burst := limits(r)
	for range 3 {
		if !login.Allow("ann") || !burst.Allow("ann") {
			t.Fatal("denied at first")
		}
	}
	if err := r.j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.crash()

	r = start(t, testConfig(t, dir))
	login, burst = limits(r)
	if v, err := login.Take("ann", 1); err != nil || !v.Allowed || v.Remaining != 1 {
		t.Errorf("after a crash: %+v, %v: want the fourth of five", v, err)
	}
	if v, err := burst.Peek("ann", 0); err != nil || v.Remaining != 5 {
		t.Errorf("a limit of a second after a crash: %+v, %v", v, err)
	}
	r.close() // with snapshots

	r = start(t, testConfig(t, dir))
	login, _ = limits(r)
	if v, err := login.Take("ann", 1); err != nil || !v.Allowed || v.Remaining != 0 {
		t.Errorf("after a clean stop: %+v, %v: want the fifth of five", v, err)
	}
	if login.Allow("ann") {
		t.Error("a sixth was admitted")
	}
	if n := r.e.Stats().Hits; n != 0 {
		t.Errorf("admissions were counted as %d hits", n)
	}
	r.close()
}
