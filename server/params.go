package server

import (
	"time"

	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/parse"
)

// windowParams reads the windows of a question.
func windowParams(values []string) ([]time.Duration, error) {
	windows := make([]time.Duration, len(values))
	for i, s := range values {
		w, err := service.ParseWindow("window", s)
		if err != nil {
			return nil, err
		}
		windows[i] = w
	}
	return windows, nil
}

// timeParam reads a time; empty is zero, which stands for now.
func timeParam(field, value string) (time.Time, error) {
	return service.ParseTime(field, unspace(value))
}

// agoParam is timeParam that also takes a duration before now, -365d.
func (s *Server) agoParam(field, value string) (time.Time, error) {
	return parse.Ago(field, unspace(value), s.service.Now())
}

// spansParam are the spans of align, and whose hits an answer about them has.
func (s *Server) spansParam(align, tz, from, to string, fresh FreshParam, scope ScopeParam) (q service.Spans, err error) {
	if q.Unit, q.Zone, err = parse.Align(align, tz); err != nil {
		return q, err
	}
	if q.To, err = s.agoParam("to", to); err != nil {
		return q, err
	}
	if q.From, err = s.agoParam("from", from); err != nil {
		return q, err
	}
	if q.Fresh, err = service.ParseFresh(fresh.Fresh); err != nil {
		return q, err
	}
	q.Scope, err = parse.ScopeOf(scope.Scope)
	return q, err
}

// unspace puts back the plus of a zone such as +02:00: in a query a raw plus
// means a space.
func unspace(s string) string {
	if i := len(s) - len(" 02:00"); i > 0 && s[i] == ' ' {
		return s[:i] + "+" + s[i+1:]
	}
	return s
}

// ScopeParam says whose hits the answer has. It is exported for huma, and embedded in questions.
type ScopeParam struct {
	Scope string `query:"scope" enum:"node,region,global" doc:"Whose hits are counted: those that this node holds, those of its region (a server, or a cluster), or those of all regions. Default global where the server counts for a region (--region), else region."`
}

// FreshParam is the question's wish for hits that other nodes have only just taken.
// It is exported for huma, and embedded in questions.
type FreshParam struct {
	Fresh string `query:"fresh" doc:"Answer only when all hits that any node took before this question are in, and wait at most so long for them: more than 0, at most 10s. 503 not_fresh, with the nodes that are missing, when they are not in by then. A server alone has all, always." example:"2s"`
}
