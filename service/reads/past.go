package reads

import (
	"context"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/parse"
	"github.com/weir-counter/weir/service/sources"
)

// pastEdge is what the edges of a window are multiples of for history to be asked: the narrowest
// slots that it may have.
const pastEdge = 15 * time.Minute

// ofHistory tells whether history may know the windows of a question: those of this region that end
// with a second that was named. A window of now moves, and has its edges on an hour by chance only.
func (s *Service) ofHistory(q *CountQuery) bool {
	return s.parts.History != nil && !q.At.IsZero() && q.At.Nanosecond() == 0 && (q.At.Unix()+1)%int64(pastEdge/time.Second) == 0 &&
		(q.Scope == parse.Region || q.Scope == "" && s.parts.Regions == nil)
}

// answerFromHistory answers from history where that knows more of a window than the answer from the
// windows, which stays where history can't be asked, or is not past the window's end. fresh is that of
// the answers; within, if not 0, is for how long to wait for all hits before the question.
func (s *Service) answerFromHistory(ctx context.Context, into *Counting, fresh sources.Fresh, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, backend.HistoryTimeout)
	defer cancel()
	awaited := false
	for i := range into.Answers {
		q, a := &into.questions[i], &into.Answers[i]
		if a.Exact || q.Window%pastEdge != 0 {
			continue
		}
		if within != 0 && !awaited {
			if awaited = s.awaitHistory(ctx, within); !awaited {
				return
			}
		}
		end := q.At.Unix() + 1
		totals, asOf, err := s.parts.History.Totals(ctx, q.Key, []int64{end - int64(q.Window/time.Second), end})
		if err != nil {
			s.parts.Log.WarnContext(ctx, "history could not answer; the windows do", "error", err)
			return
		}
		if asOf.Unix() < end || !closer(totals[0], a) {
			continue
		}
		if awaited && fresh.AsOf.After(asOf) {
			asOf = fresh.AsOf
		}
		c, t := &into.counts[i], totals[0]
		*c = weir.Count{Lower: t.Lower, Estimate: t.Lower + (t.Upper-t.Lower)/2, Upper: t.Upper}
		of := sources.Fresh{AsOf: asOf}
		a.Bounds, a.Freshness, a.Source = sources.Bounds(c, &of), of.Answer(), "history"
	}
}

func (s *Service) awaitHistory(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return s.parts.History.Await(ctx) == nil
}

// closer tells whether the bounds of history are closer than those of an answer. Bounds that exclude
// each other say that history does not have what came since, a late hit or a deletion.
func closer(t backend.HistoryTotal, a *api.CountAnswer) bool {
	switch {
	case !t.Bounded || t.Upper < a.Lower:
		return false
	case a.Upper == nil:
		return true
	}
	return t.Lower <= *a.Upper && t.Upper-t.Lower < *a.Upper-a.Lower
}
