package admit

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// regionClocks is by how much the clocks of regions may differ.
const regionClocks = 2 * time.Second

// global is what a limit needs here that regions share without parts. Each region counts what it admits as hits of a key that its
// digests carry, and takes what it knows of those of others for used.
type global struct {
	prefix string // of the keys under which admissions are counted
	over   atomic.Uint64
	late   atomic.Uint64
}

// GlobalFigures are those of a limit that regions share without parts, since the Live was made.
type GlobalFigures struct {
	// Over is the most admissions of all regions of one key that were found, at a denial here, to be more than the burst within its
	// interval. Of others those count alone that were within it whatever the clocks, so it may be too low by what they admitted in 5 s.
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
	if g == nil || len(g.prefix)+len(key) <= weir.MaxKeyBytes {
		return nil
	}
	return policy.Failure(weir.CodeInvalidKey, "key", "key %q of %d bytes is counted as %s... for other regions, and must have at most %d", units.Excerpt(key), len(key), g.prefix, weir.MaxKeyBytes-len(g.prefix))
}

// othersAt is the end of the windows in which admissions of other regions are looked for: as late as a clock may be that is ahead.
// now is whole seconds (weir.Engine.Now), which hits have.
func othersAt(now time.Time) time.Time { return now.Add(regionClocks) }

// othersWindow is for how long admissions of other regions count: the interval, up to whole seconds, what the clocks may differ on
// both sides, and the second that a hit's fraction is unknown of.
func othersWindow(of weir.Limit) time.Duration {
	return roundUp(of.Interval()) + 2*regionClocks + time.Second
}

func roundUp(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// askRegions notes what other regions are known to have admitted of the limits that they share without parts: all that may have been
// within the interval.
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

// Others is how many admissions of other regions count for a key, as it is counted, of a limit of a name that regions share without
// parts, as far as they are known, and of which regions newer ones may be missing: as of Result. It is 0 for any other limit.
func (l *Live) Others(name, key string) (used uint64, late []string, err error) {
	of, _ := l.named(name, key)
	if of.global == nil {
		return 0, nil, nil
	}
	_, used, late, err = l.others(of.global.prefix+key, othersAt(l.engine.Now()), othersWindow(of.limit.Limit()))
	return used, late, err
}
