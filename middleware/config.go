package middleware

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-counter/weir"
)

// Config of a Middleware.
type Config struct {
	// Decider decides the requests: Limits, or one of another package.
	Decider Decider

	// Rules are the limits of a request, 1 to weir.MaxChecks: all or none.
	Rules []Rule

	// Fail says what becomes of requests while Weir can't be reached.
	Fail Fail

	// Skip tells of a request that no rule is for: it goes on to the handler. Nil:
	// none.
	Skip func(r *http.Request) bool

	// Denied answers a denied request. The fields of its limits and Retry-After are
	// in the header; d is not to be used after it returns. Nil: AnswerDenied.
	Denied func(w http.ResponseWriter, r *http.Request, d *Decision)

	// Refused answers a request that was not decided and does not go on: by
	// FailClosed, or because of what it asks for; err says why. Nil: AnswerRefused.
	Refused func(w http.ResponseWriter, r *http.Request, err error)

	// OnError is told of each request that was not decided, whatever becomes of it,
	// but not of those whose client went away. Nil: a warning by slog.Default, at
	// most one in ten seconds.
	OnError func(r *http.Request, err error)

	// HideFields leaves RateLimit-Policy and RateLimit out of answers, for limits
	// that clients are not to know. Retry-After stays.
	HideFields bool
}

// Rule is one limit of the requests.
type Rule struct {
	// Limit is its name at the Decider. A Decider with policies takes "" for all
	// policies that the key fits.
	Limit string

	// Key says what of a request is counted.
	Key Key

	// Prefix goes before each key, up to 128 bytes, for example to choose a policy
	// by it. Default none.
	Prefix string

	// Optional lets a request without such a key through under the other rules: a
	// client that leaves out a header leaves out the rule. Without it such a request
	// is refused, with 400.
	Optional bool

	// Cost is how many admissions the request takes; of 0 the limit is not asked.
	// Nil: 1.
	Cost func(r *http.Request) uint64
}

// Fail says what becomes of requests that nobody decides.
type Fail uint8

const (
	// FailOpen lets them through: a Weir that is down takes nothing down with it. What
	// ends with ErrMisconfigured is refused anyway.
	FailOpen Fail = iota

	// FailClosed refuses them, with 503: never more than the limits.
	FailClosed
)

// maxPrefixBytes leaves room for a key behind a prefix.
const maxPrefixBytes = 128

func (c *Config) validate() error {
	switch {
	case c.Decider == nil:
		return errors.New("middleware: no Decider: use Limits, or one of middleware/policies or middleware/remote")
	case len(c.Rules) < 1 || len(c.Rules) > weir.MaxChecks:
		return fmt.Errorf("middleware: %d rules: must be 1 to %d", len(c.Rules), weir.MaxChecks)
	case c.Fail > FailClosed:
		return fmt.Errorf("middleware: fail %d: must be FailOpen or FailClosed", c.Fail)
	}
	for i, r := range c.Rules {
		if err := r.validate(c.Decider); err != nil {
			return fmt.Errorf("middleware: rule %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *Rule) validate(d Decider) error {
	if len(r.Prefix) > maxPrefixBytes {
		return fmt.Errorf("prefix of %d bytes: at most %d", len(r.Prefix), maxPrefixBytes)
	}
	if err := r.Key.check(); err != nil {
		return err
	}
	return d.Knows(r.Limit)
}
