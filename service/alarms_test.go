package service

import (
	"testing"

	weir "github.com/weir-counter/weir"
)

// Memory that will be full soon is said before anything is refused.
func TestFillingAlarms(t *testing.T) {
	if got := engineAlarms(weir.Stats{OnceBytes: 85, OnceBudget: 100}); len(got) != 1 || got[0].Code != "idempotency_filling" || got[0].Refusing {
		t.Errorf("before it is full: %+v", got)
	}
}
