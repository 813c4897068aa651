package limits

import (
	"reflect"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/grant"
	"github.com/weir-counter/weir/internal/engine"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	verdicts := []engine.Verdict{{Allowed: true, Remaining: 3, Reset: time.Second}, {RetryAfter: 5, Never: true}}
	two := []item{
		{record: "record", key: "k", shadow: true, ask: grant.Ask{
			ID: grant.ID{Token: 3, Number: 4}, Used: 5, Returned: 6, Need: 7, Want: 8, Demand: 9,
			Uses: []grant.Use{{N: 2, Age: time.Second}, {N: 3}},
		}},
		{record: "other", key: "l", ask: grant.Ask{Need: 1}},
	}
	failed := answer{err: &engine.Error{Code: api.CodeOverloaded, Field: "limit", Message: "full"}}
	for name, c := range map[string]struct {
		q question
		a answer
	}{
		"takes": {question{node: "n1", take: true, items: two}, answer{Allowed: true, Verdicts: verdicts, grants: []grant.Answer{{
			ID: grant.ID{Token: 1, Number: 2}, Granted: 3, Used: 4, Allowed: true, Pause: 5, Free: 6, Out: 7, Wait: 8, Reset: 9,
		}, {}}}},
		"peeks": {question{node: "n1", items: two}, answer{Verdicts: verdicts}},
		"settles": {
			question{node: "n1", change: engine.Change{Kind: engine.ChangeSettle, ID: "r", Ago: 5, Flag: true, At: time.Unix(9, 0)}, items: two[1:]},
			answer{Allowed: true, Verdicts: verdicts[:1], changed: engine.Changed{Freed: 1, Used: 2, Over: 3, Again: true}},
		},
		"fails": {question{node: "n1", take: true, items: two}, failed},
	} {
		b := c.q.append(nil)
		if got, err := readQuestion(b); err != nil || !reflect.DeepEqual(*got, c.q) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		said := c.a.append(nil, &c.q)
		if got, err := readAnswer(said, &c.q); err != nil || !reflect.DeepEqual(got, c.a) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for i := range b {
			if _, err := readQuestion(b[:i]); err == nil {
				t.Errorf("%s: a question cut after %d bytes was read", name, i)
			}
		}
		for i := range said {
			if _, err := readAnswer(said[:i], &c.q); err == nil {
				t.Errorf("%s: an answer cut after %d bytes was read", name, i)
			}
		}
	}
}
