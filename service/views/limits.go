package views

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

const (
	maxPolicies = 100 // of one view
	fullest     = 15  // keys of the policy that is looked at
	// deniedWithin is when its most denied keys were denied.
	deniedWithin = 5 * time.Minute
)

// LimitsQuery asks for the view of the policies.
type LimitsQuery struct {
	Window time.Duration // whole seconds
	Name   string        // the policy whose keys are listed; "": none
}

// Limits is the policies with their decisions over time, and the keys that have used most of one.
func Limits(ctx context.Context, s *service.Service, c service.Caller, q LimitsQuery) (api.LimitsView, error) {
	list, err := s.Limits(ctx, c, q.Window)
	if err != nil {
		return api.LimitsView{}, err
	}
	answer := api.LimitsView{LimitsAnswer: list, Lines: []api.LimitLines{}, Of: q.Name, Keys: []api.LimitKey{}, Freshness: s.Freshness()}
	if len(list.Limits) > maxPolicies {
		answer.More = len(list.Limits) - maxPolicies
		answer.Limits = list.Limits[:maxPolicies]
	}
	divided := partsOf(list.At.Time, q.Window)
	var questions []service.DecisionQuestion
	for _, p := range answer.Limits {
		for _, outcome := range []string{"allowed", "denied", "shadow_denied"} {
			for _, q := range divided.append(nil, "", 0) {
				questions = append(questions, service.DecisionQuestion{Policy: p.Name, Outcome: outcome, At: q.At, Window: q.Window})
			}
		}
	}
	if len(questions) > 0 {
		bounds, fresh, err := s.BatchDecisions(ctx, c, questions)
		if err != nil {
			return answer, err
		}
		answer.Freshness = fresh
		for _, p := range answer.Limits {
			answer.Lines = append(answer.Lines, api.LimitLines{Name: p.Name, Allowed: divided.line(&bounds), Denied: divided.line(&bounds), ShadowDenied: divided.line(&bounds)})
		}
	}
	if q.Name != "" {
		keys, err := s.LimitKeys(ctx, c, q.Name, fullest)
		if err != nil {
			return answer, err
		}
		answer.Keys = keys.Keys
		who, err := s.Who(c, service.WhoQuery{Window: deniedWithin, N: fullest, Limit: q.Name})
		if err != nil {
			return answer, err
		}
		answer.Denied = who.Keys
		answer.MayChange = s.MayChangeLimit(c, q.Name)
	}
	return answer, nil
}
