package sources

import (
	"context"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/backend"
)

// Answers is who answers questions about keys: the engine, or, where nodes hold a
// share of the keys each, what asks the others too. Like a Journal it is adapted by
// whoever wires the two. Errors are *weir.Error, or that of ctx; answers are whole
// and are not changed.
type Answers interface {
	// Counts appends to counts an answer for each question. Keys of questions are the caller's, who may change
	// them after it: what keeps them longer copies them.
	Counts(ctx context.Context, questions []CountQuestion, counts []weir.Count) ([]weir.Count, Fresh, error)
	Series(ctx context.Context, key string, from, to time.Time, step time.Duration) ([]weir.Point, Fresh, error)
	Top(ctx context.Context, at time.Time, w time.Duration, n int, prefix string) ([]weir.KeyCount, Fresh, error)
	Keys(ctx context.Context, prefix, after string, limit int) ([]string, Fresh, error)
	Delete(ctx context.Context, key string) (bool, error)

	// After is for questions whose answers must have all up to a message of the journal
	// (Cluster.Fresh), which this node has. Where nobody who is asked has it in time, the
	// error is api.CodeNotFresh.
	After(upTo uint64) Answers

	// LimitKeys is weir.KeyedLimit.Keys of a shared limit.
	LimitKeys(ctx context.Context, l *weir.KeyedLimit, n int) ([]weir.KeyUse, error)
}

// CountQuestion asks how many hits a key has in (At-Window, At].
type CountQuestion struct {
	Key    string
	At     time.Time
	Window time.Duration
}

// Fresh says how much of the newest hits is in an answer.
type Fresh struct {
	AsOf time.Time // all hits that any node took until then
	Late []backend.LateNode

	Untold []string // regions that do not tell the keys that were asked for
}

// Answer is f for an answer.
func (f Fresh) Answer() api.Freshness {
	a := api.Freshness{AsOf: api.Millis(f.AsOf), Untold: f.Untold}
	for _, n := range f.Late {
		a.Late = append(a.Late, api.Late{Node: n.Name, Since: api.Millis(n.Since)})
	}
	return a
}

// held answers from the engine, which holds all keys.
type held struct{ s *Sources }

func (h held) Counts(_ context.Context, questions []CountQuestion, counts []weir.Count) ([]weir.Count, Fresh, error) {
	fresh := h.s.peers.fresh()
	for i := range questions {
		q := &questions[i]
		c, err := h.s.engine.CountAt(q.At, q.Key, q.Window)
		if err != nil {
			return counts, Fresh{}, err
		}
		counts = append(counts, c)
	}
	return counts, fresh, nil
}

func (h held) Series(_ context.Context, key string, from, to time.Time, step time.Duration) ([]weir.Point, Fresh, error) {
	fresh := h.s.peers.fresh()
	points, err := h.s.engine.Series(key, from, to, step)
	return points, fresh, err
}

func (h held) Top(_ context.Context, at time.Time, w time.Duration, n int, prefix string) ([]weir.KeyCount, Fresh, error) {
	fresh := h.s.peers.fresh()
	keys, err := h.s.engine.Top(at, w, n, prefix)
	return keys, fresh, err
}

func (h held) Keys(_ context.Context, prefix, after string, limit int) ([]string, Fresh, error) {
	fresh := h.s.peers.fresh()
	keys, err := h.s.engine.Keys(prefix, after, limit)
	return keys, fresh, err
}

// After is h itself: this node has applied all that is asked for.
func (h held) After(uint64) Answers { return h }

func (h held) Delete(_ context.Context, key string) (bool, error) { return h.s.engine.Delete(key) }

func (h held) LimitKeys(_ context.Context, l *weir.KeyedLimit, n int) ([]weir.KeyUse, error) {
	return l.Keys(n), nil
}

// Bounds are of what is known: how many hits of a node that is late are missing,
// nobody knows.
//
// The upper one is that of c, which must stay as it is.
func Bounds(c *weir.Count, fresh *Fresh) api.Bounds {
	b := api.Bounds{Lower: c.Lower, Estimate: c.Estimate}
	if len(fresh.Late) == 0 && len(fresh.Untold) == 0 && c.HasUpper() {
		b.Upper, b.Exact = &c.Upper, c.Exact()
	}
	return b
}
