// Package middleware puts limits in front of the handlers of net/http.
//
//	perClient, err := engine.Limit("per-client", weir.Limit{N: 100, Per: time.Minute})
//	m, err := middleware.New(middleware.Config{
//		Decider: middleware.Limits(engine, perClient),
//		Rules:   []middleware.Rule{{Limit: "per-client", Key: middleware.ByAddress(middleware.AddressOptions{})}},
//	})
//	http.Handle("/", m.Wrap(handler))
//
// Each request is decided by all rules of the Middleware, all or none. If it is allowed, it goes on to the handler, and the
// answer has the fields RateLimit-Policy and RateLimit. If it is denied, the answer is 429 with Retry-After and a problem
// document (RFC 9457). For routes with other limits, use another Middleware, which may have the same Decider.
//
// The package compiles the engine and the standard library. Limits decides in this process; package middleware/policies
// by a file of policies in this process, and package middleware/remote by a Weir server.
package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/ratelimitfields"
)

// Middleware decides requests before their handlers see them. It is safe for many goroutines, and has none of its own.
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

// Wrap returns next behind the limits. next gets the very ResponseWriter of the server: nothing that it can do is hidden. If a
// policy counts some answers only, next gets one that notes the status; http.ResponseController reaches the server's.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch ok, outcome := m.enter(w, r); {
		case ok && outcome != nil:
			m.observe(w, r, next, outcome)
		case ok:
			next.ServeHTTP(w, r)
		}
	})
}

// enter decides the request, and answers it if it does not go on. outcome is Decision.Outcome.
func (m *Middleware) enter(w http.ResponseWriter, r *http.Request) (ok bool, outcome func(int, func(error))) {
	if m.cfg.Skip != nil && m.cfg.Skip(r) {
		m.counts.skipped.Add(1)
		return true, nil
	}
	k := m.pool.Get().(*work)
	defer m.release(k)
	if err := m.gather(k, r); err != nil {
		return m.refuse(w, r, err), nil
	}
	if len(k.checks) == 0 {
		m.counts.skipped.Add(1)
		return true, nil
	}
	if err := m.cfg.Decider.Decide(r.Context(), k.checks, &k.decision); err != nil {
		return m.undecided(w, r, err), nil
	}
	if !m.cfg.HideFields {
		k.writeFields(w.Header())
	}
	if k.decision.Allowed {
		m.counts.allowed.Add(1)
		return true, k.decision.Outcome
	}
	m.counts.denied.Add(1)
	k.writeRetryAfter(w.Header())
	m.cfg.Denied(w, r, &k.decision)
	return false, nil
}

