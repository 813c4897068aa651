package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weir-counter/weir/limit"
)

func TestModeAndPoliciesPrint(t *testing.T) {
	got := fmt.Sprint(Enforce, Shadow, Mode(9))
	if got != "enforce shadow mode 9" {
		t.Error(got)
	}
	for i, word := range algorithms {
		if limit.Algorithm(i).String() != word {
			t.Errorf("algorithm %d is %v, not %s", i, limit.Algorithm(i), word)
		}
	}
	set, err := Parse("p.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	set.Policies()[0].Name = "changed"
	if !slices.ContainsFunc(set.Policies(), func(p Policy) bool { return p.Name == "login" }) {
		t.Error("the list of policies is not the caller's own")
	}
}
