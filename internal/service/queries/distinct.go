package queries

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/service/access"
)

// DistinctQuery asks how many different ids keys have together, in a window that ends now.
type DistinctQuery struct {
	Keys   []string
	Window time.Duration // whole seconds; 0: the retention
}

// Distinct answers it for this region.
func (s *Service) Distinct(ctx context.Context, c access.Caller, q DistinctQuery) (api.Distinct, error) {
	u, err := s.union(ctx, c, &q)
	if err != nil {
		return api.Distinct{}, err
	}
	return s.distinctAnswer(u, q.Window), nil
}

// Union returns the different ids of keys together, of this region.
func (s *Service) Union(ctx context.Context, c access.Caller, keys ...string) (*distinct.Set, error) {
	u, err := s.union(ctx, c, &DistinctQuery{Keys: keys})
	return u.set, err
}

// idUnion is the ids of some keys.
type idUnion struct {
	set   *distinct.Set // nil: there are none
	from  int64         // the second at which the window begins
	gone  uint64        // as of engine.Engine.Distinct
	fresh api.Freshness
}

func (s *Service) union(ctx context.Context, c access.Caller, q *DistinctQuery) (u idUnion, err error) {
	if _, err := s.parts.Gate.EnterKeys(c, auth.Read, q.Keys...); err != nil {
		return u, err
	}
	if q.Window == 0 {
		q.Window = s.parts.Sources.engine.Config().Retention
	}
	asked, err := s.parts.Sources.Await(ctx, 0)
	if err != nil {
		return u, err
	}
	for _, key := range q.Keys {
		more, err := asked.ids(ctx, api.CountQuestion{Key: key, At: asked.now(), Window: q.Window})
		if err != nil {
			return u, err
		}
		u.add(more)
	}
	return u, nil
}

// ids asks for the ids of one key.
func (a *Asked) ids(ctx context.Context, q api.CountQuestion) (u idUnion, err error) {
	u.from = q.At.Unix() - int64(q.Window/time.Second)
	u.set, u.gone, u.fresh, err = a.Answers.Distinct(ctx, a.upTo, q)
	return u, err
}

func (u *idUnion) add(more idUnion) {
	u.from, u.gone = more.from, u.gone+min(more.gone, ^uint64(0)-u.gone)
	if len(u.fresh.Late) == 0 {
		u.fresh = more.fresh
	}
	switch {
	case u.set == nil:
		u.set = more.set
	case more.set != nil:
		u.set.Merge(more.set)
	}
}

// distinctAnswer counts the ids. There is no upper bound where SourceBounds has none, nor in a window beyond the retention.
func (s *Service) distinctAnswer(u idUnion, window time.Duration) (d api.Distinct) {
	var c distinct.Count
	if u.set != nil {
		c = u.set.Count(u.from)
	}
	d.Lower, d.Estimate, d.Error = c.Lower, c.Estimate, c.Error
	if upper := c.Upper + u.gone; upper >= u.gone && len(u.fresh.Late) == 0 && window <= s.parts.Sources.engine.Config().Retention {
		d.Upper = &upper
	}
	if s.parts.Regions != nil {
		d.Region = s.parts.Regions.Region()
	}
	return d
}

// addDistinct adds the ids to counts of the same questions.
func (s *Service) addDistinct(ctx context.Context, asked *Asked, q *CountQuery, into *Counting) error {
	if !q.At.IsZero() {
		return &api.Error{Code: api.CodeInvalidParameter, Field: "at", Message: "distinct ids are known of windows that end now: leave out at, or distinct"}
	}
	for i := range into.questions {
		question := into.questions[i]
		u, err := asked.ids(ctx, question)
		if err != nil {
			return err
		}
		if u.set != nil || u.gone > 0 {
			d := s.distinctAnswer(u, question.Window)
			into.Answers[i].Distinct = &d
		}
	}
	return nil
}

func (h held) Distinct(_ context.Context, _ uint64, q api.CountQuestion) (*distinct.Set, uint64, api.Freshness, error) {
	fresh := h.s.peers.fresh()
	set, gone, err := h.s.engine.Distinct(q.At, q.Key, q.Window)
	return set, gone, fresh, err
}

// Distinct answers for this region alone: the others do not tell ids.
func (w *Worldwide) Distinct(ctx context.Context, upTo uint64, q api.CountQuestion) (*distinct.Set, uint64, api.Freshness, error) {
	return w.own.Distinct(ctx, upTo, q)
}