func (m *Middleware) gather(k *work, r *http.Request) error {
	for i := range m.cfg.Rules {
		rule := &m.cfg.Rules[i]
		n := uint64(1)
		if rule.Cost != nil {
			if n = rule.Cost(r); n == 0 {
				continue
			}
		}
		key, ok := rule.Key.read(r)
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

// ErrNoKey is a request without the key of a rule that is not Optional.
var ErrNoKey = errors.New("the request has no key to be counted by")

// AnswerDenied answers with 429 and a problem document (RFC 9457), of the type that the
// RateLimit draft defines. It is the Denied of a Config without one.
func AnswerDenied(w http.ResponseWriter, _ *http.Request, d *Decision) {
	p := problem{
		Type:   "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:  "Too many requests",
		Status: http.StatusTooManyRequests,
		Detail: "The request takes more than its limit lets through at once: ask for less.",
	}
	if !d.Never {
		p.Detail = fmt.Sprintf("Try again in %s s.", ratelimitfields.RetryAfter(d.RetryAfter))
	}
	for i := range d.Results {
		if r := &d.Results[i]; !r.Allowed && !r.Shadow {
			p.Violated = append(p.Violated, r.Limit)
		}
	}
	p.write(w)
}

// AnswerRefused answers with 400 if err is ErrNoKey, else with 503, and a problem
// document. It is the Refused of a Config without one.
func AnswerRefused(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, ErrNoKey) {
		problem{Title: "Bad request", Status: http.StatusBadRequest, Detail: "The request lacks what its limit is counted by."}.write(w)
		return
	}
	// The error is for the operator, who has it by OnError.
	w.Header().Set("Retry-After", ratelimitfields.RetryAfter(time.Second))
	problem{Title: "Service unavailable", Status: http.StatusServiceUnavailable, Detail: "The limit of this request can't be checked now: try again later."}.write(w)
}

// problem is a problem document. Without a type it is about:blank.
type problem struct {
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and a number
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone needs no answer
}

// writeFields adds the limits to the lists of the header: another Middleware around this one has its own in there.
func (k *work) writeFields(h http.Header) {
	d := &k.decision
	k.fields.Reset()
	for i := range d.Results {
		if r := &d.Results[i]; !r.Shadow {
			k.fields.Add(ratelimitfields.Member{
				Name: r.Limit, Key: r.Key, Quota: r.Quota, Window: r.Window, Burst: r.Burst, Remaining: r.Remaining, Reset: r.Reset,
			})
		}
	}
	wait := d.RetryAfter
	if d.Never {
		wait = 0 // there is no Retry-After
	}
	k.fields.Write(h, wait)
}

// writeRetryAfter says when to come back, unless the request can never pass.
func (k *work) writeRetryAfter(h http.Header) {
	if !k.decision.Never {
		h.Set("Retry-After", ratelimitfields.RetryAfter(k.decision.RetryAfter))
	}
}

// Stats are what became of the requests since New. Each is in one of the numbers.
type Stats struct {
	Allowed       uint64 // decided, and went on
	Denied        uint64 // decided, and answered by Config.Denied
	Skipped       uint64 // went on without a limit: by Skip, a cost of 0, or no optional key
	FailedOpen    uint64 // not decided, and went on by FailOpen
	Refused       uint64 // not decided, and answered by Config.Refused
	Misconfigured uint64 // the same, because of ErrMisconfigured
	Gone          uint64 // the client went away, or a deadline of the request passed, before a decision
}

type counts struct {
	allowed, denied, skipped, failedOpen, refused, misconfigured, gone atomic.Uint64
}

// Stats returns what became of the requests.
func (m *Middleware) Stats() Stats {
	c := &m.counts
	return Stats{
		Allowed: c.allowed.Load(), Denied: c.denied.Load(), Skipped: c.skipped.Load(),
		FailedOpen: c.failedOpen.Load(), Refused: c.refused.Load(), Misconfigured: c.misconfigured.Load(), Gone: c.gone.Load(),
	}
}

// warnEvery is the pause between two warnings: a Weir that is unreachable must not fill a log.
const warnEvery = 10 * time.Second

// warner is the OnError of a limiter that was given none. It makes requests without limits visible.
type warner struct {
	last atomic.Pointer[time.Time]
	more atomic.Uint64 // errors since, that were not logged
}

func (w *warner) warn(r *http.Request, err error) {
	now, last := time.Now(), w.last.Load()
	if last != nil && now.Sub(*last) < warnEvery || !w.last.CompareAndSwap(last, &now) {
		w.more.Add(1)
		return
	}
	level, message := slog.LevelWarn, "weir: a request was not decided"
	if errors.Is(err, ErrMisconfigured) {
		level, message = slog.LevelError, "weir: requests are refused: a rule names a limit that the server does not have"
	}
	slog.Log(r.Context(), level, message, "error", err, "more_since_the_last_warning", w.more.Swap(0))
}

// Decider decides requests. Limits is the one in this process; packages
// middleware/policies and middleware/remote have others.
type Decider interface {
	// Decide takes all checks or none. d is empty, and the checks are only the caller's again when Decide returns.
	//
	// An error is a request that was not decided. If it wraps ErrUnavailable, Config.Fail applies. No request may cause that
	// by what it asks for. With any other error the request is refused.
	Decide(ctx context.Context, checks []Check, d *Decision) error

	// Knows returns an error if there is no limit of that name, and nil if the Decider does not know.
	Knows(limit string) error
}

// ErrUnavailable says that there is no decision: Weir can't be reached, or does not answer in time.
var ErrUnavailable = errors.New("no answer from Weir")

// ErrMisconfigured says that Weir answers and has no such limit: the name of a rule is mistyped, or the policy was removed
// from the server's file. Waiting does not help, so the request is refused, also by FailOpen. Otherwise a slip would
// silently lift the limit.
var ErrMisconfigured = errors.New("a limit that Weir does not know")

// Check is what a request takes from one limit.
type Check struct {
	Limit string // "" for a Decider with policies: all that Key fits
	Key   string
	N     uint64 // 1 or more
}

// Decision is the answer to the checks of a request.
type Decision struct {
	Allowed bool
	Never   bool     // denied, and will always be: more was asked for than a burst
	Results []Result // of each limit that was asked; none: no limit is for the request

	// RetryAfter is how long to wait until all that denied would allow it, if nothing else happens; 0 if Allowed.
	RetryAfter time.Duration

	// Outcome, if not nil, is called once with the status of the answer: the Decider counts the request by it. What a Decider does in the
	// background calls failed if it fails; the request then stays counted.
	Outcome func(status int, failed func(error))
}

// Result is the verdict of one limit by itself: Quota per Window.
type Result struct {
	Limit  string // its name
	Key    string // that was counted
	Quota  uint64
	Window time.Duration
	Burst  uint64 // at most so many in Window * Burst / Quota; 0: as many as Quota
	Shadow bool   // denies nothing; its fields are not in answers
	weir.Verdict
}

// Add adds the verdict of one limit. Deciders call it.
func (d *Decision) Add(r Result) {
	d.Results = append(d.Results, r)
	if !r.Allowed && !r.Shadow {
		d.Never = d.Never || r.Never
		d.RetryAfter = max(d.RetryAfter, r.RetryAfter)
	}
}

func (d *Decision) reset() {
	clear(d.Results) // let go of the keys
	*d = Decision{Results: d.Results[:0]}
}

// Limits decides by limits of an engine in this process.
func Limits(e *weir.Engine, limits ...*weir.KeyedLimit) Decider {
	byName := make(map[string]*weir.KeyedLimit, len(limits))
	for _, l := range limits {
		byName[l.Name()] = l
	}
	return &engineLimits{e, byName}
}

type engineLimits struct {
	engine *weir.Engine
	limits map[string]*weir.KeyedLimit
}

func (e *engineLimits) Knows(name string) error {
	if e.limits[name] == nil {
		var names []string
		for n := range e.limits {
			names = append(names, n)
		}
		slices.Sort(names)
		return fmt.Errorf("no limit %q was given to Limits: there are %s", name, strings.Join(names, ", "))
	}
	return nil
}

// Decide never returns ErrUnavailable. It can return that the engine's LimitMemory is full of keys with limits in use: a
// flood of keys must not lift the limits.
func (e *engineLimits) Decide(_ context.Context, checks []Check, d *Decision) error {
	var asked [weir.MaxChecks]weir.Check
	var verdicts [weir.MaxChecks]weir.Verdict
	if len(checks) > len(asked) {
		return fmt.Errorf("%d limits for one request: at most %d", len(checks), len(asked))
	}
	for i, c := range checks {
		l := e.limits[c.Limit]
		if l == nil {
			return fmt.Errorf("%w: %w", ErrMisconfigured, e.Knows(c.Limit))
		}
		asked[i] = weir.Check{Limit: l, Key: c.Key, N: c.N}
	}
	allowed, err := e.engine.TakeAll(asked[:len(checks)], verdicts[:len(checks)])
	if err != nil {
		return err
	}
	d.Allowed = allowed
	for i, c := range checks {
		l := asked[i].Limit.Limit()
		d.Add(Result{Limit: c.Limit, Key: c.Key, Quota: l.N, Window: l.Per, Burst: l.Burst, Verdict: verdicts[i]})
	}
	return nil
}
