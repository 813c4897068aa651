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

const forgetDescription = `Each key has its whole burst again. Policies are not affected. Other nodes follow with the next flush;
what they admit before can remain. Like a plain hit, the change can be lost in a crash within one flush interval.`

func (s *Server) registerLimits(to *router) {
	serve(to, route{
		pattern: "GET /v1/limits", id: "list-limits", need: reads, codes: []api.Code{api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed},
		summary:     "List policies and their decisions",
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
		description: "Only keys with usage; for where: node, this node's. The query walks over all keys with usage: it is for people, not for every request.",
	}, func(_ context.Context, c access.Caller, q *limitKeysQuestion) (api.LimitKeysAnswer, error) {
		return s.service.LimitKeys(c, q.Name, q.N)
	})
	serve(to, route{
		pattern: "DELETE /v1/limits/inline", id: "forget-inline-limits", need: administersAll("forget inline limits"), pool: s.service.Pools.Admin, codes: []api.Code{api.CodeInvalidLimit},
		summary: "Delete the usage of limits sent with requests", description: forgetDescription,
	}, func(ctx context.Context, c access.Caller, q *forgetQuestion) (api.ForgetAnswer, error) {
		return s.service.ForgetInline(ctx, c, q.Name)
	})
}

type resetQuestion struct {
	Name string `path:"name" doc:"The limit's name; its slashes may be raw or percent-encoded." example:"login"`
	Key  string `path:"key" doc:"The key as it is counted; its slashes may be raw or percent-encoded, but ?, # and % must be percent-encoded." example:"login:bob"`
}

const resetDescription = `The key has its whole burst again, without grants. The change goes through the journal to the key's owner. Nodes
that count alone follow with the next flush; what they admit before can remain. GET /v1/limits/{name}/keys
lists keys as they are counted. For the name of a limit sent with requests, role decide suffices.`

// LimitedKeyParams name a limit and a key. It is exported for huma, and embedded in questions.
type LimitedKeyParams struct {
	Limit string `query:"limit" required:"true" doc:"The limit's name." example:"login"`
	Key   string `query:"key" required:"true" doc:"The key as it is counted." example:"login:bob"`
}

type grantQuestion struct {
	LimitedKeyParams
	N     uint64 `query:"n" required:"true" maximum:"35184372088832" doc:"Admissions in addition to the limit; 0 removes an earlier grant."`
	For   string `query:"for" doc:"For how long they may be used. This or until, unless n is 0." example:"24h"`
	Until string `query:"until" doc:"Until when they may be used: RFC 3339 or Unix seconds." example:"2026-11-23T00:00:00Z"`
}

const grantDescription = `Requests that the limit would deny use the grant: at most n admissions in addition to the limit in all. A grant replaces
an earlier one of the key, so the request can be repeated. At most 10,000 are active. In a cluster all nodes have it after the next flush;
nodes that count alone can each use it, like the limit itself.`

type banQuestion struct {
	LimitedKeyParams
	For string `query:"for" required:"true" doc:"For how long, 1s to 366d." example:"24h"`
}

type bansQuestion struct {
	N int `query:"n" default:"100" minimum:"1" maximum:"1000" doc:"How many to list."`
}

const banDescription = `The policy denies the key until then, whatever it has used, and takes nothing. A ban replaces an earlier one of the key. DELETE, or a reset of the key, lifts it.
Other nodes follow with the next flush. A policy with deny_for bans keys by itself. At most 100,000 bans are active.`

