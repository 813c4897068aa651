package service

import (
	"context"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
)

// KeysQuery asks for the names of keys.
type KeysQuery struct {
	Prefix string        // only keys that begin with it
	After  string        // only keys that sort after it
	Limit  int           // 1 or more
	Fresh  time.Duration // as of a CountQuery
	Scope  Scope
}

// Keys lists keys: those that the caller may read, and no word of others. It asks for one key more
// than the page holds, to know whether there are more.
func (s *Service) Keys(ctx context.Context, c Caller, q KeysQuery) (api.KeysAnswer, error) {
	may, err := s.enter(c, auth.Read)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	parts, err := may.PartsOf(q.Prefix)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	asked, err := s.within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	keys, fresh, err := keysOf(ctx, asked.answers, q, parts)
	if err != nil {
		return api.KeysAnswer{}, AsError(err)
	}
	answer := api.KeysAnswer{Keys: keys, Freshness: asked.fresh(fresh).answer()}
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
func keysOf(ctx context.Context, answers Answers, q KeysQuery, prefixes []string) (all []string, fresh Fresh, err error) {
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

// Delete deletes a key and its hits, on all nodes.
func (s *Service) Delete(ctx context.Context, c Caller, key string) (err error) {
	defer func() { s.audit(ctx, c, "delete key", key, err) }()
	may, err := s.enter(c, auth.Admin)
	if err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	if err := may.CheckKey(key); err != nil {
		return err
	}
	existed, err := s.deleteOne(ctx, key)
	if err != nil {
		return AsError(err)
	}
	if !existed {
		return &Error{Code: api.CodeUnknownKey, Field: "key", Message: "no key " + strconv.Quote(Clip(key)) + " is held"}
	}
	return nil
}
