package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/weir-counter/weir/internal/units"
)

// A Check asks limits for admissions of a key.
type Check struct {
	Key string
	// Limit names the one policy of the server that is asked. Empty: all that are for
	// the key. With Inline it names that limit instead.
	Limit string
	// Inline is a limit that the request brings along, in place of the server's policies.
	Inline *Limit
	// N is how many admissions are asked for. 0 stands for 1.
	N uint64
}

// A Limit is N admissions per period Per, with bursts of Burst.
type Limit struct {
	N         uint64
	Per       time.Duration // 1 ms to what the server takes, a day by default; so is Per*Burst/N
	Burst     uint64        // 0: N
	Algorithm string        // window, fixed or gcra; empty: window
}

// A Decision is the server's answer to checks.
type Decision struct {
	Allowed   bool         `json:"allowed"`
	Unmatched bool         `json:"unmatched,omitempty"` // no policy is for any of the keys: allowed
	Limits    []LimitState `json:"limits"`              // what each limit says

	// RetryAfterSeconds is until the checks would be allowed, if nothing else happens;
	// 0 when they were.
	RetryAfterSeconds float64 `json:"retry_after_s,omitempty"`
}

// RetryAfter is RetryAfterSeconds as a duration.
func (d Decision) RetryAfter() time.Duration { return fromSeconds(d.RetryAfterSeconds) }

// LimitState is what one limit says of a check.
type LimitState struct {
	Name    string `json:"name"`
	Key     string `json:"key"`     // that is counted
	Mode    string `json:"mode"`    // enforce, or shadow: it denies nothing
	Allowed bool   `json:"allowed"` // by itself
	Never   bool   `json:"never,omitempty"`
	Away    string `json:"away,omitempty"` // how it was decided without the node that decides: closed, open, share or own
	N       uint64 `json:"n"`              // asked for

	Limit      uint64  `json:"limit"` // per period
	PerSeconds float64 `json:"per_s"`
	Burst      uint64  `json:"burst"`

	Remaining         uint64  `json:"remaining"`
	RetryAfterSeconds float64 `json:"retry_after_s,omitempty"`
	ResetSeconds      float64 `json:"reset_s"` // until the whole burst is there again
}

// Per is PerSeconds as a duration.
func (l LimitState) Per() time.Duration { return fromSeconds(l.PerSeconds) }

// RetryAfter is RetryAfterSeconds as a duration.
func (l LimitState) RetryAfter() time.Duration { return fromSeconds(l.RetryAfterSeconds) }

// Reset is ResetSeconds as a duration.
func (l LimitState) Reset() time.Duration { return fromSeconds(l.ResetSeconds) }

// fromSeconds rounds: 4.35 s as a float are a little less.
func fromSeconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// NoDecisionError says that the server did not decide: nobody answered in time, or who
// answered could not. Whether to let pass then is for the caller to choose.
type NoDecisionError struct {
	// MayHaveTaken tells that the server may have decided and taken, and only its answer
	// did not arrive. When it is false nothing was taken.
	MayHaveTaken bool
	Err          error
}

func (e *NoDecisionError) Error() string {
	if e.MayHaveTaken {
		return fmt.Sprintf("no decision: %v (admissions may have been taken)", e.Err)
	}
	return fmt.Sprintf("no decision: %v", e.Err)
}

// Unwrap gives what happened.
func (e *NoDecisionError) Unwrap() error { return e.Err }

// Allow asks whether a request may pass, and takes what it asks for: all checks or
// none, at most 64. A denial is a Decision and no error.
//
// It makes one attempt, whatever Options.Retries says: a decision is not idempotent, and
// one more attempt could take twice. Give it a short Options.Timeout or a ctx with a
// deadline: somebody waits for it. A *NoDecisionError leaves the caller to let pass or
// not; an *Error is a request that is wrong, such as an unknown limit, or more than a
// burst, which can never pass.
func (c *Client) Allow(ctx context.Context, checks ...Check) (Decision, error) {
	return c.decide(ctx, checks, false)
}

// Peek says what Allow would decide: it takes and counts nothing.
func (c *Client) Peek(ctx context.Context, checks ...Check) (Decision, error) {
	return c.decide(ctx, checks, true)
}

type wireCheck struct {
	Key   string `json:"key"`
	Limit any    `json:"limit,omitempty"`
	N     uint64 `json:"n,omitempty"`
}

type wireLimit struct {
	Name      string `json:"name,omitempty"`
	N         uint64 `json:"n"`
	Per       string `json:"per"`
	Burst     uint64 `json:"burst,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
}

func (c *Client) decide(ctx context.Context, checks []Check, peek bool) (d Decision, err error) {
	asked := struct {
		Checks []wireCheck `json:"checks"`
		Peek   bool        `json:"peek,omitempty"`
	}{make([]wireCheck, len(checks)), peek}
	for i, check := range checks {
		asked.Checks[i] = wireCheck{Key: check.Key, N: check.N}
		switch l := check.Inline; {
		case l != nil:
			asked.Checks[i].Limit = wireLimit{check.Limit, l.N, exactSeconds(l.Per), l.Burst, l.Algorithm}
		case check.Limit != "":
			asked.Checks[i].Limit = check.Limit
		}
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return d, err
	}
	if err := ctx.Err(); err != nil {
		return d, &NoDecisionError{Err: context.Cause(ctx)}
	}
	text, err := c.once(ctx, request{method: http.MethodPost, path: "/v1/allow", body: body, contentType: "application/json"})
	var refused *Error
	switch isError := errors.As(err, &refused); {
	case err == nil, isError && refused.Status == http.StatusTooManyRequests && refused.Code == "":
		if bad := decode(text, &d); bad != nil || d.Limits == nil {
			return Decision{}, &NoDecisionError{MayHaveTaken: !peek, Err: errors.Join(err, bad, errNoVerdict)}
		}
		return d, nil
	case !isError:
		return d, &NoDecisionError{MayHaveTaken: !peek && !neverSent(err), Err: err}
	case refused.Status >= http.StatusInternalServerError || refused.Code == "":
		// A Weir server that says why took nothing; a proxy does not know.
		return d, &NoDecisionError{MayHaveTaken: !peek && refused.Code == "", Err: err}
	}
	return d, err
}

// exactSeconds is a period in seconds, to the nanosecond: one that was rounded down would
// be another limit, which admits more.
func exactSeconds(d time.Duration) string { return units.FormatUnix(time.Unix(0, int64(d))) }

var errNoVerdict = errors.New("the answer has no verdicts: is a Weir server at this address?")
