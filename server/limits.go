package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy"
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

func (s *Server) registerLimits(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "list-limits", Method: http.MethodGet, Path: "/v1/limits",
		Summary:     "List the policies, and how they decided",
		Description: "In order of application, with the decisions of a window.",
	}, []api.Code{api.CodeInvalidWindow, api.CodeUnknownParameter, api.CodeNotHeld, api.CodeClosed}, func(ctx context.Context, q *limitsQuestion) (*limitsOutput, error) {
		answer, err := s.limits(ctx, q)
		return &limitsOutput{answer}, err
	})
	ask(s, doc, huma.Operation{
		OperationID: "limit-keys", Method: http.MethodGet, Path: "/v1/limits/{name}/keys",
		Summary:     "List the keys that have used most of a limit",
		Description: "Keys that have used nothing are not listed. Of a limit that is decided for each node alone, they are this node's. It looks at every key with a limit in use: a question for people, not for each request.",
	}, []api.Code{api.CodeUnknownLimit, api.CodeUnknownParameter, api.CodeNotHeld, api.CodeOverloaded, api.CodeClosed}, func(ctx context.Context, q *limitKeysQuestion) (*limitKeysOutput, error) {
		answer, err := s.limitKeys(ctx, q)
		return &limitKeysOutput{answer}, err
	})
}

func (s *Server) limits(ctx context.Context, q *limitsQuestion) (api.LimitsAnswer, error) {
	w, err := windowParam("window", q.Window)
	if err != nil {
		return api.LimitsAnswer{}, err
	}
	policies := s.policies.Set().Policies()
	answer := api.LimitsAnswer{
		WindowSeconds: int64(w / time.Second), At: api.Time{Time: s.now()},
		File: s.cfg.PolicyFile.state(), Limits: make([]api.LimitPolicy, len(policies)),
	}
	questions := make([]CountQuestion, 0, 3*len(policies))
	for i, p := range policies {
		made := api.LimitPolicy{
			Name: p.Name, Keys: p.Keys, By: p.By,
			Limit: p.Limit.N, PerSeconds: p.Limit.Per.Seconds(), Burst: p.Limit.Burst, Algorithm: p.Limit.Algorithm.String(),
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
		return api.LimitsAnswer{}, asProblem(err)
	}
	for i := range answer.Limits {
		made := &answer.Limits[i]
		made.Allowed, made.Denied, made.ShadowDenied = boundsOf(counts[3*i], fresh), boundsOf(counts[3*i+1], fresh), boundsOf(counts[3*i+2], fresh)
	}
	return answer, nil
}

func (s *Server) limitKeys(ctx context.Context, q *limitKeysQuestion) (api.LimitKeysAnswer, error) {
	l, known := s.policies.Limit(q.Name)
	if !known {
		return api.LimitKeysAnswer{}, s.unknownLimit(q.Name)
	}
	ask := s.answers.LimitKeys
	if l.Where() != weir.WhereShared {
		ask = held{s}.LimitKeys // each node knows all of it
	}
	uses, err := ask(ctx, l, q.N)
	if err != nil {
		return api.LimitKeysAnswer{}, asProblem(err)
	}
	answer := api.LimitKeysAnswer{Name: q.Name, Keys: make([]api.LimitKey, len(uses))}
	for i, u := range uses {
		answer.Keys[i] = api.LimitKey{
			Key: u.Key, Used: u.Used, Burst: u.Limit.Burst, Remaining: u.Remaining,
			Share: u.Share(), ResetSeconds: milliseconds(u.Reset).Seconds(),
		}
	}
	return answer, nil
}

// unknownLimit says which policies there are, in the words of package policy.
func (s *Server) unknownLimit(name string) error {
	err := s.policies.Peek([]policy.Request{{Key: "?", Limit: name}}, new(policy.Decision))
	var unknown *weir.Error
	if errors.As(err, &unknown) && unknown.Code == weir.CodeInvalidLimit {
		return newProblem(api.CodeUnknownLimit, "name", unknown.Message)
	}
	return newProblem(api.CodeUnknownLimit, "name", fmt.Sprintf("limit %q came into the policy file just now: ask again", clip(name)))
}
