package middleware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir"
)

// Decider decides requests. Limits is the one in this process; packages
// middleware/policies and middleware/remote have others.
type Decider interface {
	// Decide takes all checks or none. d is empty, and the checks are only the
	// caller's again when Decide returns.
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

// Check is what a request takes of one limit.
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

	// RetryAfter is how long to wait until all that denied would allow it, if nothing
	// else happens; 0 if Allowed.
	RetryAfter time.Duration
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
