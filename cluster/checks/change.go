package checks

import (
	"context"
	"errors"
	"hash/fnv"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/internal/wire"
)

// changesClient is the client that changes have among those that have receipts of an engine.
const changesClient = "changes"

// change makes the change of a question, unless the engine knows that it was made: then the answer is the
// first one. What is reserved and settled is known by its own ID, as long as it can be.
func (q Question) change(e *weir.Engine, of weir.Check) (a Answer, err error) {
	if q.Change.ID == "" || q.Change.Kind == limits.Reserve || q.Change.Kind == limits.Settle {
		return q.make(of)
	}
	content := fnv.New64a()
	_, _ = content.Write(q.Append(nil)) // a hash takes everything
	said, again, failure := e.OnceFrom(context.Background(), changesClient, "change "+q.Change.ID, content.Sum64(), func() []byte {
		if a, err = q.make(of); err != nil {
			return nil // nothing was changed
		}
		return a.Append(nil)
	})
	switch {
	case failure != nil:
		return Answer{}, full(failure)
	case again:
		r := wire.NewReader(said)
		a = ReadAnswer(r, 1)
		if !r.Done() {
			return Answer{}, &weir.Error{Code: weir.CodeInvalidCount, Field: "id", Message: "the change was made before, but what came of it can't be read"}
		}
	}
	return a, err
}

func (q Question) make(of weir.Check) (Answer, error) {
	made, err := q.Change.Make(of.Limit, of.Key, of.N)
	return Answer{Allowed: made.Was, Changed: made, Verdicts: []weir.Verdict{made.After}}, err
}

// full says what it means for a change that no more receipts can be kept.
func full(failure error) error {
	if of, ok := errors.AsType[*weir.Error](failure); ok && of.Code == weir.CodeOnceFull {
		return &weir.Error{Code: weir.CodeOverloaded, Field: of.Field,
			Message: "the node that decides has made more changes in the last ten minutes than it can know again: this one was not made; try again later, or raise OnceMemory (weir serve --idempotency-memory)"}
	}
	return failure
}
