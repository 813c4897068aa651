package service

import (
	"context"
	"fmt"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/policy"
)

// MaxBatch bounds the questions of one Batch.
const MaxBatch = 50_000

// Batch answers many questions about keys, each with a time and window of its own, in their order. It
// is for doors that put views together: one question of a client, and one of its requests.
func (s *Service) Batch(ctx context.Context, c Caller, questions []CountQuestion) ([]api.Bounds, api.Freshness, error) {
	may, err := s.enter(c, auth.Read)
	if err != nil {
		return nil, api.Freshness{}, err
	}
	checked := ""
	for i := range questions {
		key := questions[i].Key
		if key == checked && i > 0 { // questions of one key stand together
			continue
		}
		if err := checkKey(key); err != nil {
			return nil, api.Freshness{}, err
		}
		if err := may.CheckKey(key); err != nil {
			return nil, api.Freshness{}, err
		}
		checked = key
	}
	return s.boundsOf(ctx, questions)
}

// DecisionQuestion asks how often a policy decided so, in (At-Window, At].
type DecisionQuestion struct {
	Policy  string
	Outcome string // allowed, denied, shadow_denied
	At      time.Time
	Window  time.Duration
}

// BatchDecisions is Batch for decisions: policies must be those that the caller may read of.
func (s *Service) BatchDecisions(ctx context.Context, c Caller, questions []DecisionQuestion) ([]api.Bounds, api.Freshness, error) {
	may, err := s.enter(c, auth.Read)
	if err != nil {
		return nil, api.Freshness{}, err
	}
	counts := make([]CountQuestion, len(questions))
	checked := ""
	for i, q := range questions {
		if q.Policy != checked {
			if err := s.mayReadLimit(may, q.Policy); err != nil {
				return nil, api.Freshness{}, err
			}
			checked = q.Policy
		}
		counts[i] = CountQuestion{policy.HitPrefix + q.Policy + ":" + q.Outcome, q.At, q.Window}
	}
	return s.boundsOf(ctx, counts)
}

// boundsOf answers questions that the caller may ask.
func (s *Service) boundsOf(ctx context.Context, questions []CountQuestion) ([]api.Bounds, api.Freshness, error) {
	if len(questions) > MaxBatch {
		return nil, api.Freshness{}, &Error{Code: api.CodeTooManyAnswers, Message: fmt.Sprintf("%d questions: ask for at most %d at once", len(questions), MaxBatch)}
	}
	counts, fresh, err := s.answers.Counts(ctx, questions, make([]weir.Count, 0, len(questions)))
	if err != nil {
		return nil, api.Freshness{}, AsError(err)
	}
	bounds := make([]api.Bounds, len(counts))
	for i := range counts {
		bounds[i] = boundsOf(&counts[i], &fresh)
	}
	return bounds, fresh.answer(), nil
}
