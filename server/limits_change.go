package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

type resetQuestion struct {
	Name string `path:"name" doc:"The limit's name; its slashes may be raw or percent-encoded." example:"login"`
	Key  string `path:"key" doc:"The key as it is counted; its slashes may be raw or percent-encoded, but ?, # and % must be percent-encoded." example:"login:bob"`
}

type resetOutput struct{ Body api.ResetAnswer }

const resetDescription = `The key has its whole burst again, and a grant of it is taken back. It is done where the key is decided, and goes through the journal: nodes
that count the limit too, also each for itself, forget when they follow the next flush; what one of them admits before that may stay. ` + "`keys`" + ` of the limit
(GET /v1/limits/{name}/keys) lists keys as they are counted. It works for limits that requests bring along, too, by their names: there role decide suffices.`

type grantQuestion struct {
	Limit string `query:"limit" required:"true" doc:"The limit's name." example:"login"`
	Key   string `query:"key" required:"true" doc:"The key as it is counted." example:"login:bob"`
	N     uint64 `query:"n" required:"true" maximum:"35184372088832" doc:"How many admissions beside the limit; 0 takes what is left of an earlier grant back."`
	For   string `query:"for" doc:"For how long they may be used. This or until, unless n is 0." example:"24h"`
	Until string `query:"until" doc:"Until when they may be used: RFC 3339 or Unix seconds." example:"2026-11-23T00:00:00Z"`
}

type grantOutput struct{ Body api.GrantAnswer }

const grantDescription = `A request that the limit would deny uses what is left of the limit, and the rest of the grant: at most n admissions beside the limit in all. A grant stands
in place of an earlier one of the key, so that a request may be sent again. At most 10,000 are in use. In a cluster all nodes know of a grant when they follow the next flush;
nodes that decide beside each other may use it at the same time, as they may the limit itself.`

type banQuestion struct {
	Limit string `query:"limit" required:"true" doc:"The policy's name." example:"login"`
	Key   string `query:"key" required:"true" doc:"The key as it is counted." example:"login:bob"`
	For   string `query:"for" required:"true" doc:"For how long, 1s to 366d." example:"24h"`
}

type unbanQuestion struct {
	Limit string `query:"limit" required:"true" doc:"The policy's name." example:"login"`
	Key   string `query:"key" required:"true" doc:"The key as it is counted." example:"login:bob"`
}

type bansQuestion struct {
	N int `query:"n" default:"100" minimum:"1" maximum:"1000" doc:"How many to list."`
}

type (
	banOutput   struct{ Body api.BanAnswer }
	unbanOutput struct{ Body api.UnbanAnswer }
	bansOutput  struct{ Body api.BansAnswer }
)

const banDescription = `The key is denied under the policy until then, whatever it has used, and takes nothing. A ban stands in place of an earlier one of the key; DELETE, and a reset of the key, lift it.
The node that is asked knows at once, the others of a cluster when they follow the next flush, wherever the policy is decided. A policy with deny_for bans keys itself. At most 100,000 bans are in use.`

func (s *Server) registerBans(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "ban", Method: http.MethodPost, Path: "/v1/bans", Summary: "Deny a key for some time", Description: banDescription,
	}, []api.Code{api.CodeUnknownLimit, api.CodeInvalidKey, api.CodeInvalidTime, api.CodeInvalidWindow, api.CodeUnknownParameter}, func(ctx context.Context, q *banQuestion) (*banOutput, error) {
		length, err := service.ParseWindow("for", q.For)
		if err != nil {
			return nil, problem.Of(err)
		}
		answer, err := s.service.BanKey(ctx, callerOf(ctx), q.Limit, q.Key, length)
		return &banOutput{answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "unban", Method: http.MethodDelete, Path: "/v1/bans", Summary: "Lift the ban of a key", Description: "It may be sent again. The other nodes of a cluster lift it when they follow the next flush.",
	}, []api.Code{api.CodeInvalidKey, api.CodeUnknownParameter}, func(ctx context.Context, q *unbanQuestion) (*unbanOutput, error) {
		answer, err := s.service.UnbanKey(ctx, callerOf(ctx), q.Limit, q.Key)
		return &unbanOutput{answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "bans", Method: http.MethodGet, Path: "/v1/bans", Summary: "Keys that are banned", Description: "As the node that is asked knows them.",
	}, []api.Code{api.CodeUnknownParameter}, func(ctx context.Context, q *bansQuestion) (*bansOutput, error) {
		answer, err := s.service.Bans(callerOf(ctx), q.N)
		return &bansOutput{answer}, problem.OrNil(err)
	})
}

