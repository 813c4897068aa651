package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/limit"
)

type limitsQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window that decisions are counted in, whole seconds from 1s to 1000000000s." example:"5m"`
}

type limitKeysQuestion struct {
	Name string `path:"name" doc:"The policy's name; its slashes may be raw or percent-encoded." example:"login"`
	N    int    `query:"n" default:"20" minimum:"1" maximum:"10000" doc:"How many keys to list."`
}

type forgetQuestion struct {
	Name string `query:"name" maxLength:"64" doc:"Of the limits of this name. Default: of all limits that requests brought along." example:"inline/window/1h"`
}

const forgetDescription = `Each key has its whole burst again. Policies are not touched. The other nodes of a cluster forget too, when they follow the next flush;
what one of them admits before that may stay. Like a hit that is not durable, it may be lost in a crash within one flush interval.`

func (s *Server) registerLimits(to *router) {
	serve(to, route{
		pattern: "GET /v1/limits", id: "list-limits", need: reads, codes: []api.Code{api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed},
		summary:     "List the policies, and how they decided",
		description: "In order of application, with the decisions of a window.",
	}, func(ctx context.Context, c access.Caller, q *limitsQuestion) (none api.LimitsAnswer, err error) {
		w, err := request.ParseWindow("window", q.Window)
		if err != nil {
			return none, err
		}
		return s.service.Limits(ctx, c, w)
	})
	serve(to, route{
		pattern: "GET /v1/limits/{name}/keys", id: "limit-keys", need: reads, codes: []api.Code{api.CodeUnknownLimit, api.CodeNotHeld, api.CodeClosed},
		summary:     "List the keys that have used most of a limit",
		description: "Keys that have used nothing are not listed. Of a limit that is decided for each node alone, they are this node's. It looks at every key with a limit in use: a question for people, not for each request.",
	}, func(_ context.Context, c access.Caller, q *limitKeysQuestion) (api.LimitKeysAnswer, error) {
		return s.service.LimitKeys(c, q.Name, q.N)
	})
	serve(to, route{
		pattern: "DELETE /v1/limits/inline", id: "forget-inline-limits", need: administersAll("forget inline limits"), pool: s.service.Pools.Admin, codes: []api.Code{api.CodeInvalidLimit},
		summary: "Forget what keys have used of limits that requests brought along", description: forgetDescription,
	}, func(ctx context.Context, c access.Caller, q *forgetQuestion) (api.ForgetAnswer, error) {
		return s.service.ForgetInline(ctx, c, q.Name)
	})
}

type resetQuestion struct {
	Name string `path:"name" doc:"The limit's name; its slashes may be raw or percent-encoded." example:"login"`
	Key  string `path:"key" doc:"The key as it is counted; its slashes may be raw or percent-encoded, but ?, # and % must be percent-encoded." example:"login:bob"`
}

const resetDescription = `The key has its whole burst again, and its grant is taken back. It is done where the key is decided, and goes through the journal: nodes
that count the limit too, also each for itself, forget when they follow the next flush; what one of them admits before that may stay. ` + "`keys`" + ` of the limit
(GET /v1/limits/{name}/keys) lists keys as they are counted. It works for limits that requests bring along, too, by their names: there role decide suffices.`

// LimitedKeyParams name a limit and a key. It is exported for huma, and embedded in questions.
type LimitedKeyParams struct {
	Limit string `query:"limit" required:"true" doc:"The limit's name." example:"login"`
	Key   string `query:"key" required:"true" doc:"The key as it is counted." example:"login:bob"`
}

type grantQuestion struct {
	LimitedKeyParams
	N     uint64 `query:"n" required:"true" maximum:"35184372088832" doc:"How many admissions in addition to the limit; 0 takes back what is left of an earlier grant."`
	For   string `query:"for" doc:"For how long they may be used. This or until, unless n is 0." example:"24h"`
	Until string `query:"until" doc:"Until when they may be used: RFC 3339 or Unix seconds." example:"2026-11-23T00:00:00Z"`
}

