package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/weir-counter/weir/internal/ratelimitfields"
)

// Middleware decides requests before their handlers see them. It is safe for many
// goroutines, and has none of its own.
type Middleware struct {
	cfg    Config
	counts counts
	warner warner
	pool   sync.Pool // of *work
}

// work is the memory of one request's decision.
type work struct {
	checks   []Check
	decision Decision
	fields   ratelimitfields.List
}

// New returns a Middleware, or an error that says which setting is at fault.
func New(c Config) (*Middleware, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	m := &Middleware{cfg: c}
	m.cfg.Rules = append([]Rule(nil), c.Rules...)
	if c.Denied == nil {
		m.cfg.Denied = AnswerDenied
	}
	if c.Refused == nil {
		m.cfg.Refused = AnswerRefused
	}
	if c.OnError == nil {
		m.cfg.OnError = m.warner.warn
	}
	m.pool.New = func() any { return new(work) }
	return m, nil
}

// Wrap returns next behind the limits. next gets the very ResponseWriter of the server:
// nothing that it can do is hidden.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.enter(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// enter decides the request, and answers it if it does not go on.
func (m *Middleware) enter(w http.ResponseWriter, r *http.Request) bool {
	if m.cfg.Skip != nil && m.cfg.Skip(r) {
		m.counts.skipped.Add(1)
		return true
	}
	k := m.pool.Get().(*work)
	defer m.release(k)
	if err := m.gather(k, r); err != nil {
		return m.refuse(w, r, err)
	}
	if len(k.checks) == 0 {
		m.counts.skipped.Add(1)
		return true
	}
	if err := m.cfg.Decider.Decide(r.Context(), k.checks, &k.decision); err != nil {
		return m.undecided(w, r, err)
	}
	if !m.cfg.HideFields {
		k.writeFields(w.Header())
	}
	if k.decision.Allowed {
		m.counts.allowed.Add(1)
		return true
	}
	m.counts.denied.Add(1)
	k.writeRetryAfter(w.Header())
	m.cfg.Denied(w, r, &k.decision)
	return false
}

// gather makes the checks of the request.
func (m *Middleware) gather(k *work, r *http.Request) error {
	for i := range m.cfg.Rules {
		rule := &m.cfg.Rules[i]
		n := uint64(1)
		if rule.Cost != nil {
			if n = rule.Cost(r); n == 0 {
				continue
			}
		}
		key, ok := rule.Key.of(r)
		switch {
		case ok:
			k.checks = append(k.checks, Check{Limit: rule.Limit, Key: bounded(rule.Prefix, key), N: n})
		case !rule.Optional:
			return fmt.Errorf("rule %d: %w", i+1, ErrNoKey)
		}
	}
	return nil
}

// undecided lets a request through that nobody decided, or refuses it.
func (m *Middleware) undecided(w http.ResponseWriter, r *http.Request, err error) bool {
	if gone := r.Context().Err(); gone != nil {
		// Not let through: who goes away at once would have no limit.
		m.counts.gone.Add(1)
		m.cfg.Refused(w, r, gone)
		return false
	}
	if m.cfg.Fail == FailOpen && errors.Is(err, ErrUnavailable) {
		m.cfg.OnError(r, err)
		m.counts.failedOpen.Add(1)
		return true
	}
	return m.refuse(w, r, err)
}

func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, err error) bool {
	m.cfg.OnError(r, err)
	if errors.Is(err, ErrMisconfigured) {
		m.counts.misconfigured.Add(1)
	} else {
		m.counts.refused.Add(1)
	}
	m.cfg.Refused(w, r, err)
	return false
}

// release gives the memory back without what it knows of the request.
func (m *Middleware) release(k *work) {
	clear(k.checks)
	k.checks = k.checks[:0]
	k.decision.reset()
	k.fields.Reset()
	m.pool.Put(k)
}
