package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/parse"
)

type keysQuestion struct {
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	After  string `query:"after" doc:"Only keys that sort after this: next of the answer before."`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"5000" doc:"How many keys to list."`
	FreshParam
	ScopeParam
}

type keysOutput struct{ Body api.KeysAnswer }

type deleteQuestion struct {
	Key string `path:"key" doc:"The key; its slashes may be raw or percent-encoded, but ?, # and % must be percent-encoded." example:"url:/home"`
}

type deletePrefixQuestion struct {
	Prefix string `query:"prefix" required:"true" doc:"All keys that begin with this." example:"user:42:"`
	After  string `query:"after" doc:"Only keys that sort after this: next of the answer before."`
	Limits bool   `query:"limits" default:"false" doc:"Also forget what all keys that begin so have used of all limits, with their grants and bans. The request without after does it."`
}

type deletedOutput struct{ Body api.DeletedAnswer }

func (s *Server) registerKeys(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/keys",
		Summary:     "List keys",
		Description: "Keys that begin with `limit:` are listed only when `prefix` does.",
	}, []api.Code{api.CodeInvalidRange, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *keysQuestion) (*keysOutput, error) {
			fresh, err := service.ParseFresh(q.Fresh)
			if err != nil {
				return nil, problem.OrNil(err)
			}
			scope, err := parse.ScopeOf(q.Scope)
			if err != nil {
				return nil, problem.OrNil(err)
			}
			answer, err := s.service.Keys(ctx, callerOf(ctx), service.KeysQuery{Prefix: q.Prefix, After: q.After, Limit: q.Limit, Fresh: fresh, Scope: scope})
			return &keysOutput{answer}, problem.OrNil(err)
		})
	openapi.Ask(doc, huma.Operation{
		OperationID: "delete-keys", Method: http.MethodDelete, Path: "/v1/keys",
		Summary:     "Delete all keys that begin with a prefix, and their hits",
		Description: "With their history, also of keys that only history knows any more. At most 1000 keys a request: go on with `after` while there is a `next`. What keys have used of limits stays, unless `limits=true`.",
	}, []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeNotHeld, api.CodeNoHistory, api.CodeOverloaded, api.CodeClosed},
		func(ctx context.Context, q *deletePrefixQuestion) (*deletedOutput, error) {
			answer, err := s.service.DeletePrefix(ctx, callerOf(ctx), q.Prefix, q.After, q.Limits)
			return &deletedOutput{answer}, problem.OrNil(err)
		})
	openapi.Ask(doc, huma.Operation{
		OperationID: "delete-key", Method: http.MethodDelete, Path: "/v1/keys/{key}",
		Summary:       "Delete a key and its hits",
		Description:   "With its history. The hits stay counted under `*`. Like a hit that is not durable, the deletion may be lost in a crash within one flush interval.",
		DefaultStatus: http.StatusNoContent,
	}, []api.Code{api.CodeInvalidKey, api.CodeReservedKey, api.CodeUnknownKey, api.CodeNotHeld, api.CodeNoHistory, api.CodeClosed},
		func(ctx context.Context, q *deleteQuestion) (*struct{}, error) {
			return nil, problem.OrNil(s.service.Delete(ctx, callerOf(ctx), q.Key))
		})
}
