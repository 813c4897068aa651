// Package reads is the questions about keys: counts, rates, series, the busiest keys, names, and history as a file. Each
// checks what the caller may read before anything is looked up, and asks package sources.
package queries

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// DefaultWindow is the window of a question that names none.
const DefaultWindow = 5 * time.Minute

// CountQuery asks for every key in every window, all at one time.
type CountQuery struct {
	Keys    []string
	Windows []time.Duration // whole seconds; none is DefaultWindow
	At      time.Time       // the end of the windows; zero is Now
	Fresh   time.Duration   // how long to wait for the newest hits of other nodes, and regions; 0: not
	Scope   request.Scope
	// ByRegion asks for the part of each region in addition to the sum, in scope global.
	ByRegion bool
	// Distinct asks for the number of different ids too, of this region.
	Distinct bool
}

// Count answers for each key each window.
func (s *Service) Count(ctx context.Context, c access.Caller, q CountQuery) ([]api.CountAnswer, error) {
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

	questions []api.CountQuestion
	counts    []engine.Count
}

// Cap returns for how many answers there is memory. A caller that keeps a Counting must bound it.
func (c *Counting) Cap() int { return max(cap(c.Answers), cap(c.questions)) }

// CountInto is Count whose answers are in into until its next call. Keys of q may change after it.
func (s *Service) CountInto(ctx context.Context, c access.Caller, q *CountQuery, into *Counting) error {
	into.Answers, into.questions = into.Answers[:0], into.questions[:0]
	if _, err := s.parts.Gate.EnterKeys(c, auth.Read, q.Keys...); err != nil {
		return err
	}
	windows := q.Windows
	if len(windows) == 0 {
		windows = []time.Duration{DefaultWindow}
	}
	if n := len(q.Keys) * len(windows); n > s.parts.MaxAnswers {
		return &api.Error{Code: api.CodeTooManyAnswers,
			Message: fmt.Sprintf("%d keys times %d windows are %d answers: ask for at most %d at once", len(q.Keys), len(windows), n, s.parts.MaxAnswers)}
	}
	began := time.Now()
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return err
	}
	var all *Worldwide
	if q.ByRegion {
		var is bool
		if all, is = asked.Answers.(*Worldwide); !is {
			return &api.Error{Code: api.CodeInvalidParameter, Field: "by", Message: "by=region shows the parts of a global count: ask a server that counts for a region (--region), and no other scope"}
		}
		all.Keep = true
	}
	at, err := asked.At("at", q.At)
	if err != nil {
		return err
	}
	for _, key := range q.Keys {
		for _, w := range windows {
			into.questions = append(into.questions, api.CountQuestion{Key: key, At: at, Window: w})
		}
	}
	var of api.Freshness
	if into.counts, of, err = asked.counts(ctx, into.questions, into.counts[:0]); err != nil {
		return err
	}
	var fresh api.Freshness
	for i := range into.counts {
		question := &into.questions[i]
		if of = asked.AboutKey(of, question.Key); i == 0 || of.Untold != nil || fresh.Untold != nil {
			fresh = of
		}
		into.Answers = append(into.Answers, api.CountAnswer{
			Key: question.Key, WindowSeconds: int64(question.Window / time.Second), At: api.Time{Time: at},
			Bounds: SourceBounds(&into.counts[i], &of), Freshness: fresh,
		})
		if all != nil {
			into.Answers[i].Regions = all.RegionCounts(i)
		}
	}
	if q.Distinct {
		if err := s.addDistinct(ctx, &asked, q, into); err != nil {
			return err
		}
	}
	if s.ofHistory(q) {
		var within time.Duration
		if q.Fresh != 0 { // what is left of it, and never none
			within = max(min(q.Fresh, request.LongestFresh)-time.Since(began), 1)
		}
		s.answerFromHistory(ctx, into, of, within)
	}
	return nil
}

// Rate is Count with the mean rates over the windows.
func (s *Service) Rate(ctx context.Context, c access.Caller, q CountQuery) ([]api.RateAnswer, error) {
	answers, err := s.Count(ctx, c, q)
	rates := make([]api.RateAnswer, len(answers))
	for i, a := range answers {
		rates[i] = api.RateAnswer{CountAnswer: a, PerSecond: a.Per(a.WindowSeconds)}
	}
	return rates, err
}

// Parts are what a Service works with. Gate, Sources, Pools and Log must be given.
type Parts struct {
	Gate    *access.Gate
	Sources *Sources
	Pools   *access.Pools
	History History // nil: there are windows only
	Regions Regions // nil: the server counts for none
	Log     *slog.Logger

	MaxAnswers int // of one question
}

// Service answers questions about keys.
type Service struct{ parts Parts }

// New is a Service of parts.
func New(p Parts) *Service { return &Service{p} }

// BusiestKeys is the n keys with most hits in a window among those that begin with one of prefixes, of which none is
// within another. It is for whoever MayReadFigures: callers are not asked for. O(keys) for each prefix.
func (s *Service) BusiestKeys(ctx context.Context, w time.Duration, n int, prefixes []string) ([]string, error) {
	top, _, err := topOf(ctx, &Asked{Answers: s.parts.Sources.Own()}, s.parts.Sources.Now(), TopQuery{Window: w, N: n}, prefixes)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(top))
	for i, k := range top {
		keys[i] = k.Key
	}
	return keys, nil
}

// KeyFigures counts keys in windows that end now: for each key, each window. It is for the same callers as BusiestKeys.
func (s *Service) KeyFigures(ctx context.Context, keys []string, windows []time.Duration) ([]api.Bounds, error) {
	now := s.parts.Sources.Now()
	questions := make([]api.CountQuestion, 0, len(keys)*len(windows))
	for _, key := range keys {
		for _, w := range windows {
			questions = append(questions, api.CountQuestion{Key: key, At: now, Window: w})
		}
	}
	bounds, _, err := s.parts.Sources.BoundsOf(ctx, questions)
	return bounds, err
}

// Batch answers many questions about keys, each with a time and window of its own, in their order. It
// is for listeners that put views together: one question of a client, and one of its requests.
func (s *Service) Batch(ctx context.Context, c access.Caller, questions []api.CountQuestion) ([]api.Bounds, api.Freshness, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return nil, api.Freshness{}, err
	}
	checked := ""
	for i := range questions {
		key := questions[i].Key
		if key == checked && i > 0 { // questions of one key stand together
			continue
		}
		if err := may.CheckNamed(key); err != nil {
			return nil, api.Freshness{}, err
		}
		checked = key
	}
	return s.parts.Sources.Batch(ctx, questions)
}
