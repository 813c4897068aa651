package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

type keysQuestion struct {
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	After  string `query:"after" doc:"Only keys that sort after this: next of the answer before."`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"5000" doc:"How many keys to list."`
	FreshParam
}

type keysOutput struct{ Body api.KeysAnswer }

type deleteQuestion struct {
	Key string `path:"key" doc:"The key; its slashes may be raw or percent-encoded, but ?, # and % must be percent-encoded." example:"url:/home"`
}

func (s *Server) registerKeys(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/keys",
		Summary:     "List keys",
		Description: "Keys that begin with `limit:` are listed only when `prefix` does.",
	}, []api.Code{api.CodeInvalidRange, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *keysQuestion) (*keysOutput, error) {
			answer, err := s.keys(ctx, q)
			return &keysOutput{answer}, err
		})
	ask(s, doc, huma.Operation{
		OperationID: "delete-key", Method: http.MethodDelete, Path: "/v1/keys/{key}",
		Summary:       "Delete a key and its hits",
		Description:   "The hits stay counted under `*`. Like a hit that is not durable, the deletion may be lost in a crash within one flush interval.",
		DefaultStatus: http.StatusNoContent,
	}, []api.Code{api.CodeInvalidKey, api.CodeReservedKey, api.CodeUnknownKey, api.CodeNotHeld, api.CodeClosed},
		func(ctx context.Context, q *deleteQuestion) (*struct{}, error) {
			return nil, s.deleteKey(ctx, q.Key)
		})
}

// keys asks for one key more than the page holds, to know whether there are more.
func (s *Server) keys(ctx context.Context, q *keysQuestion) (api.KeysAnswer, error) {
	asked, err := s.await(ctx, q.FreshParam)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	keys, fresh, err := asked.answers.Keys(ctx, q.Prefix, q.After, q.Limit+1)
	if err != nil {
		return api.KeysAnswer{}, asProblem(err)
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

func (s *Server) deleteKey(ctx context.Context, key string) error {
	if err := keyParam(key); err != nil {
		return err
	}
	existed, err := s.answers.Delete(ctx, key)
	if err != nil {
		return asProblem(err)
	}
	if !existed {
		return newProblem(api.CodeUnknownKey, "key", "no key "+strconv.Quote(clip(key))+" is held")
	}
	return nil
}
