// Package shadow finds out what limits would have done to the requests of a log: whom they would have denied, when, how often, and
// which limit would have denied fewer.
//
// A log goes through the pipeline of package replay. A router for each worker finds the policies for the keys of a line. Then one
// goroutine decides, in the order of the log, and another one records what was decided:
//
//	line -> keys -> router: their limits -> judge: the engine -> clerk: records -> report
//
// The engine decides as on a server: it takes of all limits or of none, at the time of the line. Servers write lines when requests
// are over, so some lines are older than one before them: these are decided at the newer time. A line that stands for n requests is
// n requests at one time.
//
// Memory is bounded: by Options.LimitMemory for the usage of limits, and by Options.Memory for the records of the keys. If the
// records do not fit, those that say the least are dropped, and the report says what is no longer exact (see ledger). Totals per
// limit are always exact.
package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// Run reads the files of o and reports what its limits would have done.
//
// If a file can't be read to its end, or the context ends, it returns the report of what was read together with the error. An
// *replay.OptionError comes without a report. It is an error if no request has a key with a policy.
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
	o.Log.Outcomes = o.Policies.HasOutcomes()
	log, runErr := replay.Scan(ctx, o.Log, j)
	j.clerk.close()
	if log == nil {
		return nil, runErr
	}
	return j.clerk.report(ctx, &o, log), errors.Join(runErr, j.clerk.useless(&o, runErr))
}

// useless returns why a replay without a failure was in vain.
func (c *clerk) useless(o *Options, err error) error {
	if err != nil || c.Requests == 0 || c.Requests > c.Unmatched {
		return nil
	}
	const most = 5
	var keys []string
	for _, p := range o.Policies.Policies() {
		keys = append(keys, p.Keys)
	}
	patterns := strings.Join(keys[:min(most, len(keys))], ", ")
	if more := len(keys) - most; more > 0 {
		patterns += fmt.Sprintf(" and %d more", more)
	}
	if c.stranger == "" {
		return fmt.Errorf("no line has a key: make one with --key that a policy is for (%s)", patterns)
	}
	return fmt.Errorf("no line has a key that a policy is for: the lines make keys like %s, the policies are for %s; make such keys with --key",
		replay.Printable(c.stranger), replay.Printable(patterns))
}

// Options say what to read and which limits to ask. Log.Files and Policies are required.
type Options struct {
	// Log says what to read and which keys lines have: Files, Stdin, Format, Keys, MaxAhead, Workers and Now are used. All
	// keys of a line are one request. The default of Keys is DefaultKeys.
	Log replay.Options

	// Policies are the limits, from the file PolicyFile.
	Policies   *policy.Set
	PolicyFile string

	// AsWritten lets a policy in shadow mode deny nothing, as on a server. Else every policy is enforced.
	AsWritten bool

	// Top is how many of the most denied keys are listed for each limit. Default 10, at most MaxTop.
	Top int

	// Memory is the budget for the records of the keys, in bytes. Default 256 MiB, at least MinMemory.
	Memory int64

	// LimitMemory is the budget for the usage of limits, in bytes. Requests that do not fit are undecided. Default 256 MiB.
	LimitMemory int64
}

const (
	// MaxTop is the most keys that are listed for a limit.
	MaxTop = 10_000

	// MinMemory is the least budget for records, in bytes.
	MinMemory = 1 << 20
)

func (o Options) withDefaults() Options {
	o.Top = cmp.Or(o.Top, 10)
	o.Memory = cmp.Or(o.Memory, 256<<20)
	o.LimitMemory = cmp.Or(o.LimitMemory, 256<<20)
	if o.Log.DefaultKeys == nil {
		o.Log.DefaultKeys = func(f replay.Format) []string { return DefaultKeys(f, o.Policies) }
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Policies == nil || len(o.Policies.Policies()) == 0:
		return fmt.Errorf("%s has no policies: there is nothing to ask", o.PolicyFile)
	case o.Top < 1 || o.Top > MaxTop:
		return &replay.OptionError{Field: "Top", Message: fmt.Sprintf("%d keys: it must be 1 to %d", o.Top, MaxTop)}
	case o.Memory < MinMemory:
		return &replay.OptionError{Field: "Memory", Message: units.FormatSize(o.Memory) + ": it must be at least 1MiB"}
	}
	return nil
}

