package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

type forgetQuestion struct {
	Name string `query:"name" maxLength:"64" doc:"Of the limits of this name. Default: of all limits that requests brought along." example:"inline/window/1h"`
}

type forgetOutput struct{ Body api.ForgetAnswer }

const forgetDescription = `Each key has its whole burst again. Policies are not touched. The other nodes of a cluster forget too, when they follow the next flush;
what one of them admits before that may stay. Like a hit that is not durable, it may be lost in a crash within one flush interval.`

func (s *Server) registerForget(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "forget-inline-limits", Method: http.MethodDelete, Path: "/v1/limits/inline",
		Summary: "Forget what keys have used of limits that requests brought along", Description: forgetDescription,
	}, []api.Code{api.CodeInvalidLimit, api.CodeUnknownParameter}, func(_ context.Context, q *forgetQuestion) (*forgetOutput, error) {
		n, err := s.engine.ForgetInline(q.Name)
		if err != nil {
			return nil, asProblem(err)
		}
		s.log.Info("forgot what was used of inline limits", "name", q.Name, "states", n)
		return &forgetOutput{api.ForgetAnswer{Forgotten: n}}, nil
	})
}

// tooLong is the problem of a limit that a request brings along and that would be
// remembered for longer than Config.MaxInlinePer; nil: there is none.
func (s *Server) tooLong(requests []policy.Request) *problem {
	for i := range requests {
		l := requests[i].Inline
		if l == nil {
			continue
		}
		whole := *l
		if whole.Burst == 0 {
			whole.Burst = whole.N
		}
		interval := uint64(limit.Limit(whole).Interval()) // more than an int64 has, if a burst takes ages
		if most := s.cfg.MaxInlinePer; l.Per > most || interval > uint64(most) {
			return newProblem(api.CodeInvalidLimit, "limit", fmt.Sprintf("a limit that a request brings along is for %s at most, and so is per * burst / n: write a policy for a longer one, or start the server with a larger --max-inline-per",
				units.FormatDuration(most.Truncate(time.Millisecond))))
		}
	}
	return nil
}
