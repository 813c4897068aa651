package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/limit"
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

func (s *Server) registerLimits(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "list-limits", Method: http.MethodGet, Path: "/v1/limits",
		Summary:     "List the policies, and how they decided",
		Description: "In order of application, with the decisions of a window.",
	}, []api.Code{api.CodeInvalidWindow, api.CodeUnknownParameter, api.CodeNotHeld, api.CodeClosed}, func(ctx context.Context, q *limitsQuestion) (*limitsOutput, error) {
		w, err := request.ParseWindow("window", q.Window)
		if err != nil {
			return nil, ProblemOf(err)
		}
		answer, err := s.service.Limits(ctx, callerOf(ctx), w)
		return &limitsOutput{answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "limit-keys", Method: http.MethodGet, Path: "/v1/limits/{name}/keys",
		Summary:     "List the keys that have used most of a limit",
		Description: "Keys that have used nothing are not listed. Of a limit that is decided for each node alone, they are this node's. It looks at every key with a limit in use: a question for people, not for each request.",
	}, []api.Code{api.CodeUnknownLimit, api.CodeUnknownParameter, api.CodeNotHeld, api.CodeOverloaded, api.CodeClosed}, func(ctx context.Context, q *limitKeysQuestion) (*limitKeysOutput, error) {
		answer, err := s.service.LimitKeys(ctx, callerOf(ctx), q.Name, q.N)
		return &limitKeysOutput{answer}, ProblemOrNil(err)
	})
}

type forgetQuestion struct {
	Name string `query:"name" maxLength:"64" doc:"Of the limits of this name. Default: of all limits that requests brought along." example:"inline/window/1h"`
}

type forgetOutput struct{ Body api.ForgetAnswer }

const forgetDescription = `Each key has its whole burst again. Policies are not touched. The other nodes of a cluster forget too, when they follow the next flush;
what one of them admits before that may stay. Like a hit that is not durable, it may be lost in a crash within one flush interval.`

func (s *Server) registerForget(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "forget-inline-limits", Method: http.MethodDelete, Path: "/v1/limits/inline",
		Summary: "Forget what keys have used of limits that requests brought along", Description: forgetDescription,
	}, []api.Code{api.CodeInvalidLimit, api.CodeUnknownParameter}, func(ctx context.Context, q *forgetQuestion) (*forgetOutput, error) {
		answer, err := s.service.ForgetInline(ctx, callerOf(ctx), q.Name)
		return &forgetOutput{answer}, ProblemOrNil(err)
	})
}

type resetQuestion struct {
	Name string `path:"name" doc:"The limit's name; its slashes may be raw or percent-encoded." example:"login"`
	Key  string `path:"key" doc:"The key as it is counted; its slashes may be raw or percent-encoded, but ?, # and % must be percent-encoded." example:"login:bob"`
}

type resetOutput struct{ Body api.ResetAnswer }

const resetDescription = `The key has its whole burst again, and its grant is taken back. It is done where the key is decided, and goes through the journal: nodes
that count the limit too, also each for itself, forget when they follow the next flush; what one of them admits before that may stay. ` + "`keys`" + ` of the limit
(GET /v1/limits/{name}/keys) lists keys as they are counted. It works for limits that requests bring along, too, by their names: there role decide suffices.`

type grantQuestion struct {
	Limit string `query:"limit" required:"true" doc:"The limit's name." example:"login"`
	Key   string `query:"key" required:"true" doc:"The key as it is counted." example:"login:bob"`
	N     uint64 `query:"n" required:"true" maximum:"35184372088832" doc:"How many admissions in addition to the limit; 0 takes back what is left of an earlier grant."`
	For   string `query:"for" doc:"For how long they may be used. This or until, unless n is 0." example:"24h"`
	Until string `query:"until" doc:"Until when they may be used: RFC 3339 or Unix seconds." example:"2026-11-23T00:00:00Z"`
}

type grantOutput struct{ Body api.GrantAnswer }

