package reads

import (
	"context"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/parse"
	"github.com/weir-counter/weir/service/sources"
)

// Batch answers many questions about keys, each with a time and window of its own, in their order. It
// is for doors that put views together: one question of a client, and one of its requests.
func (s *Service) Batch(ctx context.Context, c caller.Caller, questions []sources.CountQuestion) ([]api.Bounds, api.Freshness, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return nil, api.Freshness{}, err
	}
	checked := ""
	for i := range questions {
		key := questions[i].Key
		if key == checked && i > 0 { // questions of one key stand together
			continue
		}
		if err := parse.Named(key); err != nil {
			return nil, api.Freshness{}, err
		}
		if err := may.CheckKey(key); err != nil {
			return nil, api.Freshness{}, err
		}
		checked = key
	}
	return s.parts.Sources.Batch(ctx, questions)
}
