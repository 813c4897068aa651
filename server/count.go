package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

type countQuestion struct {
	Key    []string `query:"key,explode" required:"true" doc:"The key to count; may be repeated. * counts all hits but those of limit: keys." example:"[\"url:/home\"]"`
	Window []string `query:"window,explode" doc:"The window, whole seconds from 1s to 1000000000s; may be repeated. Default 5m." example:"[\"5m\"]"`
	At     string   `query:"at" doc:"The end of the window; default now. A whole second stands for all of that second; with a fraction the moment is meant, and the bounds leave room for the two seconds that the window cuts. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so."`
	FreshParam
}

type countOutput struct {
	Body api.OneOrCounts[api.CountAnswer]
}

type rateOutput struct {
	Body api.OneOrCounts[api.RateAnswer]
}

func (s *Server) registerCount(doc huma.API) {
	codes := []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeTooManyAnswers, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed}
	ask(s, doc, huma.Operation{
		OperationID: "count", Method: http.MethodGet, Path: "/v1/count",
		Summary:     "Count the hits of keys in windows",
		Description: "A key that was never hit counts 0. When `key` or `window` is repeated the answer is `{\"counts\":[...]}`, for each key each window, all at the same time.",
	}, codes, func(ctx context.Context, q *countQuestion) (*countOutput, error) {
		answers, err := s.counts(ctx, q)
		return &countOutput{answers}, err
	})
	ask(s, doc, huma.Operation{
		OperationID: "rate", Method: http.MethodGet, Path: "/v1/rate",
		Summary:     "Count the hits of keys in windows, and per second",
		Description: "The answer of `/v1/count` with `per_second`, the mean rate over the window, and its bounds.",
	}, codes, func(ctx context.Context, q *countQuestion) (*rateOutput, error) {
		answers, err := s.counts(ctx, q)
		rates := make(api.OneOrCounts[api.RateAnswer], len(answers))
		for i, a := range answers {
			rates[i] = api.RateAnswer{CountAnswer: a, PerSecond: a.Per(a.WindowSeconds)}
		}
		return &rateOutput{rates}, err
	})
}

// counts answers every key and window of q at one time.
func (s *Server) counts(ctx context.Context, q *countQuestion) ([]api.CountAnswer, error) {
	windows, err := windowParams(q.Window)
	if err != nil {
		return nil, err
	}
	if n := len(q.Key) * len(windows); n > s.cfg.MaxAnswers {
		return nil, newProblem(api.CodeTooManyAnswers, "",
			fmt.Sprintf("%d keys times %d windows are %d answers: ask for at most %d at once", len(q.Key), len(windows), n, s.cfg.MaxAnswers))
	}
	at, err := timeParam("at", q.At)
	if err != nil {
		return nil, err
	}
	for _, key := range q.Key {
		if err := keyParam(key); err != nil {
			return nil, err
		}
	}
	asked, err := s.await(ctx, q.FreshParam)
	if err != nil {
		return nil, err
	}
	at = asked.at(at)
	questions := make([]CountQuestion, 0, len(q.Key)*len(windows))
	for _, key := range q.Key {
		for _, w := range windows {
			questions = append(questions, CountQuestion{key, at, w})
		}
	}
	counts, of, err := asked.answers.Counts(ctx, questions)
	if err != nil {
		return nil, asProblem(err)
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
