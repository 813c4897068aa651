package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
)

// While a journal takes no admissions, none is given that a crash would give back; what
// is denied stays denied, what is only asked is answered, and limits that no journal has
// decide as ever.
func TestRefuseTakes(t *testing.T) {
	e := newTestEngine(t, Config{Gather: true})
	kept := mustLimit(t, e, "kept", Limit{N: 2, Per: time.Hour})
	short := mustLimit(t, e, "short", Limit{N: 2, Per: time.Second})
	for range 2 {
		if v, err := kept.Take("used", 1); err != nil || !v.Allowed {
			t.Fatal(v, err)
		}
	}
	refused := func(err error) bool {
		var e *Error
		return errors.As(err, &e) && e.Code == api.CodeOverloaded && e.Message == "full"
	}
	e.Limits().RefuseTakes("full")
	if v, err := kept.Take("new", 1); !refused(err) || v.Allowed || kept.Allow("new") {
		t.Errorf("a take: %+v, %v", v, err)
	}
	if v, err := kept.Take("used", 1); err != nil || v.Allowed {
		t.Errorf("a take that is denied: %+v, %v", v, err)
	}
	if v, err := kept.Peek("new", 1); err != nil || !v.Allowed {
		t.Errorf("a question: %+v, %v", v, err)
	}
	verdicts := make([]Verdict, 2)
	if allowed, err := e.Limits().TakeAll([]Check{{Limit: short, Key: "a", N: 1}, {Limit: kept, Key: "new", N: 1}}, verdicts); !refused(err) || allowed {
		t.Errorf("a take of several: %v, %v", allowed, err)
	}
	if allowed, err := e.Limits().TakeAll([]Check{{Limit: short, Key: "a", N: 2}, {Limit: kept, Key: "new"}}, verdicts); err != nil || !allowed {
		t.Errorf("nothing was taken before, and this is of no journal: %v, %v", allowed, err)
	}
	e.Limits().RefuseTakes("")
	if v, err := kept.Take("new", 2); err != nil || !v.Allowed {
		t.Errorf("afterwards: %+v, %v", v, err)
	}
}