const grantDescription = `A request that the limit would deny uses what is left of the limit, and the rest of the grant: at most n admissions in addition to the limit in all. A grant stands
in place of an earlier one of the key, so that a request may be sent again. At most 10,000 are in use. In a cluster all nodes know of a grant when they follow the next flush;
nodes that decide each for itself may use it at the same time, as they may the limit itself.`

type banQuestion struct {
	LimitedKeyParams
	For string `query:"for" required:"true" doc:"For how long, 1s to 366d." example:"24h"`
}

type bansQuestion struct {
	N int `query:"n" default:"100" minimum:"1" maximum:"1000" doc:"How many to list."`
}

const banDescription = `The key is denied under the policy until then, whatever it has used, and takes nothing. A ban stands in place of an earlier one of the key; DELETE, and a reset of the key, lift it.
The node that is asked knows at once, the others of a cluster when they follow the next flush, wherever the policy is decided. A policy with deny_for bans keys itself. At most 100,000 bans are in use.`

func (s *Server) registerLimitChanges(to *router) {
	resets := need{Need: access.Need{Roles: []auth.Role{auth.Decide, auth.Admin}, Action: "reset limit"}, keys: []string{"key"}}
	serve(to, route{
		pattern: "DELETE /v1/limits/{name}/keys/{key}", id: "reset-limit", need: resets, pool: s.service.Pools.Admin,
		codes:   []api.Code{api.CodeUnknownLimit, api.CodeInvalidLimit, api.CodeInvalidKey, api.CodeNotHeld},
		summary: "Forget what a key has used of a limit", description: resetDescription,
	}, func(ctx context.Context, c access.Caller, q *resetQuestion) (api.ResetAnswer, error) {
		return s.service.ResetLimit(ctx, c, q.Name, q.Key)
	})
	serve(to, route{
		pattern: "POST /v1/grants", id: "grant", need: administers("grant", "key"), pool: s.service.Pools.Admin,
		codes:   []api.Code{api.CodeUnknownLimit, api.CodeInvalidLimit, api.CodeInvalidKey, api.CodeInvalidCount, api.CodeInvalidTime, api.CodeInvalidWindow, api.CodeNotHeld},
		summary: "Give a key more admissions than its limit, once", description: grantDescription,
	}, func(ctx context.Context, c access.Caller, q *grantQuestion) (none api.GrantAnswer, err error) {
		until, err := s.grantEnd(q)
		if err != nil {
			return none, err
		}
		return s.service.GrantLimit(ctx, c, q.Limit, q.Key, q.N, until)
	})
	serve(to, route{
		pattern: "POST /v1/bans", id: "ban", need: administers("ban", "key"), codes: []api.Code{api.CodeUnknownLimit, api.CodeInvalidKey, api.CodeInvalidTime, api.CodeInvalidWindow},
		summary: "Deny a key for some time", description: banDescription,
	}, func(ctx context.Context, c access.Caller, q *banQuestion) (none api.BanAnswer, err error) {
		length, err := request.ParseWindow("for", q.For)
		if err != nil {
			return none, err
		}
		return s.service.BanKey(ctx, c, q.Limit, q.Key, length)
	})
	serve(to, route{
		pattern: "DELETE /v1/bans", id: "unban", need: administers("unban", "key"), codes: []api.Code{api.CodeInvalidKey},
		summary: "Lift the ban of a key", description: "It may be sent again. The other nodes of a cluster lift it when they follow the next flush.",
	}, func(ctx context.Context, c access.Caller, q *LimitedKeyParams) (api.UnbanAnswer, error) {
		return s.service.UnbanKey(ctx, c, q.Limit, q.Key)
	})
	serve(to, route{
		pattern: "GET /v1/bans", id: "bans", need: reads, summary: "Keys that are banned", description: "As the node that is asked knows them.",
	}, func(_ context.Context, c access.Caller, q *bansQuestion) (api.BansAnswer, error) {
		return s.service.Bans(c, q.N)
	})
	serve(to, route{
		pattern: "POST /v1/settle", id: "settle", need: decides, enters: true, codes: []api.Code{api.CodeUnknownReservation, api.CodeInvalidCount, api.CodeUnsupportedType, api.CodeNotHeld, api.CodeKeyReused},
		summary: "Say how much of a reservation was used", description: settleDescription,
	}, s.settle)
}

