package reads

import (
	"context"
	"fmt"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/parse"
	"github.com/weir-counter/weir/service/sources"
)

// DefaultWindow is that of a question that names none.
const DefaultWindow = 5 * time.Minute

// CountQuery asks for every key in every window, all at one time.
type CountQuery struct {
	Keys    []string
	Windows []time.Duration // whole seconds; none is DefaultWindow
	At      time.Time       // the end of the windows; zero is Now
	Fresh   time.Duration   // how long to wait for the newest hits of other nodes, and regions; 0: not
	Scope   parse.Scope
	// ByRegion asks for the part of each region beside the sum, of scope global.
	ByRegion bool
}

// Count answers for each key each window.
func (s *Service) Count(ctx context.Context, c caller.Caller, q CountQuery) ([]api.CountAnswer, error) {
	into := Counting{Answers: []api.CountAnswer{}}
	if err := s.CountInto(ctx, c, &q, &into); err != nil {
		return nil, err
	}
	return into.Answers, nil
}

// Counting is the memory of questions: CountInto uses it again and allocates nothing then, where this node answers
// alone. The zero Counting is ready for use.
type Counting struct {
	Answers []api.CountAnswer // of the last call

	questions []sources.CountQuestion
	counts    []weir.Count
}

// Room is for how many answers there is memory: who keeps a Counting bounds it.
func (c *Counting) Room() int { return max(cap(c.Answers), cap(c.questions)) }

// CountInto is Count whose answers are in into until its next call. Keys of q may change after it.
func (s *Service) CountInto(ctx context.Context, c caller.Caller, q *CountQuery, into *Counting) error {
	into.Answers, into.questions = into.Answers[:0], into.questions[:0]
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return err
	}
	windows := q.Windows
	if len(windows) == 0 {
		windows = []time.Duration{DefaultWindow}
	}
	if n := len(q.Keys) * len(windows); n > s.parts.MaxAnswers {
		return &failure.Error{Code: api.CodeTooManyAnswers,
			Message: fmt.Sprintf("%d keys times %d windows are %d answers: ask for at most %d at once", len(q.Keys), len(windows), n, s.parts.MaxAnswers)}
	}
	for _, key := range q.Keys {
		if err := parse.Named(key); err != nil {
			return err
		}
		if err := may.CheckKey(key); err != nil {
			return err
		}
	}
	began := time.Now()
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return err
	}
	var all *sources.Worldwide
	if q.ByRegion {
		var is bool
		if all, is = asked.Answers.(*sources.Worldwide); !is {
			return &failure.Error{Code: api.CodeInvalidParameter, Field: "by", Message: "by=region shows the parts of a global count: ask a server that counts for a region (--region), and no other scope"}
		}
		all.Keep = true
	}
	at := asked.At(q.At)
	for _, key := range q.Keys {
		for _, w := range windows {
			into.questions = append(into.questions, sources.CountQuestion{Key: key, At: at, Window: w})
		}
	}
	var of sources.Fresh
	if into.counts, of, err = asked.Answers.Counts(ctx, into.questions, into.counts[:0]); err != nil {
		return failure.As(err)
	}
	var fresh api.Freshness
	for i := range into.counts {
		question := &into.questions[i]
		if of = asked.AboutKey(of, question.Key); i == 0 || of.Untold != nil || fresh.Untold != nil {
			fresh = of.Answer()
		}
		into.Answers = append(into.Answers, api.CountAnswer{
			Key: question.Key, WindowSeconds: int64(question.Window / time.Second), At: api.Time{Time: at},
			Bounds: sources.Bounds(&into.counts[i], &of), Freshness: fresh,
		})
		if all != nil {
			into.Answers[i].Regions = all.RegionCounts(i)
		}
	}
	if s.ofHistory(q) {
		var within time.Duration
		if q.Fresh != 0 { // what is left of it, and never none
			within = max(min(q.Fresh, parse.LongestFresh)-time.Since(began), 1)
		}
		s.answerFromHistory(ctx, into, of, within)
	}
	return nil
}

// Rate is Count with the mean rates over the windows.
func (s *Service) Rate(ctx context.Context, c caller.Caller, q CountQuery) ([]api.RateAnswer, error) {
	answers, err := s.Count(ctx, c, q)
	rates := make([]api.RateAnswer, len(answers))
	for i, a := range answers {
		rates[i] = api.RateAnswer{CountAnswer: a, PerSecond: a.Per(a.WindowSeconds)}
	}
	return rates, err
}