func (s *Server) registerLimitChanges(to *router) {
	resets := need{Need: access.Need{Roles: []auth.Role{auth.Decide, auth.Admin}, Action: "reset limit"}, keys: []string{"key"}}
	serve(to, route{
		pattern: "DELETE /v1/limits/{name}/keys/{key}", id: "reset-limit", need: resets, pool: s.service.Pools.Admin,
		codes:   []api.Code{api.CodeUnknownLimit, api.CodeInvalidLimit, api.CodeInvalidKey, api.CodeNotHeld},
		summary: "Reset a key's usage of a limit", description: resetDescription,
	}, func(ctx context.Context, c access.Caller, q *resetQuestion) (api.ResetAnswer, error) {
		return s.service.ResetLimit(ctx, c, q.Name, q.Key)
	})
	serve(to, route{
		pattern: "POST /v1/grants", id: "grant", need: administers("grant", "key"), pool: s.service.Pools.Admin,
		codes:   []api.Code{api.CodeUnknownLimit, api.CodeInvalidLimit, api.CodeInvalidKey, api.CodeInvalidCount, api.CodeInvalidTime, api.CodeInvalidWindow, api.CodeNotHeld},
		summary: "Grant a key admissions in addition to its limit", description: grantDescription,
	}, func(ctx context.Context, c access.Caller, q *grantQuestion) (none api.GrantAnswer, err error) {
		until, err := s.grantEnd(q)
		if err != nil {
			return none, err
		}
		return s.service.GrantLimit(ctx, c, q.Limit, q.Key, q.N, until)
	})
	serve(to, route{
		pattern: "POST /v1/bans", id: "ban", need: administers("ban", "key"), codes: []api.Code{api.CodeUnknownLimit, api.CodeInvalidKey, api.CodeInvalidTime, api.CodeInvalidWindow},
		summary: "Ban a key", description: banDescription,
	}, func(ctx context.Context, c access.Caller, q *banQuestion) (none api.BanAnswer, err error) {
		length, err := request.ParseWindow("for", q.For)
		if err != nil {
			return none, err
		}
		return s.service.BanKey(ctx, c, q.Limit, q.Key, length)
	})
	serve(to, route{
		pattern: "DELETE /v1/bans", id: "unban", need: administers("unban", "key"), codes: []api.Code{api.CodeInvalidKey},
		summary: "Lift the ban of a key", description: "Can be repeated. Other nodes follow with the next flush.",
	}, func(ctx context.Context, c access.Caller, q *LimitedKeyParams) (api.UnbanAnswer, error) {
		return s.service.UnbanKey(ctx, c, q.Limit, q.Key)
	})
	serve(to, route{
		pattern: "GET /v1/bans", id: "bans", need: reads, summary: "List banned keys", description: "As the asked node knows them.",
	}, func(_ context.Context, c access.Caller, q *bansQuestion) (api.BansAnswer, error) {
		return s.service.Bans(c, q.N)
	})
	serve(to, route{
		pattern: "POST /v1/settle", id: "settle", need: decides, enters: true, codes: []api.Code{api.CodeUnknownReservation, api.CodeInvalidCount, api.CodeUnsupportedType, api.CodeNotHeld, api.CodeKeyReused},
		summary: "Settle a reservation", description: settleDescription,
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

const settleDescription = `Can be repeated: a reservation is settled once, and later answers are the same; another ` + "`used`" + ` is refused (422). Any node of a cluster can settle; one that does not know
the reservation yet waits up to 2 s for it. The unused part is returned as of the time of the reservation.`

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
	Limit string `query:"limit" maxLength:"64" doc:"Name of one permit policy. Default: all that match the key, all or none." example:"jobs"`
}

type permitQuestion struct {
	ID string `path:"id" maxLength:"1024" doc:"Of the permit."`
}

const takePermitDescription = `For policies with ` + "`max`" + `. The holder of a permit keeps it by heartbeats and releases it. The permit of a silent holder is free after
` + "`ttl_s`" + `, never earlier. If max permits are held, the answer is the problem ` + "`at_once`" + ` (429); Retry-After is when the first can expire. A single server grants no new permits
for one ttl after a start; earlier holders keep theirs by heartbeats. The nodes of a cluster share permits and keep them through crashes. While the owner does not answer,
the problem is ` + "`not_held`" + ` (503). A lost answer may have taken a permit, which is free after the ttl.`

func (s *Server) registerPermits(to *router) {
	codes := []api.Code{api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeUnknownLimit, api.CodeNotHeld}
	serve(to, route{
		pattern: "POST /v1/permits", id: "take-permit", need: decidesKey, enters: true, codes: append(slices.Clip(codes), api.CodeAtOnce, api.CodeInvalidCount),
		summary: "Take a permit", description: takePermitDescription,
	}, func(_ context.Context, c access.Caller, q *takePermitQuestion) (api.PermitAnswer, error) {
		return s.service.TakePermit(c, q.Key, q.Limit)
	})
	serve(to, route{
		pattern: "POST /v1/permits/{id}/heartbeat", id: "renew-permit", need: decides, enters: true, codes: append(slices.Clip(codes), api.CodePermitLost),
		summary:     "Renew a permit",
		description: "Extends the permit by its ttl from when this was sent. A lost permit is the problem `permit_lost` (409): its holder must stop. It must also stop a ttl after its last answered heartbeat; later answers do not count.",
	}, func(_ context.Context, c access.Caller, q *permitQuestion) (api.PermitAnswer, error) {
		return s.service.RenewPermit(c, q.ID)
	})
	serve(to, route{
		pattern: "DELETE /v1/permits/{id}", id: "release-permit", need: decides, enters: true, codes: codes,
		summary: "Release a permit", description: "Can be repeated: `released` says whether the permit was held.",
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
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"With *, the policy is put only if no policy of this name exists."`
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

const putPolicyDescription = `The body is one entry of a policy file, in YAML or JSON: ` + "`{\"keys\":\"login:{user}:*\",\"limit\":5,\"per\":\"1m\"}`" + `. It replaces
an earlier policy of this name. The answering node uses it at once, other nodes a moment later, also after restarts. Usage of keys stays. An invalid
policy is refused with ` + "`invalid_policy`" + ` and all errors by line. If the file has a policy of this name, the put is refused with ` + "`policy_in_file`" + `, or takes precedence (--policies-api).
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
		summary: "Get a policy set by API", description: "As the asked node knows it. GET /v1/limits has the policies of the file.",
	}, func(_ context.Context, c access.Caller, q *NamedPolicy) (*policyOutput, error) {
		kept, err := s.service.Policy(c, q.Name)
		return &policyOutput{etag(kept.Version), kept}, err
	})
	serve(to, route{
		pattern: "GET /v1/policies", id: "list-policies", need: needOf(auth.Admin), codes: []api.Code{api.CodeNoPoliciesAPI},
		summary: "List policies set by API", description: "As the asked node knows them. GET /v1/limits has the policies of the file.",
	}, func(_ context.Context, c access.Caller, _ *struct{}) (api.PoliciesAnswer, error) {
		return s.service.Policies(c)
	})
	serve(to, route{
		pattern: "DELETE /v1/policies/{name}", id: "delete-policy", need: administers("delete policy"), pool: s.service.Pools.Admin,
		codes:       append(slices.Clip(changing), api.CodeUnknownLimit),
		summary:     "Delete a policy set by API",
		description: "It no longer limits its keys, unless the file has one of its name. Bans of its keys are lifted. Usage stays for a while, in case the policy is put again.",
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
