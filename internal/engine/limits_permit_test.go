package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/admission"
)

// Who holds a permit is known where it was decided, where it is followed and after kill -9, until it is given back or its time is over: where it
// is followed up to a second later, never earlier.
func TestPermitsAreFollowed(t *testing.T) {
	t.Parallel()
	for _, withState := range []bool{false, true} {
		c, pass := newChanged(t)
		kl := mustLimit(t, c.e, "jobs", Limit{N: 2, Per: 30 * time.Second})
		held := func(want int, also ...int) {
			t.Helper()
			c.flush(withState)
			for where, e := range map[string]*Engine{"here": c.e, "followed": c.replica, "after kill -9": c.restarted()} {
				n := 0
				e.Limits().Permits(func(name, key string, held int) {
					if name != "jobs" || key != "k" {
						t.Errorf("%s: %d of %s, %s", where, held, name, key)
					}
					n = held
				})
				if n != want && (where == "here" || len(also) == 0 || n != also[0]) {
					t.Errorf("%s: %d are held, want %d", where, n, want)
				}
			}
		}
		take := func(holder uint64, want bool) {
			t.Helper()
			if p, err := kl.Permit(admission.TakePermit, "k", holder); p.OK != want || err != nil {
				t.Fatalf("take %d: %+v, %v", holder, p, err)
			}
		}
		take(1, true)
		pass(10 * time.Second)
		take(2, true)
		take(2, true) // the same, asked again
		take(3, false)
		held(2)
		pass(15 * time.Second)
		if p, err := kl.Permit(admission.RenewPermit, "k", 2); !p.OK || p.Held != 2 || err != nil {
			t.Errorf("%+v, %v", p, err)
		}
		held(2)
		if p, _ := kl.Permit(admission.TakePermit, "k", 3); p.OK || p.Held != 2 || p.Wait != 5*time.Second {
			t.Errorf("%+v", p)
		}
		pass(5 * time.Second)
		held(1, 2) // that of 1 is over
		pass(time.Second)
		held(1)
		if p, _ := kl.Permit(admission.RenewPermit, "k", 1); p.OK {
			t.Error("a permit that is over was renewed")
		}
		take(3, true)
		held(2)
		followed := mustLimit(t, c.replica, "jobs", Limit{N: 2, Per: 30 * time.Second}) // that decides now
		if p, _ := followed.Permit(admission.TakePermit, "k", 4); p.OK || p.Held != 2 {
			t.Errorf("another that decides: %+v", p)
		}
		for _, want := range []bool{true, false} {
			if p, err := kl.Permit(admission.ReleasePermit, "k", 2); p.OK != want || err != nil {
				t.Errorf("%+v, %v", p, err)
			}
		}
		held(1)
		pass(32 * time.Second)
		held(0)
		wantCode(t, func() error { _, err := kl.Permit(admission.TakePermit, "", 1); return err }(), api.CodeInvalidKey)
	}
}

// A former owner may have written a permit that it never answered for, after the next owner gave out all others. Then who repeats its
// request does not learn that it holds one, until so few are held.
func TestAPermitOfAFormerOwnerIsNotTaken(t *testing.T) {
	t.Parallel()
	c, pass := newChanged(t)
	l := Limit{N: 3, Per: 30 * time.Second}
	former, next := mustLimit(t, c.e, "jobs", l), mustLimit(t, c.replica, "jobs", l)
	take := func(kl *KeyedLimit, holder uint64, want bool, held int) {
		t.Helper()
		if p, err := kl.Permit(admission.TakePermit, "k", holder); p.OK != want || p.Held != held || !p.OK && p.Wait <= 0 || err != nil {
			t.Errorf("take %d: %+v, %v", holder, p, err)
		}
	}
	take(former, 4, true, 1)
	for holder := range uint64(3) {
		take(next, holder, true, int(holder)+1)
	}
	pass(time.Second)
	c.flush(false) // late: the next owner follows it only now
	take(next, 4, false, 4)
	take(next, 4, false, 4)
	if p, _ := next.Permit(admission.RenewPermit, "k", 2); !p.OK {
		t.Errorf("another lost its permit: %+v", p)
	}
	if p, _ := next.Permit(admission.ReleasePermit, "k", 1); !p.OK {
		t.Errorf("%+v", p)
	}
	take(next, 4, true, 3)
	take(next, 2, true, 3)
	take(next, 5, false, 3)
}

// No more permits are taken than there is space for, and those that are held are kept.
func TestPermitsAreBounded(t *testing.T) {
	t.Parallel()
	c, _ := newChanged(t)
	kl := mustLimit(t, c.e, "jobs", Limit{N: 1000, Per: time.Minute})
	for i := range uint64(100_000) {
		if p, err := kl.Permit(admission.TakePermit, fmt.Sprint(i%100), i); !p.OK || err != nil {
			t.Fatal(i, p, err)
		}
	}
	_, err := kl.Permit(admission.TakePermit, "another", 1)
	wantCode(t, err, api.CodeOverloaded)
	if p, err := kl.Permit(admission.RenewPermit, "7", 7); !p.OK || err != nil {
		t.Error(p, err)
	}
}
