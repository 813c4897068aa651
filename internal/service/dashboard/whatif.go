package dashboard

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/limit"
)

const (
	// mostDecided bounds the keys of a policy that are decided: each has some 1,500 questions.
	mostDecided = 24
	// mostLooked bounds the keys that are looked at for them: those with most hits that begin as the policy's do.
	mostLooked = 200
	// MaxWhatIf is the longest window.
	MaxWhatIf = 24 * time.Hour
)

// WhatIfQuery asks what a limit of N per Per would have denied: of one key, or of all that a policy is for.
type WhatIfQuery struct {
	Key, Policy string // one of them
	N           uint64
	Per         time.Duration // at least a second: hits are not known by less
	Window      time.Duration // whole seconds, MaxWhatIf at most
}

// WhatIfView decides the hits of a window as package internal/replay/shadow decides a log, as far as counters know when they were.
func WhatIfView(ctx context.Context, s *service.Service, c access.Caller, q WhatIfQuery) (api.WhatIfView, error) {
	end := s.Now()
	answer := api.WhatIfView{Key: q.Key, Policy: q.Policy, Limit: q.N, PerSeconds: q.Per.Seconds(), WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: end}, Source: "windows"}
	plan, err := limit.New(limit.Limit{N: q.N, Per: q.Per})
	if err != nil {
		return answer, &api.Error{Code: api.CodeInvalidLimit, Field: "limit", Message: err.Error()}
	}
	keys, counted := []string{q.Key}, []string{q.Key}
	if q.Policy != "" {
		if keys, counted, answer.More, err = q.busiest(ctx, s, c); err != nil {
			return answer, err
		}
	}
	divided := partsOf(end, q.Window)
	stretches := stretchesOf(divided)
	answer.Coarsest = stretches[0].To - stretches[0].From
	var questions []api.CountQuestion
	for _, key := range keys {
		for _, p := range stretches {
			questions = append(questions, api.CountQuestion{Key: key, At: time.Unix(p.To, 0), Window: time.Duration(p.To-p.From) * time.Second})
		}
	}
	bounds, fresh, err := s.Batch(ctx, c, questions)
	if err != nil {
		return answer, err
	}
	answer.Freshness = fresh
	decide(&answer, plan, divided, together(stretches, counted, bounds))
	return answer, nil
}

// busiest are the keys with most hits that the policy is for, and the key under which each counts.
func (q WhatIfQuery) busiest(ctx context.Context, s *service.Service, c access.Caller) (keys, counted []string, more bool, err error) {
	prefix, of, err := s.KeysOf(c, q.Policy)
	if err != nil {
		return nil, nil, false, err
	}
	top, err := s.Top(ctx, c, queries.TopQuery{Window: q.Window, N: mostLooked, Prefix: prefix})
	for _, k := range top.Keys {
		as, is := of(k.Key)
		switch {
		case is && len(keys) == mostDecided:
			return keys, counted, true, err
		case is:
			keys, counted = append(keys, k.Key), append(counted, as)
		}
	}
	return keys, counted, len(top.Keys) == mostLooked, err
}

// stretchesOf divides a window as finely as counters know it: the newest 500 s by the second, what is older by slots
// twice as long each time its age doubles, about. They begin and end where slots do.
func stretchesOf(of parts) (list []admit.WhatIfPart) {
	for at := of.from; at < of.to; {
		width := int64(1)
		for known := int64(500); of.to-at > known; known += 128 * width {
			width *= 2
		}
		to := min(at+width, of.to)
		list = append(list, admit.WhatIfPart{From: at, To: to})
		at = to
	}
	return list
}

// known is the hits that count under one key.
type known struct {
	parts     []admit.WhatIfPart
	unbounded bool // no upper bound is known
}

// together adds up the answers of keys that count under one.
func together(stretches []admit.WhatIfPart, counted []string, bounds []api.Bounds) map[string]*known {
	all := map[string]*known{}
	for _, key := range counted {
		of := all[key]
		if of == nil {
			of = &known{parts: append([]admit.WhatIfPart(nil), stretches...)}
			all[key] = of
		}
		for i, b := range take(&bounds, len(stretches)) {
			p := &of.parts[i]
			p.Lower, p.Estimate = p.Lower+b.Lower, p.Estimate+b.Estimate
			if b.Upper == nil {
				of.unbounded = true
				p.Upper += b.Estimate
			} else {
				p.Upper += *b.Upper
			}
		}
	}
	return all
}

// decide puts what a limit would have denied of all keys into the answer.
func decide(answer *api.WhatIfView, plan *limit.Plan, divided parts, all map[string]*known) {
	hits, stopped := make([]uint64, divided.len()), make([]uint64, divided.len())
	var came, denied admit.WhatIfDenied
	bounded := true
	for _, of := range all {
		bounded = bounded && !of.unbounded
		d := admit.WhatIf(plan, of.parts)
		denied.Lower, denied.Estimate, denied.Upper = denied.Lower+d.Lower, denied.Estimate+d.Estimate, denied.Upper+d.Upper
		for i, p := range of.parts {
			at := (p.From - divided.from) / divided.step
			hits[at] += p.Estimate
			stopped[at] += d.Of[i]
			came.Lower, came.Estimate, came.Upper = came.Lower+p.Lower, came.Estimate+p.Estimate, came.Upper+p.Upper
		}
		answer.Peak = max(answer.Peak, admit.PeakRequests(plan.Limit().Interval(), of.parts))
	}
	answer.Keys = len(all)
	answer.Hits, answer.Denied = boundsOf(came, bounded), boundsOf(denied, bounded)
	answer.Line = api.Line{From: at(divided.from), StepSeconds: divided.step, To: at(divided.to), Estimate: hits}
	answer.DeniedLine = stopped
}

func boundsOf(d admit.WhatIfDenied, bounded bool) api.Bounds {
	b := api.Bounds{Lower: d.Lower, Estimate: d.Estimate}
	if bounded {
		b.Upper, b.Exact = &d.Upper, d.Lower == d.Upper
	}
	return b
}
