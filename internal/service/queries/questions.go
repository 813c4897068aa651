// Package reads is the questions about keys: counts, rates, series, the busiest keys, names, and history as a file. Each
// checks what the caller may read before anything is looked up, and asks package sources.
package queries

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/calendar"
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
	// Distinct asks for the number of different ids too.
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
	return s.countInto(ctx, q, into)
}

// CountPublic is Count of a key that everybody may see, such as on a badge, in one window.
func (s *Service) CountPublic(ctx context.Context, key string, window time.Duration) (api.CountAnswer, error) {
	var into Counting
	if err := s.countInto(ctx, &CountQuery{Keys: []string{key}, Windows: []time.Duration{window}}, &into); err != nil {
		return api.CountAnswer{}, err
	}
	return into.Answers[0], nil
}

func (s *Service) countInto(ctx context.Context, q *CountQuery, into *Counting) error {
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
			return &api.Error{Code: api.CodeInvalidParameter, Field: "by", Message: "by=region needs a server with --region, and scope=global"}
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
	var found api.Freshness
	if into.counts, found, err = asked.counts(ctx, into.questions, into.counts[:0]); err != nil {
		return err
	}
	fresh := asked.Fresh(found)
	for i := range into.counts {
		question := &into.questions[i]
		into.Answers = append(into.Answers, api.CountAnswer{
			Key: question.Key, WindowSeconds: int64(question.Window / time.Second), At: api.Time{Time: at},
			Bounds: SourceBounds(&into.counts[i], &fresh), Freshness: fresh,
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
		if q.Fresh != 0 { // what is left of it, at least 1 ns: 0 would not wait
			within = max(min(q.Fresh, request.LongestFresh)-time.Since(began), 1)
		}
		s.answerFromHistory(ctx, into, found, within)
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

func New(p Parts) *Service { return &Service{p} }

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
		if key == checked && i > 0 { // the questions of a key follow each other
			continue
		}
		if err := may.CheckNamed(key); err != nil {
			return nil, api.Freshness{}, err
		}
		checked = key
	}
	return s.parts.Sources.Batch(ctx, questions)
}

// KeysQuery asks for the names of keys.
type KeysQuery struct {
	Prefix string        // only keys that begin with it
	After  string        // only keys that sort after it
	Limit  int           // 1 or more
	Fresh  time.Duration // as of a CountQuery
	Scope  request.Scope
}

// Keys lists keys: those that the caller may read, and no word of others. It asks for one key more
// than the page holds, to know whether there are more.
func (s *Service) Keys(ctx context.Context, c access.Caller, q KeysQuery) (api.KeysAnswer, error) {
	_, parts, err := s.parts.Gate.EnterPrefix(c, auth.Read, q.Prefix)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	keys, fresh, err := keysOf(ctx, &asked, q, parts)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	answer := api.KeysAnswer{Keys: keys, Freshness: asked.Fresh(fresh)}
	if len(keys) > q.Limit {
		answer.Keys = keys[:q.Limit]
		answer.Next = keys[q.Limit-1]
	}
	if answer.Keys == nil {
		answer.Keys = []string{}
	}
	return answer, nil
}

// keysOf is the first keys of several prefixes, which are sorted, and of which none is within
// another; one more than the page holds.
func keysOf(ctx context.Context, asked *Asked, q KeysQuery, prefixes []string) (all []string, fresh api.Freshness, err error) {
	for i, prefix := range prefixes {
		keys, partFresh, err := asked.Answers.Keys(ctx, asked.upTo, prefix, q.After, q.Limit+1-len(all))
		if err != nil {
			return nil, fresh, err
		}
		if i == 0 { // the others are no older
			fresh = partFresh
		}
		fresh.Late = lateInAny(fresh.Late, partFresh.Late)
		if all = append(all, keys...); len(all) > q.Limit {
			break
		}
	}
	return all, fresh, nil
}

// TopQuery asks for the keys with the most hits.
type TopQuery struct {
	Window time.Duration // whole seconds
	N      int
	Prefix string        // only keys that begin with it
	At     time.Time     // the end of the window; zero is Now
	Fresh  time.Duration // as of a CountQuery
	Scope  request.Scope
}

// Top lists keys, most hits first: those that the caller may read, and no word of others. O(keys)
// for each of its prefixes.
func (s *Service) Top(ctx context.Context, c access.Caller, q TopQuery) (api.TopAnswer, error) {
	_, parts, err := s.parts.Gate.EnterPrefix(c, auth.Read, q.Prefix)
	if err != nil {
		return api.TopAnswer{}, err
	}
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return api.TopAnswer{}, err
	}
	at, err := asked.At("at", q.At)
	if err != nil {
		return api.TopAnswer{}, err
	}
	keys, fresh, err := topOf(ctx, &asked, at, q, parts)
	if err != nil {
		return api.TopAnswer{}, err
	}
	fresh = asked.Fresh(fresh)
	answer := api.TopAnswer{
		WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: at}, Prefix: q.Prefix,
		Keys: make([]api.TopKey, len(keys)), Freshness: fresh,
	}
	for i, k := range keys {
		answer.Keys[i] = api.TopKey{Key: k.Key, Bounds: SourceBounds(&k.Count, &fresh)}
	}
	return answer, nil
}

