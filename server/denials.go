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

type whyQuestion struct {
	ID string `path:"id" maxLength:"128" doc:"The ID of a denial: denial in the answer, or the header field Weir-Denial." example:"4v8k0zq2m1b7c"`
}

type whyOutput struct{ Body api.DenialAnswer }

const whyDescription = `The limits that denied it, the admissions that filled them, with their times as far as the algorithm knows them, and the smallest limit that would have let it
pass. Each node keeps the newest 8192 denials that it answered with, 64 of them for each 128th of all keys, so that one key that is denied all the time pushes out few others'. What a
restart forgets, and what others pushed out, is told apart from what never was. In a cluster an ID begins with the name of the node to ask.`

type whoQuestion struct {
	Window string `query:"window" default:"1m" doc:"The keys were denied within it, whole seconds from 1s to 5m." example:"1m"`
	Prefix string `query:"prefix" doc:"Only counted keys that begin with it." example:"login:"`
	Limit  string `query:"limit" maxLength:"64" doc:"Only of this limit; default all, also those that requests bring along." example:"login"`
	N      int    `query:"n" default:"20" minimum:"1" maximum:"4096" doc:"How many keys to list."`
}

type whoOutput struct{ Body api.WhoAnswer }

func (s *Server) registerDenials(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "why-denied", Method: http.MethodGet, Path: "/v1/denials/{id}",
		Summary: "Say why a request was denied", Description: whyDescription,
	}, []api.Code{api.CodeUnknownDenial, api.CodeDenialGone, api.CodeOtherNode, api.CodeUnknownParameter}, func(ctx context.Context, q *whyQuestion) (*whyOutput, error) {
		answer, err := s.service.Why(callerOf(ctx), q.ID)
		return &whyOutput{answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "limited-keys", Method: http.MethodGet, Path: "/v1/limits/who",
		Summary:     "List who is limited now, most denied first",
		Description: "Keys that this server denied within the window, for each limit. It knows 4096 at once: those that are denied seldom leave first.",
	}, []api.Code{api.CodeInvalidWindow, api.CodeUnknownParameter}, func(ctx context.Context, q *whoQuestion) (*whoOutput, error) {
		w, err := service.ParseWindow("window", q.Window)
		if err != nil {
			return nil, problem.Of(err)
		}
		answer, err := s.service.Who(callerOf(ctx), service.WhoQuery{Window: w, N: q.N, Prefix: q.Prefix, Limit: q.Limit})
		return &whoOutput{answer}, problem.OrNil(err)
	})
}
