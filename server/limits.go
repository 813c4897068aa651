package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

type limitsQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window that decisions are counted in, whole seconds from 1s to 1000000000s." example:"5m"`
}

type limitsOutput struct{ Body api.LimitsAnswer }

type limitKeysQuestion struct {
	Name string `path:"name" doc:"The policy's name; its slashes may be raw or percent-encoded." example:"login"`
	N    int    `query:"n" default:"20" minimum:"1" maximum:"10000" doc:"How many keys to list."`
}

type limitKeysOutput struct{ Body api.LimitKeysAnswer }

func (s *Server) registerLimits(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "list-limits", Method: http.MethodGet, Path: "/v1/limits",
		Summary:     "List the policies, and how they decided",
		Description: "In order of application, with the decisions of a window.",
	}, []api.Code{api.CodeInvalidWindow, api.CodeUnknownParameter, api.CodeNotHeld, api.CodeClosed}, func(ctx context.Context, q *limitsQuestion) (*limitsOutput, error) {
		w, err := service.ParseWindow("window", q.Window)
		if err != nil {
			return nil, problem.Of(err)
		}
		answer, err := s.service.Limits(ctx, callerOf(ctx), w)
		return &limitsOutput{answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "limit-keys", Method: http.MethodGet, Path: "/v1/limits/{name}/keys",
		Summary:     "List the keys that have used most of a limit",
		Description: "Keys that have used nothing are not listed. Of a limit that is decided for each node alone, they are this node's. It looks at every key with a limit in use: a question for people, not for each request.",
	}, []api.Code{api.CodeUnknownLimit, api.CodeUnknownParameter, api.CodeNotHeld, api.CodeOverloaded, api.CodeClosed}, func(ctx context.Context, q *limitKeysQuestion) (*limitKeysOutput, error) {
		answer, err := s.service.LimitKeys(ctx, callerOf(ctx), q.Name, q.N)
		return &limitKeysOutput{answer}, problem.OrNil(err)
	})
}

type forgetQuestion struct {
	Name string `query:"name" maxLength:"64" doc:"Of the limits of this name. Default: of all limits that requests brought along." example:"inline/window/1h"`
}

type forgetOutput struct{ Body api.ForgetAnswer }

const forgetDescription = `Each key has its whole burst again. Policies are not touched. The other nodes of a cluster forget too, when they follow the next flush;
what one of them admits before that may stay. Like a hit that is not durable, it may be lost in a crash within one flush interval.`

func (s *Server) registerForget(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "forget-inline-limits", Method: http.MethodDelete, Path: "/v1/limits/inline",
		Summary: "Forget what keys have used of limits that requests brought along", Description: forgetDescription,
	}, []api.Code{api.CodeInvalidLimit, api.CodeUnknownParameter}, func(ctx context.Context, q *forgetQuestion) (*forgetOutput, error) {
		answer, err := s.service.ForgetInline(ctx, callerOf(ctx), q.Name)
		return &forgetOutput{answer}, problem.OrNil(err)
	})
}