const grantDescription = `A request that the limit would deny uses what is left of the limit, and the rest of the grant: at most n admissions in addition to the limit in all. A grant stands
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

func (s *Server) registerBans(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "ban", Method: http.MethodPost, Path: "/v1/bans", Summary: "Deny a key for some time", Description: banDescription,
	}, []api.Code{api.CodeUnknownLimit, api.CodeInvalidKey, api.CodeInvalidTime, api.CodeInvalidWindow, api.CodeUnknownParameter}, func(ctx context.Context, q *banQuestion) (*banOutput, error) {
		length, err := request.ParseWindow("for", q.For)
		if err != nil {
			return nil, ProblemOf(err)
		}
		answer, err := s.service.BanKey(ctx, callerOf(ctx), q.Limit, q.Key, length)
		return &banOutput{answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "unban", Method: http.MethodDelete, Path: "/v1/bans", Summary: "Lift the ban of a key", Description: "It may be sent again. The other nodes of a cluster lift it when they follow the next flush.",
	}, []api.Code{api.CodeInvalidKey, api.CodeUnknownParameter}, func(ctx context.Context, q *unbanQuestion) (*unbanOutput, error) {
		answer, err := s.service.UnbanKey(ctx, callerOf(ctx), q.Limit, q.Key)
		return &unbanOutput{answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "bans", Method: http.MethodGet, Path: "/v1/bans", Summary: "Keys that are banned", Description: "As the node that is asked knows them.",
	}, []api.Code{api.CodeUnknownParameter}, func(ctx context.Context, q *bansQuestion) (*bansOutput, error) {
		answer, err := s.service.Bans(callerOf(ctx), q.N)
		return &bansOutput{answer}, ProblemOrNil(err)
	})
}

type settleQuestion struct {
	ID   string `query:"id" maxLength:"64" doc:"Of the reservation. It is required without a body."`
	Used string `query:"used" maxLength:"20" pattern:"^[0-9]+$" doc:"How many admissions of each of its limits were used; the rest is given back. It is required without a body." example:"300"`
	Over string `query:"over" enum:"deny,debt" doc:"As in the body."`
	Body *struct {
		_    struct{}   `additionalProperties:"false"`
		ID   string     `json:"id" maxLength:"64" doc:"Of the reservation."`
		Used settleUsed `json:"used"`
		Over string     `json:"over,omitempty" enum:"deny,debt" doc:"Usage beyond the reservation: counts only if the limit permits all of it (deny, the default), or in any case (debt)."`
	}
}

// settleUsed describes api.Used.
type settleUsed struct{ api.Used }

// Schema implements huma.SchemaProvider.
func (settleUsed) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "One number for all limits, or an object with one for each cost, of which requests is for limits without a cost.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeInteger, Minimum: new(0.0)},
			{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0)}, MinProperties: new(1), MaxProperties: new(admit.MaxCosts)},
		},
		Examples: []any{map[string]any{"tokens": 200, "requests": 1}},
	}
}

// read returns what is asked by the body, or by the query.
func (q *settleQuestion) read() (id string, used admit.Used, debt bool, err error) {
	asked := q.ID != "" || q.Used != "" || q.Over != ""
	switch {
	case q.Body != nil && asked:
		return "", used, false, NewProblem(api.CodeInvalidParameter, "id", "there are a body and parameters of the query: send one of them")
	case q.Body != nil:
		used.N = q.Body.Used.N
		for name, n := range q.Body.Used.Costs {
			used.Costs = append(used.Costs, admit.Cost{Field: name, N: n})
		}
		id, debt = q.Body.ID, q.Body.Over == "debt"
	default:
		if q.Used == "" {
			return "", used, false, NewProblem(api.CodeInvalidParameter, "used", "used is missing: say how many admissions were used, for example used=300, or send a body")
		}
		if used.N, err = strconv.ParseUint(q.Used, 10, 64); err != nil {
			return "", used, false, NewProblem(api.CodeInvalidParameter, "used", "used of "+q.Used+": must be a whole number")
		}
		id, debt = q.ID, q.Over == "debt"
	}
	if id == "" {
		return "", used, false, NewProblem(api.CodeInvalidParameter, "id", "id is missing: it is in the answer of POST /v1/reserve")
	}
	for _, n := range append([]admit.Cost{{N: used.N}}, used.Costs...) {
		if n.N > limit.MaxBurst {
			return "", used, false, NewProblem(api.CodeInvalidCount, "used", fmt.Sprintf("used of %d: at most %d", n.N, uint64(limit.MaxBurst)))
		}
	}
	return id, used, debt, nil
}

type settleOutput struct{ Body api.SettleAnswer }

const settleDescription = `It may be sent again: a reservation is settled once, and says again how. Any node of a cluster may be asked: one that does not know
the reservation yet waits up to 2 s for it. What is settled is given back where the key is decided, as of when it was taken, so that the limit holds for what was really used.`

func (s *Server) registerSettle(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "settle", Method: http.MethodPost, Path: "/v1/settle",
		Summary: "Say how much of a reservation was used", Description: settleDescription,
	}, []api.Code{api.CodeUnknownReservation, api.CodeUnknownParameter, api.CodeInvalidCount, api.CodeInvalidJSON, api.CodeNotHeld}, func(ctx context.Context, q *settleQuestion) (*settleOutput, error) {
		id, used, debt, err := q.read()
		if err != nil {
			return nil, err
		}
		answer, err := s.service.Settle(ctx, callerOf(ctx), id, used, debt)
		return &settleOutput{answer}, ProblemOrNil(err)
	})
}

func (s *Server) registerLimitChanges(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "reset-limit", Method: http.MethodDelete, Path: "/v1/limits/{name}/keys/{key}",
		Summary: "Forget what a key has used of a limit", Description: resetDescription,
	}, []api.Code{api.CodeUnknownLimit, api.CodeInvalidLimit, api.CodeInvalidKey, api.CodeUnknownParameter, api.CodeNotHeld}, func(ctx context.Context, q *resetQuestion) (*resetOutput, error) {
		answer, err := s.service.ResetLimit(ctx, callerOf(ctx), q.Name, q.Key)
		return &resetOutput{answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "grant", Method: http.MethodPost, Path: "/v1/grants",
		Summary: "Give a key more admissions than its limit, once", Description: grantDescription,
	}, []api.Code{api.CodeUnknownLimit, api.CodeInvalidLimit, api.CodeInvalidKey, api.CodeInvalidCount, api.CodeInvalidTime, api.CodeInvalidWindow, api.CodeUnknownParameter, api.CodeNotHeld}, func(ctx context.Context, q *grantQuestion) (*grantOutput, error) {
		until, err := s.grantEnd(q)
		if err != nil {
			return nil, ProblemOf(err)
		}
		answer, err := s.service.GrantLimit(ctx, callerOf(ctx), q.Limit, q.Key, q.N, until)
		return &grantOutput{answer}, ProblemOrNil(err)
	})
}

// grantEnd is when a grant is over.
func (s *Server) grantEnd(q *grantQuestion) (time.Time, error) {
	switch {
	case q.N == 0:
		return time.Time{}, nil
	case (q.For == "") == (q.Until == ""):
		return time.Time{}, NewProblem(api.CodeInvalidParameter, "for", "say for how long (for=24h) or until when (until=2026-11-23T00:00:00Z)")
	case q.Until != "":
		return request.ParseTime("until", q.Until)
	}
	length, err := request.ParseWindow("for", q.For)
	return s.service.Now().Add(length), err
}

type takePermitQuestion struct {
	Key   string `query:"key" required:"true" doc:"What is limited; 1 to 512 bytes." example:"job:42"`
	Limit string `query:"limit" maxLength:"64" doc:"The one limit that is asked. Default: all with max that are for the key, all or none." example:"jobs"`
}

type permitQuestion struct {
	ID string `path:"id" maxLength:"1024" doc:"Of the permit."`
}

type permitOutput struct{ Body api.PermitAnswer }

type releaseOutput struct{ Body api.ReleaseAnswer }

const takePermitDescription = `For policies with ` + "`max`" + `: how many work at once. The holder of a permit keeps it by heartbeats and returns it; the permit of a holder that is silent is free after
` + "`ttl_s`" + `, never earlier. When max are held, the answer is the problem ` + "`at_once`" + ` (429) with Retry-After: when the first is free if its holder is silent. After a start of a server alone, nobody gets a new permit
for one ttl, while holders of the time before keep theirs by their heartbeats. The nodes of a cluster keep permits together, whichever is asked, and know them after a crash; while the one that decides does not answer
it is the problem ` + "`not_held`" + ` (503). An answer that got lost may have taken a permit, which is free after the ttl.`

func (s *Server) registerPermits(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "take-permit", Method: http.MethodPost, Path: "/v1/permits",
		Summary: "Take a permit to be one of so many at once", Description: takePermitDescription,
	}, []api.Code{api.CodeAtOnce, api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeInvalidCount, api.CodeUnknownLimit, api.CodeUnknownParameter, api.CodeOverloaded, api.CodeNotHeld}, func(ctx context.Context, q *takePermitQuestion) (*permitOutput, error) {
		answer, err := s.service.TakePermit(callerOf(ctx), q.Key, q.Limit)
		return &permitOutput{answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "renew-permit", Method: http.MethodPost, Path: "/v1/permits/{id}/heartbeat",
		Summary:     "Keep a permit",
		Description: "The permit is held for its ttl more, from when this was sent. A permit that was lost is the problem `permit_lost` (409): its holder must stop. So it must when no answer comes until a ttl after the last heartbeat that was answered; one that comes later does not count.",
	}, []api.Code{api.CodePermitLost, api.CodeInvalidParameter, api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeUnknownLimit, api.CodeUnknownParameter, api.CodeOverloaded, api.CodeNotHeld}, func(ctx context.Context, q *permitQuestion) (*permitOutput, error) {
		answer, err := s.service.RenewPermit(callerOf(ctx), q.ID)
		return &permitOutput{answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "release-permit", Method: http.MethodDelete, Path: "/v1/permits/{id}",
		Summary: "Give a permit back", Description: "It may be sent again: `released` says whether the permit was held.",
	}, []api.Code{api.CodeInvalidParameter, api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeUnknownLimit, api.CodeUnknownParameter, api.CodeOverloaded, api.CodeNotHeld}, func(ctx context.Context, q *permitQuestion) (*releaseOutput, error) {
		answer, err := s.service.ReleasePermit(callerOf(ctx), q.ID)
		return &releaseOutput{answer}, ProblemOrNil(err)
	})
}

// NamedPolicy is the name of a policy in a path. It is exported for huma, and embedded in questions.
type NamedPolicy struct {
	Name string `path:"name" doc:"The policy's name; its slashes may be raw or percent-encoded." example:"login"`
}

// PolicyCondition is the version that a change to a policy is for. It is exported for huma, and embedded in questions.
type PolicyCondition struct {
	IfMatch string `header:"If-Match" doc:"The change is made only if the policy has this version, its ETag." example:"\"7\""`
}

type putPolicyQuestion struct {
	NamedPolicy
	PolicyCondition
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"The policy is put only if none of its name was put before: *."`
	RawBody     []byte `contentType:"application/yaml"`
}

