package service

import (
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
)

var rejectForbidden = &Rejection{api.CodeForbidden, "role ingest of this identity is not for this key"}

// admits tells whether the caller may count a hit of a key, and notes why not. A ceiling of hits
// ends the request; one of new keys refuses those alone.
func (t *Tally) admits(engine *weir.Engine, key string) bool {
	of := t.may.of
	if !t.may.Key(key) {
		t.forbidden++
		if of != nil {
			of.Forbid()
		}
		t.Reject(rejectForbidden)
		return false
	}
	if of == nil {
		return true
	}
	if wait, ok := of.TakeHit(); !ok {
		t.RetryFrom, t.stopped = t.Line, &Rejection{api.CodeCeiling, "identity " + of.Name() + " has reached its hits_per_second: send this line and those after it again later"}
		t.reached(wait, t.stopped)
		return false
	}
	if of.BoundsNewKeys() && !engine.Has(key) {
		if wait, ok := of.TakeNewKey(); !ok {
			t.reached(wait, &Rejection{api.CodeCeiling, "identity " + of.Name() + " has reached its new_keys_per_minute, and this key is new"})
			return false
		}
	}
	of.Counted()
	return true
}

// reached notes that a ceiling refuses the hit of Line.
func (t *Tally) reached(wait time.Duration, r *Rejection) {
	t.over++
	t.wait = max(t.wait, wait)
	t.Reject(r)
}
