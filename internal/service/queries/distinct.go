package queries

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// DistinctQuery asks how many different ids keys have together.
type DistinctQuery struct {
	Keys   []string
	Window time.Duration // whole seconds; 0: the retention
	At     time.Time     // the end of the window; zero: now
}

// Distinct answers it for this region.
func (s *Service) Distinct(ctx context.Context, c access.Caller, q DistinctQuery) (api.Distinct, error) {
	u, err := s.union(ctx, c, &q)
	if err != nil {
		return api.Distinct{}, err
	}
	return s.distinctAnswer(u, request.Region), nil
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
	to    int64         // its last second; 0: it ends now, and clocks may differ
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
	ctx, cancel := asked.boundIDs(ctx)
	defer cancel()
	at, err := asked.At("at", q.At)
	if err != nil {
		return u, err
	}
	for _, key := range q.Keys {
		more, err := asked.ids(ctx, api.CountQuestion{Key: key, At: at, Window: q.Window})
		if err != nil {
			return u, err
		}
		u.add(more)
	}
	u.ends(q.At)
	return u, nil
}

// idsLeast is how long other nodes have for the ids of all keys of a question without fresh. Keys are asked for one by
// one, because sets are long.
const idsLeast = 5 * time.Second

// boundIDs is ctx for the ids of all keys together.
func (a *Asked) boundIDs(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.upTo > 0 {
		return a.bound(ctx, answerLeast)
	}
	return a.bound(ctx, idsLeast)
}

// ids asks for the ids of one key; ctx is of boundIDs.
func (a *Asked) ids(ctx context.Context, q api.CountQuestion) (u idUnion, err error) {
	u.from = q.At.Unix() - int64(q.Window/time.Second)
	if u.set, u.gone, u.fresh, err = a.Answers.Distinct(ctx, a.upTo, q); errors.Is(err, context.DeadlineExceeded) {
		err = &api.Error{Code: api.CodeNotHeld, Field: "key", Message: "the nodes that hold the keys did not send all ids in time: retry, or query fewer keys"}
	}
	return u, err
}

// ends notes where the window ends that was asked for.
func (u *idUnion) ends(at time.Time) {
	if !at.IsZero() {
		u.to = at.Unix()
	}
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
func (s *Service) distinctAnswer(u idUnion, scope request.Scope) (d api.Distinct) {
	var c distinct.Count
	if u.set != nil {
		if c = u.set.Count(u.from); u.to != 0 {
			c = u.set.CountUntil(u.from, u.to)
		}
	}
	d.Lower, d.Estimate, d.Error = c.Lower, c.Estimate, c.Error
	if upper := c.Upper + u.gone; upper >= u.gone && len(u.fresh.Late) == 0 && s.parts.Sources.Now().Unix()-u.from <= int64(s.parts.Sources.engine.Config().Retention/time.Second) {
		d.Upper = &upper
	}
	if s.parts.Regions != nil && (scope == request.Region || scope == request.Node) {
		d.Region = s.parts.Regions.Region()
	}
	return d
}

// addDistinct adds the ids to counts of the same questions.
func (s *Service) addDistinct(ctx context.Context, asked *Asked, q *CountQuery, into *Counting) error {
	ctx, cancel := asked.boundIDs(ctx)
	defer cancel()
	for all := into.questions; len(all) > 0; {
		windows := 1 // of this key
		for windows < len(all) && all[windows].Key == all[0].Key {
			windows++
		}
		widest := slices.MaxFunc(all[:windows], func(a, b api.CountQuestion) int { return cmp.Compare(a.Window, b.Window) })
		u, err := asked.ids(ctx, widest)
		for _, question := range all[:windows] {
			own := u
			own.from = question.At.Unix() - int64(question.Window/time.Second)
			if err == nil && u.gone > 0 && question.Window < widest.Window { // fewer may be gone since then
				own, err = asked.ids(ctx, question)
			}
			if err != nil {
				return err
			}
			if own.set != nil || own.gone > 0 {
				own.ends(q.At)
				d := s.distinctAnswer(own, q.Scope)
				into.Answers[len(into.questions)-len(all)].Distinct = &d
			}
			all = all[1:]
		}
	}
	return nil
}

func (h held) Distinct(_ context.Context, _ uint64, q api.CountQuestion) (*distinct.Set, uint64, api.Freshness, error) {
	fresh := h.s.Freshness()
	set, gone, err := h.s.engine.Distinct(q.At, q.Key, q.Window)
	return set, gone, fresh, err
}