// grantEnd is when a grant is over.
func (s *Server) grantEnd(q *grantQuestion) (time.Time, error) {
	switch {
	case q.N == 0:
		return time.Time{}, nil
	case (q.For == "") == (q.Until == ""):
		return time.Time{}, fail(api.CodeInvalidParameter, "for", "say for how long (for=24h) or until when (until=2026-11-23T00:00:00Z)")
	case q.Until != "":
		return request.ParseTime("until", q.Until)
	}
	length, err := request.ParseWindow("for", q.For)
	return s.service.Now().Add(length), err
}

const settleDescription = `It may be sent again: a reservation is settled once, and says again how; another ` + "`used`" + ` is refused (422). Any node of a cluster may be asked: one that does not know
the reservation yet waits up to 2 s for it. What is settled is given back where the key is decided, as of when it was taken, so that the limit holds for what was really used.`

func (s *Server) settle(ctx context.Context, c access.Caller, q *struct{ Body api.SettleRequest }) (none api.SettleAnswer, err error) {
	used := admit.Used{N: q.Body.Used.N}
	for name, n := range q.Body.Used.Costs {
		used.Costs = append(used.Costs, admit.Cost{Field: name, N: n})
	}
	if q.Body.ID == "" {
		return none, fail(api.CodeInvalidParameter, "id", "id is missing: it is in the answer of POST /v1/reserve")
	}
	for _, n := range append([]admit.Cost{{N: used.N}}, used.Costs...) {
		if n.N > limit.MaxBurst {
			return none, fail(api.CodeInvalidCount, "used", fmt.Sprintf("used of %d: at most %d", n.N, uint64(limit.MaxBurst)))
		}
	}
	return s.service.Settle(ctx, c, q.Body.ID, used, q.Body.Over == "debt")
}

type takePermitQuestion struct {
	Key   string `query:"key" required:"true" doc:"What is limited; 1 to 512 bytes." example:"job:42"`
	Limit string `query:"limit" maxLength:"64" doc:"The one limit that is asked. Default: all with max that are for the key, all or none." example:"jobs"`
}

type permitQuestion struct {
	ID string `path:"id" maxLength:"1024" doc:"Of the permit."`
}

const takePermitDescription = `For policies with ` + "`max`" + `: how many work at once. The holder of a permit keeps it by heartbeats and returns it; the permit of a holder that is silent is free after
` + "`ttl_s`" + `, never earlier. When max are held, the answer is the problem ` + "`at_once`" + ` (429) with Retry-After: when the first is free if its holder is silent. After a start of a server alone, nobody gets a new permit
for one ttl, while holders of the time before keep theirs by their heartbeats. The nodes of a cluster keep permits together, whichever is asked, and know them after a crash; while the one that decides does not answer
it is the problem ` + "`not_held`" + ` (503). An answer that got lost may have taken a permit, which is free after the ttl.`

