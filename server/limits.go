package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
)

type limitsQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window that decisions are counted in, whole seconds from 1s to 1000000000s." example:"5m"`
}

type limitsAnswer struct {
	WindowS int64            `json:"window_s" doc:"The window of allowed and denied, in seconds."`
	At      unixTime         `json:"at" doc:"The end of the window."`
	File    *PolicyFileState `json:"file,omitempty" doc:"The policy file; absent when the server has none."`
	Limits  []LimitPolicy    `json:"limits" nullable:"false" doc:"The policies in order of application."`
}

// LimitPolicy is one policy, and how it decided lately.
type LimitPolicy struct {
	Name         string  `json:"name" example:"login"`
	Keys         string  `json:"keys" doc:"The keys of requests that it is for." example:"login:{user}:*"`
	By           string  `json:"by,omitempty" doc:"The key that is counted; absent: the request's own." example:"login:{user}"`
	Limit        uint64  `json:"limit" doc:"How many per per_s."`
	PerS         float64 `json:"per_s" doc:"The period in seconds."`
	Burst        uint64  `json:"burst"`
	Algorithm    string  `json:"algorithm" enum:"window,fixed,gcra"`
	Mode         string  `json:"mode" enum:"enforce,shadow"`
	Where        string  `json:"where" enum:"shared,node,strict" doc:"Which nodes of a cluster count together: all, each that holds the key deciding by what it knows; each its own; or all, with one that decides."`
	Away         string  `json:"away,omitempty" enum:"closed,open,share" doc:"What becomes of requests of a strict limit while the node that decides is away."`
	Last         bool    `json:"last,omitempty" doc:"No later policy is asked for its keys."`
	Overrides    int     `json:"overrides" doc:"Keys that have another limit."`
	Allowed      Bounds  `json:"allowed" doc:"Decisions in the window: hits of limit:NAME:allowed."`
	Denied       Bounds  `json:"denied" doc:"Hits of limit:NAME:denied."`
	ShadowDenied Bounds  `json:"shadow_denied" doc:"Hits of limit:NAME:shadow_denied: what a shadow policy would have denied."`
}

type limitsOutput struct{ Body limitsAnswer }

type limitKeysQuestion struct {
	Name string `path:"name" doc:"The policy's name; its slashes may be raw or percent-encoded." example:"login"`
	N    int    `query:"n" default:"20" minimum:"1" maximum:"10000" doc:"How many keys to list."`
}

type limitKeysAnswer struct {
	Name string     `json:"name"`
	Keys []LimitKey `json:"keys" nullable:"false" doc:"By share of their burst, the highest first."`
}

// LimitKey is what one key has used of a limit.
type LimitKey struct {
	Key       string  `json:"key" doc:"As it is counted." example:"login:bob"`
	Used      uint64  `json:"used"`
	Burst     uint64  `json:"burst" doc:"Of this key: overrides may give it another one."`
	Remaining uint64  `json:"remaining"`
	Share     float64 `json:"share" doc:"used / burst: a key at 1 is denied now."`
	ResetS    float64 `json:"reset_s" doc:"Seconds until the whole burst is there again."`
}

type limitKeysOutput struct{ Body limitKeysAnswer }

func (s *Server) registerLimits(api huma.API) {
	ask(s, api, huma.Operation{
		OperationID: "list-limits", Method: http.MethodGet, Path: "/v1/limits",
		Summary:     "List the policies, and how they decided",
		Description: "In order of application, with the decisions of a window.",
	}, []weir.Code{weir.CodeInvalidWindow, codeUnknownParameter, weir.CodeNotHeld, weir.CodeClosed}, func(ctx context.Context, q *limitsQuestion) (*limitsOutput, error) {
		answer, err := s.limits(ctx, q)
		return &limitsOutput{answer}, err
	})
	ask(s, api, huma.Operation{
		OperationID: "limit-keys", Method: http.MethodGet, Path: "/v1/limits/{name}/keys",
		Summary:     "List the keys that have used most of a limit",
		Description: "Keys that have used nothing are not listed. Of a limit that is decided for each node alone, they are this node's. It looks at every key with a limit in use: a question for people, not for each request.",
	}, []weir.Code{codeUnknownLimit, codeUnknownParameter, weir.CodeNotHeld, weir.CodeOverloaded, weir.CodeClosed}, func(ctx context.Context, q *limitKeysQuestion) (*limitKeysOutput, error) {
		answer, err := s.limitKeys(ctx, q)
		return &limitKeysOutput{answer}, err
	})
}

func (s *Server) limits(ctx context.Context, q *limitsQuestion) (limitsAnswer, error) {
	w, err := windowParam("window", q.Window)
	if err != nil {
		return limitsAnswer{}, err
	}
	policies := s.policies.Set().Policies()
	answer := limitsAnswer{int64(w / time.Second), unixTime{s.now()}, s.cfg.PolicyFile.state(), make([]LimitPolicy, len(policies))}
	questions := make([]CountQuestion, 0, 3*len(policies))
	for i, p := range policies {
		made := LimitPolicy{
			Name: p.Name, Keys: p.Keys, By: p.By,
			Limit: p.Limit.N, PerS: p.Limit.Per.Seconds(), Burst: p.Limit.Burst, Algorithm: p.Limit.Algorithm.String(),
			Mode: p.Mode.String(), Where: p.Where.String(), Last: p.Last, Overrides: len(p.Overrides),
		}
		if p.Where == weir.WhereStrict {
			made.Away = p.Away.String()
		}
		for _, outcome := range []string{"allowed", "denied", "shadow_denied"} {
			questions = append(questions, CountQuestion{policy.HitPrefix + p.Name + ":" + outcome, answer.At.Time, w})
		}
		answer.Limits[i] = made
	}
	counts, fresh, err := s.answers.Counts(ctx, questions)
	if err != nil {
		return limitsAnswer{}, asProblem(err)
	}
	for i := range answer.Limits {
		made := &answer.Limits[i]
		made.Allowed, made.Denied, made.ShadowDenied = boundsOf(counts[3*i], fresh), boundsOf(counts[3*i+1], fresh), boundsOf(counts[3*i+2], fresh)
	}
	return answer, nil
}

func (s *Server) limitKeys(ctx context.Context, q *limitKeysQuestion) (limitKeysAnswer, error) {
	l, known := s.policies.Limit(q.Name)
	if !known {
		return limitKeysAnswer{}, s.unknownLimit(q.Name)
	}
	ask := s.answers.LimitKeys
	if l.Where() != weir.WhereShared {
		ask = held{s}.LimitKeys // each node knows all of it
	}
	uses, err := ask(ctx, l, q.N)
	if err != nil {
		return limitKeysAnswer{}, asProblem(err)
	}
	answer := limitKeysAnswer{q.Name, make([]LimitKey, len(uses))}
	for i, u := range uses {
		answer.Keys[i] = LimitKey{u.Key, u.Used, u.Limit.Burst, u.Remaining, u.Share(), milliseconds(u.Reset).Seconds()}
	}
	return answer, nil
}

// unknownLimit says which policies there are, in the words of package policy.
func (s *Server) unknownLimit(name string) error {
	err := s.policies.Peek([]policy.Request{{Key: "?", Limit: name}}, new(policy.Decision))
	var unknown *weir.Error
	if errors.As(err, &unknown) && unknown.Code == weir.CodeInvalidLimit {
		return newProblem(codeUnknownLimit, "name", unknown.Message)
	}
	return newProblem(codeUnknownLimit, "name", fmt.Sprintf("limit %q came into the policy file just now: ask again", clip(name)))
}
