package decisions

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/sources"
)

// DecisionQuestion asks how often a policy decided so, in (At-Window, At].
type DecisionQuestion struct {
	Policy  string
	Outcome string // allowed, denied, shadow_denied
	At      time.Time
	Window  time.Duration
}

// BatchDecisions is Batch for decisions: policies must be those that the caller may read of.
func (s *Service) BatchDecisions(ctx context.Context, c caller.Caller, questions []DecisionQuestion) ([]api.Bounds, api.Freshness, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return nil, api.Freshness{}, err
	}
	counts := make([]sources.CountQuestion, len(questions))
	checked := ""
	for i, q := range questions {
		if q.Policy != checked {
			if err := s.mayReadLimit(may, q.Policy); err != nil {
				return nil, api.Freshness{}, err
			}
			checked = q.Policy
		}
		counts[i] = sources.CountQuestion{Key: admit.HitPrefix + q.Policy + ":" + q.Outcome, At: q.At, Window: q.Window}
	}
	return s.parts.Sources.Batch(ctx, counts)
}
