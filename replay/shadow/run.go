package shadow

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-counter/weir/replay"
)

// Run reads the files of o and reports what its limits would have done.
//
// As replay.Run, it returns the report of what was read beside the error when a file cannot
// be read to its end, or when the context ends; an *replay.OptionError comes without a
// report. That no request has a key that a policy is for is an error, too.
func Run(ctx context.Context, o Options) (*Report, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	j, err := newJudge(&o)
	if err != nil {
		return nil, err
	}
	defer j.close()
	log, runErr := replay.Scan(ctx, o.Log, j)
	if err := j.clerk.close(); err != nil {
		runErr = errors.Join(runErr, fmt.Errorf("writing the denied requests: %w", err))
	}
	if log == nil {
		return nil, runErr
	}
	return j.clerk.report(ctx, &o, log), errors.Join(runErr, j.clerk.useless(&o, runErr))
}

// useless tells why a replay that went well was in vain.
func (c *clerk) useless(o *Options, err error) error {
	if err != nil || c.requests == 0 || c.requests > c.unmatched {
		return nil
	}
	const most = 5
	policies := o.Policies.Policies()
	var patterns string
	for i, p := range policies {
		if i == most {
			patterns += fmt.Sprintf(" and %d more", len(policies)-most)
			break
		}
		if i > 0 {
			patterns += ", "
		}
		patterns += p.Keys
	}
	if c.stranger == "" {
		return fmt.Errorf("no line has a key: make one with --key that a policy is for (%s)", patterns)
	}
	return fmt.Errorf("no line has a key that a policy is for: the lines make keys like %s, the policies are for %s; make such keys with --key",
		replay.Printable(c.stranger), replay.Printable(patterns))
}