func (s *Server) registerPermits(to *router) {
	codes := []api.Code{api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeUnknownLimit, api.CodeNotHeld}
	serve(to, route{
		pattern: "POST /v1/permits", id: "take-permit", need: decidesKey, enters: true, codes: append(slices.Clip(codes), api.CodeAtOnce, api.CodeInvalidCount),
		summary: "Take a permit to be one of so many at once", description: takePermitDescription,
	}, func(_ context.Context, c access.Caller, q *takePermitQuestion) (api.PermitAnswer, error) {
		return s.service.TakePermit(c, q.Key, q.Limit)
	})
	serve(to, route{
		pattern: "POST /v1/permits/{id}/heartbeat", id: "renew-permit", need: decides, enters: true, codes: append(slices.Clip(codes), api.CodePermitLost),
		summary:     "Keep a permit",
		description: "The permit is held for its ttl more, from when this was sent. A permit that was lost is the problem `permit_lost` (409): its holder must stop. So it must when no answer comes until a ttl after the last heartbeat that was answered; one that comes later does not count.",
	}, func(_ context.Context, c access.Caller, q *permitQuestion) (api.PermitAnswer, error) {
		return s.service.RenewPermit(c, q.ID)
	})
	serve(to, route{
		pattern: "DELETE /v1/permits/{id}", id: "release-permit", need: decides, enters: true, codes: codes,
		summary: "Give a permit back", description: "It may be sent again: `released` says whether the permit was held.",
	}, func(_ context.Context, c access.Caller, q *permitQuestion) (api.ReleaseAnswer, error) {
		return s.service.ReleasePermit(c, q.ID)
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
)

const putPolicyDescription = `The body is one policy with the fields of an entry of the policy file, in YAML or JSON: ` + "`{\"keys\":\"login:{user}:*\",\"limit\":5,\"per\":\"1m\"}`" + `. It stands in place of
the one of its name that was put before, in use on the node that answers at once, on the other nodes of a cluster a moment later, after a restart, and on nodes that join. What keys have used stays. A policy that
the file could not have is refused with ` + "`invalid_policy`" + ` and all that is wrong, by line. Where the file has one of the name, it is refused with ` + "`policy_in_file`" + `, or goes before the file's (--policies-api).
Of two writers who change the same version (If-Match), one wins; the other gets ` + "`version_mismatch`" + `.`

func (s *Server) registerPolicies(to *router) {
	changing := []api.Code{api.CodeNoPoliciesAPI, api.CodeVersionMismatch, api.CodeNotDurable}
	respond(to, route{
		pattern: "PUT /v1/policies/{name}", id: "put-policy", need: administers("put policy"), pool: s.service.Pools.Admin, status: http.StatusOK, maxBody: admit.MaxText,
		codes:   append(slices.Clip(changing), api.CodeInvalidPolicy, api.CodePolicyInFile, api.CodePoliciesFull, api.CodeBodyTooLarge),
		summary: "Put a policy", description: putPolicyDescription,
	}, func(ctx context.Context, c access.Caller, q *putPolicyQuestion) (*putPolicyOutput, error) {
		want, err := q.condition()
		if err != nil {
			return nil, err
		}
		want.New = q.IfNoneMatch != ""
		made, err := s.service.PutPolicy(ctx, c, q.Name, string(q.RawBody), want)
		out := &putPolicyOutput{Status: http.StatusOK, ETag: etag(made.Version), Body: made}
		if made.New {
			out.Status = http.StatusCreated
		}
		return out, err
	})
	respond(to, route{
		pattern: "GET /v1/policies/{name}", id: "get-policy", need: needOf(auth.Admin), codes: []api.Code{api.CodeNoPoliciesAPI, api.CodeUnknownLimit},
		summary: "A policy that was put", description: "As the node that is asked knows it. Policies of the file are at /v1/limits.",
	}, func(_ context.Context, c access.Caller, q *NamedPolicy) (*policyOutput, error) {
		kept, err := s.service.Policy(c, q.Name)
		return &policyOutput{etag(kept.Version), kept}, err
	})
	serve(to, route{
		pattern: "GET /v1/policies", id: "list-policies", need: needOf(auth.Admin), codes: []api.Code{api.CodeNoPoliciesAPI},
		summary: "The policies that were put", description: "As the node that is asked knows them. Policies of the file are at /v1/limits.",
	}, func(_ context.Context, c access.Caller, _ *struct{}) (api.PoliciesAnswer, error) {
		return s.service.Policies(c)
	})
	serve(to, route{
		pattern: "DELETE /v1/policies/{name}", id: "delete-policy", need: administers("delete policy"), pool: s.service.Pools.Admin,
		codes:       append(slices.Clip(changing), api.CodeUnknownLimit),
		summary:     "Delete a policy that was put",
		description: "Nothing limits its keys by it any more, unless the file has one of its name. Bans of its keys are lifted. What keys have used of it stays for a while, for one that is put again.",
	}, func(ctx context.Context, c access.Caller, q *deletePolicyQuestion) (none api.DeletedPolicy, err error) {
		want, err := q.condition()
		if err != nil {
			return none, err
		}
		return s.service.DeletePolicy(ctx, c, q.Name, want)
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
		return want, fail(api.CodeInvalidParameter, "If-Match", "If-Match: "+request.Clip(c.IfMatch)+`: write the version that the policy must have, as its ETag has it: "7"`)
	}
	return want, nil
}
