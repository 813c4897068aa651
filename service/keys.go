package service

import (
	"context"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
)

// KeysQuery asks for the names of keys.
type KeysQuery struct {
	Prefix string        // only keys that begin with it
	After  string        // only keys that sort after it
	Limit  int           // 1 or more
	Fresh  time.Duration // as of a CountQuery
}

// Keys lists keys. It asks for one key more than the page holds, to know whether there
// are more.
func (s *Service) Keys(ctx context.Context, q KeysQuery) (api.KeysAnswer, error) {
	asked, err := s.await(ctx, q.Fresh)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	keys, fresh, err := asked.answers.Keys(ctx, q.Prefix, q.After, q.Limit+1)
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

// Delete deletes a key and its hits, on all nodes.
func (s *Service) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	existed, err := s.answers.Delete(ctx, key)
	if err != nil {
		return AsError(err)
	}
	if !existed {
		return &Error{Code: api.CodeUnknownKey, Field: "key", Message: "no key " + strconv.Quote(Clip(key)) + " is held"}
	}
	return nil
}
