package service

import (
	"context"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
)

// DefaultWindow is that of a question that names none.
const DefaultWindow = 5 * time.Minute

// CountQuery asks for every key in every window, all at one time.
type CountQuery struct {
	Keys    []string
	Windows []time.Duration // whole seconds; none is DefaultWindow
	At      time.Time       // the end of the windows; zero is Now
	Fresh   time.Duration   // how long to wait for the newest hits of other nodes; 0: not
}

// Count answers for each key each window.
func (s *Service) Count(ctx context.Context, c Caller, q CountQuery) ([]api.CountAnswer, error) {
	may, err := s.enter(c, auth.Read)
	if err != nil {
		return nil, err
	}
	windows := q.Windows
	if len(windows) == 0 {
		windows = []time.Duration{DefaultWindow}
	}
	if n := len(q.Keys) * len(windows); n > s.cfg.MaxAnswers {
		return nil, &Error{Code: api.CodeTooManyAnswers,
			Message: fmt.Sprintf("%d keys times %d windows are %d answers: ask for at most %d at once", len(q.Keys), len(windows), n, s.cfg.MaxAnswers)}
	}
	for _, key := range q.Keys {
		if err := checkKey(key); err != nil {
			return nil, err
		}
		if err := may.checkKey(key); err != nil {
			return nil, err
		}
	}
	asked, err := s.await(ctx, q.Fresh)
	if err != nil {
		return nil, err
	}
	at := asked.at(q.At)
	questions := make([]CountQuestion, 0, len(q.Keys)*len(windows))
	for _, key := range q.Keys {
		for _, w := range windows {
			questions = append(questions, CountQuestion{key, at, w})
		}
	}
	counts, of, err := asked.answers.Counts(ctx, questions)
	if err != nil {
		return nil, AsError(err)
	}
	of = asked.fresh(of)
	answers, fresh := make([]api.CountAnswer, len(counts)), of.answer()
	for i, c := range counts {
		answers[i] = api.CountAnswer{
			Key: questions[i].Key, WindowSeconds: int64(questions[i].Window / time.Second), At: api.Time{Time: at},
			Bounds: boundsOf(c, of), Freshness: fresh,
		}
	}
	return answers, nil
}

// Rate is Count with the mean rates over the windows.
func (s *Service) Rate(ctx context.Context, c Caller, q CountQuery) ([]api.RateAnswer, error) {
	answers, err := s.Count(ctx, c, q)
	rates := make([]api.RateAnswer, len(answers))
	for i, a := range answers {
		rates[i] = api.RateAnswer{CountAnswer: a, PerSecond: a.Per(a.WindowSeconds)}
	}
	return rates, err
}

// checkKey refuses a key that an answer in JSON could not name; the engine
// checks the rest.
func checkKey(key string) error {
	if !utf8.ValidString(key) {
		return &Error{Code: api.CodeInvalidKey, Field: "key", Message: "key " + strconv.Quote(Clip(key)) + " is not UTF-8"}
	}
	return nil
}
