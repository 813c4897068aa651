package tally

import (
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/parse"
)

var rejectForbidden = parse.Reject(api.CodeForbidden, "role ingest of this identity is not for this key")

// Admits tells whether the caller may count a hit of a key, and notes why not. A ceiling of hits
// ends the request; one of new keys refuses those alone.
func (t *Tally) Admits(engine *weir.Engine, key string) bool {
	of := t.may.Account
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
		t.RetryFrom, t.stopped = t.Line, parse.Reject(api.CodeCeiling, "identity "+of.Name()+" has reached its hits_per_second: send this line and those after it again later")
		t.reached(wait, t.stopped)
		return false
	}
	if of.BoundsNewKeys() && !engine.Has(key) {
		if wait, ok := of.TakeNewKey(); !ok {
			t.reached(wait, parse.Reject(api.CodeCeiling, "identity "+of.Name()+" has reached its new_keys_per_minute, and this key is new"))
			return false
		}
	}
	of.Counted()
	return true
}

// reached notes that a ceiling refuses the hit of Line.
func (t *Tally) reached(wait time.Duration, r *parse.Rejection) {
	t.over++
	t.wait = max(t.wait, wait)
	t.Reject(r)
}
