package limits

import (
	"reflect"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cluster/grant"
)

func TestWire(t *testing.T) {
	t.Parallel()
	q := question{node: "n1", items: []item{
		{record: "record", key: "k", shadow: true, ask: grant.Ask{
			ID: grant.ID{Token: 3, Number: 4}, Used: 5, Returned: 6, Need: 7, Want: 8, Demand: 9,
			Uses: []grant.Use{{N: 2, Age: time.Second}, {N: 3}},
		}},
		{record: "other", key: "l", ask: grant.Ask{Need: 1}},
	}}
	b := q.append(nil)
	if got, err := readQuestion(b); err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("%+v, %v", got, err)
	}
	a := answer{
		Answer: Answer{Allowed: true, Verdicts: []weir.Verdict{{Allowed: true, Remaining: 3, Reset: time.Second}, {RetryAfter: 5}}},
		grants: []grant.Answer{{
			ID: grant.ID{Token: 1, Number: 2}, Granted: 3, Used: 4, Allowed: true, Pause: 5, Free: 6, Out: 7, Wait: 8, Reset: 9,
		}, {Short: true}},
	}
	told := a.append(nil)
	if got, err := readAnswer(told, 2); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v", got, err)
	}
	failed := answer{err: &weir.Error{Code: weir.CodeOverloaded, Field: "limit", Message: "full"}}
	if got, err := readAnswer(failed.append(nil), 2); err != nil || !reflect.DeepEqual(got, failed) {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b {
		if _, err := readQuestion(b[:i]); err == nil {
			t.Errorf("a question cut after %d bytes was read", i)
		}
	}
	for i := range told {
		if _, err := readAnswer(told[:i], 2); err == nil {
			t.Errorf("an answer cut after %d bytes was read", i)
		}
	}
}