// topOf merges the lists of several prefixes, of which none is within another.
func topOf(ctx context.Context, asked *Asked, at time.Time, q TopQuery, prefixes []string) (all []engine.KeyCount, fresh api.Freshness, err error) {
	for i, prefix := range prefixes {
		keys, partFresh, err := asked.Answers.Top(ctx, asked.upTo, at, q.Window, q.N, prefix)
		if err != nil {
			return nil, fresh, err
		}
		if i == 0 { // the others are no older
			fresh = partFresh
		}
		if len(prefixes) == 1 {
			return keys, fresh, nil
		}
		fresh.Late = lateInAny(fresh.Late, partFresh.Late)
		all = append(all, keys...)
	}
	slices.SortFunc(all, func(a, b engine.KeyCount) int {
		return cmp.Or(cmp.Compare(b.Estimate, a.Estimate), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(len(all), q.N)], fresh, nil
}

// lateInAny is who is late in one of two answers.
func lateInAny(a, b []api.Late) []api.Late {
	for _, late := range b {
		if !slices.ContainsFunc(a, func(has api.Late) bool { return has.Node == late.Node }) {
			a = append(slices.Clip(a), late)
		}
	}
	return a
}

// ExportQuery asks for history as a file.
type ExportQuery struct {
	Prefix   string        // only keys that begin with it
	From, To time.Time     // whole days of UTC; zero: the beginning; Now
	Unit     calendar.Unit // Day, or Hour: the slots of history

	// Missing, if not nil, is called before the first byte if hits of some times may be missing, with these times.
	Missing func(times string)
}

// Export writes what history has, row by row. A failure may come after a part was written: who
// reads that part must learn that it is not whole.
func (s *Service) Export(ctx context.Context, c access.Caller, q ExportQuery, to io.Writer) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "export", q.Prefix, err) }()
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return err
	}
	if s.parts.History == nil {
		return errNoHistory
	}
	if q.Unit != calendar.Day && q.Unit != calendar.Hour {
		return &api.Error{Code: api.CodeInvalidParameter, Field: "unit", Message: "unit must be day or hour"}
	}
	if q.To.IsZero() {
		q.To = s.parts.Sources.Now().Add(time.Second)
	}
	if q.From.IsZero() {
		q.From = time.Unix(0, 0)
	}
	if !q.From.Before(q.To) {
		return &api.Error{Code: api.CodeInvalidRange, Field: "from", Message: "from must be before to"}
	}
	err = s.parts.Pools.Export.Within(c, func() error { return s.export(ctx, q, to) })
	if ctx.Err() != nil {
		return err
	}
	return request.Explain(ctx, s.parts.Log, err, errHistoryFails,
		"an export failed", "who", c.String())
}

func (s *Service) export(ctx context.Context, q ExportQuery, to io.Writer) error {
	missing, err := s.parts.History.Missing(ctx, q.From, q.To)
	if err != nil {
		return err
	}
	if missing != "" && q.Missing != nil {
		q.Missing(missing)
	}
	w, err := calendar.NewExport(to)
	if err != nil {
		return err
	}
	if err := s.parts.History.Export(ctx, q.Prefix, q.From, q.To, q.Unit == calendar.Day, w.Write); err != nil {
		return err
	}
	return w.Close()
}