type deletePolicyQuestion struct {
	NamedPolicy
	PolicyCondition
}

type (
	putPolicyOutput struct {
		Status int
		ETag   string `header:"ETag"`
		Body   api.PutAnswer
	}
	policyOutput struct {
		ETag string `header:"ETag"`
		Body api.KeptPolicy
	}
	policiesOutput      struct{ Body api.PoliciesAnswer }
	deletedPolicyOutput struct{ Body api.DeletedPolicy }
)

const putPolicyDescription = `The body is one policy with the fields of an entry of the policy file, in YAML or JSON: ` + "`{\"keys\":\"login:{user}:*\",\"limit\":5,\"per\":\"1m\"}`" + `. It stands in place of
the one of its name that was put before, in use on the node that answers at once, on the other nodes of a cluster a moment later, after a restart, and on nodes that join. What keys have used stays. A policy that
the file could not have is refused with ` + "`invalid_policy`" + ` and all that is wrong, by line. Where the file has one of the name, it is refused with ` + "`policy_in_file`" + `, or goes before the file's (--policies-api).
Of two writers who change the same version (If-Match), one wins; the other gets ` + "`version_mismatch`" + `.`

func (s *Server) registerPolicies(doc *API) {
	changing := []api.Code{api.CodeNoPoliciesAPI, api.CodeVersionMismatch, api.CodeNotDurable, api.CodeUnknownParameter}
	AskView(doc, huma.Operation{
		OperationID: "put-policy", Method: http.MethodPut, Path: "/v1/policies/{name}", Summary: "Put a policy", Description: putPolicyDescription, MaxBodyBytes: admit.MaxText,
		DefaultStatus: http.StatusOK,
	}, append(changing, api.CodeInvalidPolicy, api.CodePolicyInFile, api.CodePoliciesFull, api.CodeBodyTooLarge), func(ctx context.Context, q *putPolicyQuestion) (*putPolicyOutput, error) {
		want, err := q.condition()
		if err != nil {
			return nil, err
		}
		want.New = q.IfNoneMatch != ""
		answer, err := s.service.PutPolicy(ctx, callerOf(ctx), q.Name, string(q.RawBody), want)
		out := &putPolicyOutput{Status: http.StatusOK, ETag: etag(answer.Version), Body: answer}
		if answer.New {
			out.Status = http.StatusCreated
		}
		return out, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "get-policy", Method: http.MethodGet, Path: "/v1/policies/{name}", Summary: "A policy that was put",
		Description: "As the node that is asked knows it. Policies of the file are at /v1/limits.",
	}, []api.Code{api.CodeNoPoliciesAPI, api.CodeUnknownLimit, api.CodeUnknownParameter}, func(ctx context.Context, q *NamedPolicy) (*policyOutput, error) {
		answer, err := s.service.Policy(callerOf(ctx), q.Name)
		return &policyOutput{etag(answer.Version), answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "list-policies", Method: http.MethodGet, Path: "/v1/policies", Summary: "The policies that were put",
		Description: "As the node that is asked knows them. Policies of the file are at /v1/limits.",
	}, []api.Code{api.CodeNoPoliciesAPI, api.CodeUnknownParameter}, func(ctx context.Context, _ *struct{}) (*policiesOutput, error) {
		answer, err := s.service.Policies(callerOf(ctx))
		return &policiesOutput{answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "delete-policy", Method: http.MethodDelete, Path: "/v1/policies/{name}", Summary: "Delete a policy that was put",
		Description: "Nothing limits its keys by it any more, unless the file has one of its name. Bans of its keys are lifted. What keys have used of it stays for a while, for one that is put again.",
	}, append(changing, api.CodeUnknownLimit), func(ctx context.Context, q *deletePolicyQuestion) (*deletedPolicyOutput, error) {
		want, err := q.condition()
		if err != nil {
			return nil, err
		}
		answer, err := s.service.DeletePolicy(ctx, callerOf(ctx), q.Name, want)
		return &deletedPolicyOutput{answer}, ProblemOrNil(err)
	})
}

func etag(version uint64) string { return strconv.Quote(strconv.FormatUint(version, 10)) }

// condition reads If-Match.
func (c *PolicyCondition) condition() (want admit.PolicyCondition, err error) {
	if c.IfMatch == "" {
		return want, nil
	}
	want.Version, err = strconv.ParseUint(strings.Trim(c.IfMatch, `"`), 10, 64)
	if err != nil || want.Version == 0 {
		return want, NewProblem(api.CodeInvalidParameter, "If-Match", "If-Match: "+request.Clip(c.IfMatch)+`: write the version that the policy must have, as its ETag has it: "7"`)
	}
	return want, nil
}