// report is called when the log was read.
func (c *clerk) report(ctx context.Context, o *Options, log *replay.Report) *Report {
	r := &c.Report
	r.StoppedEarly, r.Files, r.Format, r.Policies, r.Modes = log.StoppedEarly, log.Files, log.Format, o.PolicyFile, policy.Enforce.String()
	r.Lines, r.Ahead, r.Malformed, r.MalformedLines = log.Lines, log.Ahead, log.Malformed, log.MalformedLines
	r.Keys, r.Summary, r.Limits = []Template{}, []string{}, []Limit{}
	if o.AsWritten {
		r.Modes = "as_written"
	}
	for _, t := range log.Top {
		r.Keys = append(r.Keys, Template{t.Template, t.Keyless})
	}
	if c.begun {
		first, last := unix(c.first), unix(c.last)
		r.First, r.Last, r.SpanSeconds = &first, &last, c.last-c.first+1
	}
	for _, a := range c.accounts {
		if c.begun {
			a.asked.reach(c.last)
			a.denials.reach(c.last) // both have the same buckets now
			a.Timeline = Timeline{unix(a.denials.first * a.denials.width), a.denials.width, a.asked.buckets, a.denials.buckets}
		}
		a.finish(ctx, o.Top)
		r.Limits = append(r.Limits, a.Limit)
		r.Summary = append(r.Summary, a.sentence())
	}
	r.Approximate = c.approximate(o)
	r.Warnings = c.warnings(log.Lines == 0 && log.Malformed == 0 && log.StoppedEarly == "")
	for _, p := range o.Policies.Policies() {
		if p.Cost != "" {
			r.Warnings = append(r.Warnings, p.Name+": a log does not say how many "+p.Cost+" a request needed: here each counts as one")
		}
		if p.CountIf != nil && c.unsaid > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %s without a status: they count here, whatever count_if says", p.Name, units.Plural(c.unsaid, "request")))
		}
		if p.Wait > 0 {
			r.Warnings = append(r.Warnings, p.Name+": nothing waits here: a request that would pass within its wait is denied")
		}
	}
	for _, l := range o.Policies.Concurrencies() {
		r.Warnings = append(r.Warnings, l.Name+": how many are at work at once (max) is not in a log, which does not say how long each was: this limit is left out")
	}
	return r
}

// finish completes what is reported of a limit.
func (a *account) finish(ctx context.Context, top int) {
	a.DeniedShare = share(a.Denied, a.Requests)
	if a.Denied > 0 {
		first, last := unix(a.first), unix(a.last)
		a.FirstDenial, a.LastDenial = &first, &last
		a.WorstMinute = &Minute{unix(a.minute.worstAt), a.minute.worst}
	}
	if a.peak.Requests > 0 {
		a.Peak = &a.peak
	}
	a.findNeeds(ctx)
	for _, r := range a.mostDenied(top) {
		a.Top = append(a.Top, r.report())
	}
}

func (a *account) findNeeds(ctx context.Context) {
	switch {
	case a.plain == 0:
		return
	case a.policy.CountIf != nil:
		a.NeedsUnknown = "with count_if it depends on the answers"
		return
	case a.cut:
		a.NeedsUnknown = "the records of the keys did not fit in memory"
		return
	}
	for _, share := range needShares {
		if n := a.need(ctx, share); n != nil {
			a.Needs = append(a.Needs, *n)
		} else {
			a.NeedsUnknown = "there is no limit as large as that"
		}
	}
	if ctx.Err() != nil {
		a.Needs, a.NeedsUnknown = []Need{}, "interrupted"
	}
}

// mostDenied lists the keys with the most denials, those with as many by their bytes.
func (a *account) mostDenied(most int) []*record {
	var denied []*record
	for _, r := range a.records {
		if r.denied > 0 {
			denied = append(denied, r)
		}
	}
	slices.SortFunc(denied, func(a, b *record) int {
		return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(a.key, b.key))
	})
	return denied[:min(most, len(denied))]
}

func (r *record) report() Key {
	k := Key{
		Key: r.key, Requests: r.requests, Denied: r.denied, DeniedShare: share(r.denied, r.requests),
		FirstDenial: unix(r.first), LastDenial: unix(r.last), LongestSeconds: r.stretch,
		Peak: Peak{Requests: r.peak, At: unix(r.peakAt)}, AtLeast: r.late,
	}
	if r.rule.override {
		rule := r.rule.report()
		k.Override = &rule
	}
	return k
}

func (r *rule) report() Rule {
	return Rule{N: r.limit.N, PerSeconds: r.limit.Per.Seconds(), Burst: r.limit.Burst, IntervalSeconds: r.interval.Seconds(), Calendar: r.limit.Calendar.String()}
}

func unix(at int64) replay.Time { return replay.Time{Time: time.Unix(at, 0).UTC()} }

func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
