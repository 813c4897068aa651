package admit

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// regionClocks is by how much the clocks of regions may differ.
const regionClocks = 2 * time.Second

// global is what this node needs for a limit that regions share without parts. Each region counts its admissions as
// hits of a key that its digests carry. It takes what it knows of other regions' admissions as used.
type global struct {
	prefix string // of the keys under which admissions are counted
	over   atomic.Uint64
	late   atomic.Uint64
}

// GlobalFigures are the figures of a limit that regions share without parts, since the Live was made.
type GlobalFigures struct {
	// Over is the most admissions of one key by all regions, found at a denial here, above the burst within the
	// interval. Of other regions it counts only what was within the interval whatever the clocks say. So it may be too
	// low by what they admitted in 5 s.
	Over uint64
	// Late is how many decisions were made while newer admissions of another region may have been missing.
	Late uint64
}

// Global are the figures of a policy by name; zero for one that regions do not share without parts.
func (l *Live) Global(name string) GlobalFigures {
	l.counting.Lock()
	defer l.counting.Unlock()
	g := l.globals[name]
	if g == nil {
		return GlobalFigures{}
	}
	return GlobalFigures{g.over.Load(), g.late.Load()}
}

// globalOf is kept by name, so that another Set goes on counting.
func (l *Live) globalOf(name string) *global {
	l.counting.Lock()
	defer l.counting.Unlock()
	g := l.globals[name]
	if g == nil {
		if l.globals == nil {
			l.globals = map[string]*global{}
		}
		g = &global{prefix: HitPrefix + name + ":global:"}
		l.globals[name] = g
	}
	return g
}

// fits fails for a key that is too long to be counted for other regions. g may be nil.
func (g *global) fits(key string) error {
	if g == nil || len(g.prefix)+len(key) <= engine.MaxKeyBytes {
		return nil
	}
	return policy.Failure(api.CodeInvalidKey, "key", "key %q of %d bytes is counted as %s... for other regions, and must have at most %d", units.Excerpt(key), len(key), g.prefix, engine.MaxKeyBytes-len(g.prefix))
}

// othersAt is the end of the windows of other regions' admissions: as late as a clock may be ahead. now has whole
// seconds (engine.Engine.Now), because hits have.
func othersAt(now time.Time) time.Time { return now.Add(regionClocks) }

// othersWindow is for how long admissions of other regions count. It is the interval in whole seconds, rounded up, plus
// the clock difference on both sides, plus one second because hits lack the fraction of a second.
func othersWindow(of engine.Limit) time.Duration {
	return roundUp(of.Interval()) + 2*regionClocks + time.Second
}

