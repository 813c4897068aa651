package shadow

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/replay"
)

// report is called when the log was read.
func (c *clerk) report(ctx context.Context, o *Options, log *replay.Report) *Report {
	r := &Report{
		StoppedEarly: log.StoppedEarly, Files: log.Files, Format: log.Format, Keys: []Template{},
		Policies: o.PolicyFile, Modes: policy.Enforce.String(),
		Lines: log.Lines, Ahead: log.Ahead, Malformed: log.Malformed, Late: c.late, LatestSeconds: c.latest,
		Requests: c.requests, Unmatched: c.unmatched, Allowed: c.allowed, Denied: c.denied, Undecided: c.undecided,
		Summary: []string{}, Limits: []Limit{}, MalformedLines: log.MalformedLines,
	}
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
		l := c.limit(ctx, a, o.Top)
		r.Limits = append(r.Limits, l)
		r.Summary = append(r.Summary, l.sentence())
	}
	r.Approximate = c.approximate(o)
	r.Warnings = c.warnings(log.Lines == 0 && log.Malformed == 0 && log.StoppedEarly == "")
	for _, p := range o.Policies.Policies() {
		if p.Cost != "" {
			r.Warnings = append(r.Warnings, p.Name+": a log does not say how many "+p.Cost+" a request needed: here each counts as one")
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

func (c *clerk) limit(ctx context.Context, a *account, top int) Limit {
	l := Limit{
		Name: a.policy.Name, Keys: a.policy.Keys, By: a.policy.By, Rule: a.rule.report(), Algorithm: a.policy.Limit.Algorithm.String(),
		Mode: a.policy.Mode.String(), Enforced: !a.shadow, Where: a.policy.Where.String(),
		Requests: a.requests, Allowed: a.allowed, Denied: a.denied, DeniedShare: share(a.denied, a.requests),
		Elsewhere: a.elsewhere, Undecided: a.undecided, DistinctKeys: a.keys, DeniedKeys: a.deniedKeys,
		Needs: []Need{}, Timeline: Timeline{Requests: []uint64{}, Denied: []uint64{}}, Top: []Key{},
	}
	if c.begun {
		a.asked.reach(c.last)
		a.timeline.reach(c.last) // both have the same buckets now
		l.Timeline = Timeline{unix(a.timeline.first * a.timeline.width), a.timeline.width, a.asked.buckets, a.timeline.buckets}
	}
	if a.denied > 0 {
		first, last := unix(a.first), unix(a.last)
		l.FirstDenial, l.LastDenial = &first, &last
		l.WorstMinute = &Minute{unix(a.minute.worstAt), a.minute.worst}
	}
	if a.peak > 0 {
		l.Peak = &Peak{a.peak, unix(a.peakAt), a.peakOf}
	}
	a.needs(ctx, &l)
	for _, r := range a.mostDenied(top) {
		l.Top = append(l.Top, r.report())
	}
	return l
}

func (a *account) needs(ctx context.Context, l *Limit) {
	switch {
	case a.plain == 0:
		return
	case a.cut:
		l.NeedsUnknown = "the records of the keys did not fit in memory"
		return
	}
	for _, share := range needShares {
		if n := a.need(ctx, share); n != nil {
			l.Needs = append(l.Needs, *n)
		} else {
			l.NeedsUnknown = "there is no limit as large as that"
		}
	}
	if ctx.Err() != nil {
		l.Needs, l.NeedsUnknown = []Need{}, "interrupted"
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
