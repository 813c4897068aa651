package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
)

type takePermitQuestion struct {
	Key   string `query:"key" required:"true" doc:"What is limited; 1 to 512 bytes." example:"job:42"`
	Limit string `query:"limit" maxLength:"64" doc:"The one limit that is asked. Default: all with max that are for the key, all or none." example:"jobs"`
}

type permitQuestion struct {
	ID string `path:"id" maxLength:"1024" doc:"Of the permit."`
}

type permitOutput struct{ Body api.PermitAnswer }

type releaseOutput struct{ Body api.ReleaseAnswer }

const takePermitDescription = `For policies with ` + "`max`" + `: how many are at work at once. Whoever gets a permit keeps it by heartbeats, and gives it back; the permit of a holder that is silent is free after
` + "`ttl_s`" + `, never earlier. When max are held, the answer is the problem ` + "`at_once`" + ` (429) with Retry-After: when the first is free if its holder is silent. After a start of a server alone, nobody gets a new permit
for one ttl, while holders of the time before keep theirs by their heartbeats. The nodes of a cluster keep permits together, whichever is asked, and know them after a crash; while the one that decides does not answer
it is the problem ` + "`not_held`" + ` (503). An answer that got lost may have taken a permit, which is free after the ttl.`

func (s *Server) registerPermits(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "take-permit", Method: http.MethodPost, Path: "/v1/permits",
		Summary: "Take a permit to be one of so many at once", Description: takePermitDescription,
	}, []api.Code{api.CodeAtOnce, api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeInvalidCount, api.CodeUnknownLimit, api.CodeUnknownParameter, api.CodeOverloaded, api.CodeNotHeld}, func(ctx context.Context, q *takePermitQuestion) (*permitOutput, error) {
		answer, err := s.service.TakePermit(callerOf(ctx), q.Key, q.Limit)
		return &permitOutput{answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "renew-permit", Method: http.MethodPost, Path: "/v1/permits/{id}/heartbeat",
		Summary:     "Keep a permit",
		Description: "The permit is held for its ttl more, from when this was sent. A permit that was lost is the problem `permit_lost` (409): its holder must stop. So it must when no answer comes until a ttl after the last heartbeat that was answered; one that comes later does not count.",
	}, []api.Code{api.CodePermitLost, api.CodeInvalidParameter, api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeUnknownLimit, api.CodeUnknownParameter, api.CodeOverloaded, api.CodeNotHeld}, func(ctx context.Context, q *permitQuestion) (*permitOutput, error) {
		answer, err := s.service.RenewPermit(callerOf(ctx), q.ID)
		return &permitOutput{answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "release-permit", Method: http.MethodDelete, Path: "/v1/permits/{id}",
		Summary: "Give a permit back", Description: "It may be sent again: `released` says whether the permit was held.",
	}, []api.Code{api.CodeInvalidParameter, api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeUnknownLimit, api.CodeUnknownParameter, api.CodeOverloaded, api.CodeNotHeld}, func(ctx context.Context, q *permitQuestion) (*releaseOutput, error) {
		answer, err := s.service.ReleasePermit(callerOf(ctx), q.ID)
		return &releaseOutput{answer}, problem.OrNil(err)
	})
}
