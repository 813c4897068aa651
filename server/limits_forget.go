package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

type forgetQuestion struct {
	Name string `query:"name" maxLength:"64" doc:"Of the limits of this name. Default: of all limits that requests brought along." example:"inline/window/1h"`
}

type forgetOutput struct{ Body api.ForgetAnswer }

const forgetDescription = `Each key has its whole burst again. Policies are not touched. The other nodes of a cluster forget too, when they follow the next flush;
what one of them admits before that may stay. Like a hit that is not durable, it may be lost in a crash within one flush interval.`

func (s *Server) registerForget(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "forget-inline-limits", Method: http.MethodDelete, Path: "/v1/limits/inline",
		Summary: "Forget what keys have used of limits that requests brought along", Description: forgetDescription,
	}, []api.Code{api.CodeInvalidLimit, api.CodeUnknownParameter}, func(_ context.Context, q *forgetQuestion) (*forgetOutput, error) {
		answer, err := s.service.ForgetInline(q.Name)
		return &forgetOutput{answer}, orProblem(err)
	})
}