func roundUp(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// askRegions notes what other regions are known to have admitted of the limits that they share without parts. It
// includes all that may have been within the interval.
func (l *Live) askRegions(d *Decision, take bool) error {
	d.besides = slices.Grow(d.besides[:0], len(d.checks))[:len(d.checks)]
	clear(d.besides)
	d.beside, d.asked = d.besides, l.engine.Now()
	for i := range d.checks {
		r := &d.Results[i]
		if r.global == nil {
			continue
		}
		r.counted = r.global.prefix + r.Key
		_, upper, late, err := l.others(r.counted, othersAt(d.asked), othersWindow(r.Limit))
		if err != nil {
			return err
		}
		d.beside[i], r.Others, r.Late = upper, upper, late
		if len(late) > 0 && take && r.N > 0 {
			r.global.late.Add(1)
		}
	}
	return nil
}

func (l *Live) others(key string, at time.Time, w time.Duration) (lower, upper uint64, late []string, err error) {
	if l.cluster.Others == nil {
		return 0, 0, nil, nil
	}
	return l.cluster.Others.Counted(key, at, w)
}

// settleRegions completes the verdicts of limits that regions share: until when what others used counts.
func (l *Live) settleRegions(d *Decision, take bool) error {
	d.at = 0 // others had a part in it
	for i := range d.verdicts {
		r, v := &d.Results[i], &d.verdicts[i]
		if r.global == nil || d.beside[i] == 0 {
			continue
		}
		v.Reset = max(v.Reset, othersWindow(r.Limit))
		if v.Allowed || v.Never {
			continue
		}
		var err error
		if v.RetryAfter, err = l.retryBeside(d, i); err != nil {
			return err
		}
		if take && r.N > 0 {
			if err := l.noteOver(d, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteOver notes by how many the admissions of all regions were more than the burst of a limit that denied.
func (l *Live) noteOver(d *Decision, place int) error {
	c, r := &d.checks[place], &d.Results[place]
	used, _, _, err := l.others(r.counted, othersAt(d.asked), r.Limit.Interval().Truncate(time.Second))
	if err != nil {
		return err
	}
	own, err := c.Limit.Peek(c.Key, 0)
	if err != nil || used <= own.Remaining {
		return err
	}
	for over := used - own.Remaining; ; {
		most := r.global.over.Load()
		if over <= most || r.global.over.CompareAndSwap(most, over) {
			return nil
		}
	}
}

// Others returns how many admissions of other regions count for a key, as it is counted, as far as they are known. The
// limit of that name must be one that regions share without parts; for any other limit it is 0. late names the regions
// of which newer admissions may be missing, as in Result.
func (l *Live) Others(name, key string) (used uint64, late []string, err error) {
	of, _ := l.named(name, key)
	if of.global == nil {
		return 0, nil, nil
	}
	_, used, late, err = l.others(of.global.prefix+key, othersAt(l.engine.Now()), othersWindow(of.limit.Limit()))
	return used, late, err
}

// refusesReserving is the error of a reservation under a limit that regions share without parts; nil: none of them is.
func (l *Live) refusesReserving(reqs []Request, d *Decision) error {
	b := l.bound.Load()
	if !b.global {
		return nil
	}
	d.reset()
	for i := range reqs {
		if err := l.gather(b, &reqs[i], d); err != nil {
			return err
		}
	}
	for i := range d.Results {
		if r := &d.Results[i]; r.global != nil {
			return policy.Failure(api.CodeInvalidLimit, "limit", "limit %s is shared by regions without parts (within: shared), and can't be reserved of: other regions would not learn how it is settled; take what is needed at once, or have the policy give each region its part", r.Name)
		}
	}
	return nil
}

// checkGlobal tells whether a limit that regions share without parts can be decided on this node.
func (l *Live) checkGlobal(p *policy.Policy, of engine.Limit) error {
	switch keeps := l.engine.Config().Retention; {
	case l.cluster.Divided:
		return policy.Failure(api.CodeInvalidLimit, "within", "limit %s in line %d is shared by regions without parts, which a cluster with --replicas does not decide: give each region its part (regions, and within: leased or strict)", p.Name, p.Line)
	case othersWindow(of) > keeps:
		return policy.Failure(api.CodeInvalidLimit, "per", "limit %s in line %d is shared by regions without parts, and admissions of the others count for %s: hits are kept for %s, so raise --retention in all regions", p.Name, p.Line, units.FormatDuration(othersWindow(of)), units.FormatDuration(keeps))
	}
	return nil
}

// exactWindow is up to which length windows are exact to the second.
const exactWindow = 300 * time.Second

// retryBeside returns after how long a denied check passes if nothing else happens. The result is never too early. It is
// too late by at most a second, or by the doubt at the edges of long windows.
//
// What others used leaves second by second, and what was used here leaves as the limit has it. The result is the first
// second at which both together leave n free. Windows of more than 5 minutes end in slots of up to 1 % of their length,
// which may be wider by then, so the result includes that much more.
//
// Cost: O(log T) counts of each region.
func (l *Live) retryBeside(d *Decision, place int) (time.Duration, error) {
	c := &d.checks[place]
	n := c.N
	for i := range place {
		if other := &d.checks[i]; other.Key == c.Key && other.Limit.Name() == c.Limit.Name() {
			n += other.N
		}
	}
	at, window := othersAt(d.asked), othersWindow(d.Results[place].Limit)
	most := window
	if window > exactWindow {
		most += roundUp(window / 100)
	}
	// own is when the limit here, as of now, has enough free for what others still use after some seconds.
	own := func(seconds int) (after time.Duration, ever bool, err error) {
		var used uint64
		if left := min(window, most-time.Duration(seconds)*time.Second); left > 0 {
			if _, used, _, err = l.others(d.Results[place].counted, at, left); err != nil {
				return 0, false, err
			}
		}
		v, err := c.Limit.Peek(c.Key, n+used)
		return v.RetryAfter, !v.Never, err
	}
	low, high := 0, int(most/time.Second) // at high nothing of others is left
	before, known := time.Duration(0), false
	for low < high {
		middle := (low + high) / 2
		after, ever, err := own(middle)
		switch {
		case err != nil:
			return 0, err
		case ever && after <= time.Duration(middle)*time.Second:
			high = middle
		default:
			low, before, known = middle+1, after, ever
		}
	}
	retry := time.Duration(high) * time.Second
	if known { // with what others have not left in the second before
		retry = min(retry, before)
	}
	return max(retry, time.Millisecond), nil
}

// Here returns the limit by which this node decides for a policy's limit, its own or an override's. If regions have
// parts of it, this is the part of this node's region. ok is false if the region has none.
func (l *Live) Here(p *policy.Policy, of engine.Limit) (here engine.Limit, ok bool, err error) {
	if p.Parts == nil && !p.Global || l.cluster.Whole {
		return of, true, nil
	}
	if l.cluster.Region == "" {
		return of, false, policy.Failure(api.CodeInvalidLimit, "where", "limit %s in line %d is over regions, and this server counts for none: start it with --region, or write another where", p.Name, p.Line)
	}
	if p.Global {
		return of, true, l.checkGlobal(p, of)
	}
	for _, part := range policy.PartsOf(of.Burst, p.Parts) {
		if part.Region == l.cluster.Region && part.Burst > 0 {
			return policy.PartOf(of, part.Burst), true, nil
		}
	}
	return of, false, nil
}

// Region is the region that this node counts for; "": none.
func (l *Live) Region() string { return l.cluster.Region }

// noPart stands for the node that decides where this region has no part of a limit.
var noPart = &elsewhere{}
