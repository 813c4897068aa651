package reads

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/parse"
	"github.com/weir-counter/weir/service/sources"
)

// KeysQuery asks for the names of keys.
type KeysQuery struct {
	Prefix string        // only keys that begin with it
	After  string        // only keys that sort after it
	Limit  int           // 1 or more
	Fresh  time.Duration // as of a CountQuery
	Scope  parse.Scope
}

// Keys lists keys: those that the caller may read, and no word of others. It asks for one key more
// than the page holds, to know whether there are more.
func (s *Service) Keys(ctx context.Context, c caller.Caller, q KeysQuery) (api.KeysAnswer, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	parts, err := may.PartsOf(q.Prefix)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	keys, fresh, err := keysOf(ctx, asked.Answers, q, parts)
	if err != nil {
		return api.KeysAnswer{}, failure.As(err)
	}
	answer := api.KeysAnswer{Keys: keys, Freshness: asked.AboutPrefixes(fresh, parts).Answer()}
	if len(keys) > q.Limit {
		answer.Keys = keys[:q.Limit]
		answer.Next = keys[q.Limit-1]
	}
	if answer.Keys == nil {
		answer.Keys = []string{}
	}
	return answer, nil
}

// keysOf is the first keys of several prefixes, which are sorted, and of which none is within
// another; one more than the page holds.
func keysOf(ctx context.Context, answers sources.Answers, q KeysQuery, prefixes []string) (all []string, fresh sources.Fresh, err error) {
	for i, prefix := range prefixes {
		keys, of, err := answers.Keys(ctx, prefix, q.After, q.Limit+1-len(all))
		if err != nil {
			return nil, fresh, err
		}
		if i == 0 { // the others are no older
			fresh = of
		}
		fresh.Late = lateInAny(fresh.Late, of.Late)
		if all = append(all, keys...); len(all) > q.Limit {
			break
		}
	}
	return all, fresh, nil
}