type settleQuestion struct {
	ID   string `query:"id" required:"true" maxLength:"64" doc:"Of the reservation."`
	Used uint64 `query:"used" required:"true" maximum:"35184372088832" doc:"How many admissions of each of its limits were used; the rest is given back." example:"300"`
	Over string `query:"over" enum:"deny,debt" default:"deny" doc:"What becomes of what was used beyond the reservation: it counts if the limit has room for all of it (deny), or whatever the limit says (debt)."`
}

type settleOutput struct{ Body api.SettleAnswer }

const settleDescription = `It may be sent again: a reservation is settled once, and says again how. Nodes of a cluster know of a reservation when they follow the flush after it: ask the node
that made it first. What is settled here is given back where the key is decided, as of when it was taken, so that the limit holds for what was really used.`

func (s *Server) registerSettle(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "settle", Method: http.MethodPost, Path: "/v1/settle",
		Summary: "Say how much of a reservation was used", Description: settleDescription,
	}, []api.Code{api.CodeUnknownReservation, api.CodeUnknownParameter, api.CodeNotHeld}, func(ctx context.Context, q *settleQuestion) (*settleOutput, error) {
		answer, err := s.service.Settle(callerOf(ctx), q.ID, q.Used, q.Over == "debt")
		return &settleOutput{answer}, problem.OrNil(err)
	})
}

func (s *Server) registerLimitChanges(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "reset-limit", Method: http.MethodDelete, Path: "/v1/limits/{name}/keys/{key}",
		Summary: "Forget what a key has used of a limit", Description: resetDescription,
	}, []api.Code{api.CodeUnknownLimit, api.CodeInvalidLimit, api.CodeInvalidKey, api.CodeUnknownParameter, api.CodeNotHeld}, func(ctx context.Context, q *resetQuestion) (*resetOutput, error) {
		answer, err := s.service.ResetLimit(ctx, callerOf(ctx), q.Name, q.Key)
		return &resetOutput{answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "grant", Method: http.MethodPost, Path: "/v1/grants",
		Summary: "Give a key more admissions than its limit, once", Description: grantDescription,
	}, []api.Code{api.CodeUnknownLimit, api.CodeInvalidLimit, api.CodeInvalidKey, api.CodeInvalidCount, api.CodeInvalidTime, api.CodeInvalidWindow, api.CodeUnknownParameter, api.CodeNotHeld}, func(ctx context.Context, q *grantQuestion) (*grantOutput, error) {
		until, err := s.grantEnd(q)
		if err != nil {
			return nil, problem.Of(err)
		}
		answer, err := s.service.GrantLimit(ctx, callerOf(ctx), q.Limit, q.Key, q.N, until)
		return &grantOutput{answer}, problem.OrNil(err)
	})
}

// grantEnd is when a grant is over.
func (s *Server) grantEnd(q *grantQuestion) (time.Time, error) {
	switch {
	case q.N == 0:
		return time.Time{}, nil
	case (q.For == "") == (q.Until == ""):
		return time.Time{}, problem.New(api.CodeInvalidParameter, "for", "say for how long (for=24h) or until when (until=2026-11-23T00:00:00Z)")
	case q.Until != "":
		return service.ParseTime("until", q.Until)
	}
	length, err := service.ParseWindow("for", q.For)
	return s.service.Now().Add(length), err
}
