package admit

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// awayRetry is after how long a request that was denied because nobody decides may try again.
const awayRetry = time.Second

// noPartRetry is the same for one whose region has no part of the limit: another policy file may give it one.
const noPartRetry = time.Minute

// apart is a decision with limits that another node decides.
//
// It asks the limits that are decided here first, and takes nothing: a denial there costs no message. Then it takes the
// limits of other nodes, group by group, and last the limits that are decided here. With limits of several groups it
// asks all before it takes the first. A later limit may have changed meanwhile and deny. What was taken before then
// stays taken: that never exceeds a limit, and StrictLost counts it.
type apart struct {
	*Live
	d    *Decision
	take bool

	here    []engine.Check // the limits that are decided here
	verdict []engine.Verdict
	whose   []int // of here: the place in d.checks

	taken bool // of another node
}

// decideApart is decide for a decision with limits of others, whose verdicts are made.
func (l *Live) decideApart(d *Decision, take bool) (allowed bool, err error) {
	for i, e := range d.elsewhere {
		if e != nil && e.leased {
			d.checks[i].Key = strings.Clone(d.checks[i].Key)
		}
	}
	// What is known here of the limits of others stands for them if some deny.
	if _, _, err = l.engine.DecideAll(d.checks, nil, d.verdicts, false); err != nil {
		return false, err
	}
	for i, e := range d.elsewhere {
		if e == noPart {
			d.verdicts[i] = engine.Verdict{RetryAfter: noPartRetry, Reset: noPartRetry}
		}
	}
	a := &apart{Live: l, d: d, take: take}
	for i, c := range d.checks {
		if d.elsewhere[i] != nil && d.elsewhere[i] != noPart {
			continue
		}
		if !d.verdicts[i].Allowed && !c.Shadow {
			return false, nil
		}
		if d.elsewhere[i] == nil {
			a.atHome(i, c)
		}
	}
	groups := a.groups()
	if take && len(groups) > 1 {
		if passes, err := a.askAll(groups); err != nil || !passes {
			return false, err
		}
	}
	for _, g := range groups {
		if passes, err := a.ask(g, take); err != nil || !passes {
			return false, a.lost(err)
		}
		a.taken = a.taken || take
	}
	return a.home()
}

// groups returns the places of the checks that other nodes decide, with the checks of each group together.
func (a *apart) groups() (groups [][]int) {
	at := map[int]int{}
	for i, c := range a.d.checks {
		e := a.d.elsewhere[i]
		if e == nil || e == noPart {
			continue
		}
		of := a.cluster.Owners.Group(c.Key)
		g, known := at[of]
		if !known {
			g = len(groups)
			at[of] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// askAll asks all groups at the same time, and takes nothing.
func (a *apart) askAll(groups [][]int) (passes bool, err error) {
	all, errs := make([]bool, len(groups)), make([]error, len(groups))
	var asking sync.WaitGroup
	for i, g := range groups {
		asking.Go(func() { all[i], errs[i] = a.ask(g, false) }) // each writes its own places
	}
	asking.Wait()
	return !slices.Contains(all, false), cmp.Or(errs...)
}

// ask asks the node that decides for the checks at the places of one group, and tells whether the request may go on.
func (a *apart) ask(places []int, take bool) (passes bool, err error) {
	checks := make([]engine.Check, len(places))
	verdicts := make([]engine.Verdict, len(places))
	for i, place := range places {
		checks[i] = a.d.checks[place]
	}
	passes, answered, err := a.cluster.Owners.Decide(checks, verdicts, take)
	if err != nil {
		return false, err
	}
	if answered {
		for i, place := range places {
			a.d.verdicts[place] = verdicts[i]
			a.d.away[place] = ""
		}
		return passes, nil
	}
	passes = true
	granted := a.granted(places)
	for _, place := range places {
		if slices.Contains(granted, place) {
			continue
		}
		ok, err := a.without(place, take == a.take)
		if err != nil {
			return false, err
		}
		passes = passes && ok
	}
	if passes && len(granted) > 0 {
		return a.ask(granted, take)
	}
	return passes, nil
}

// granted returns the places whose leased limits this node may decide although the owner does not answer. They had to
// wait for strict limits of the same owner. If all are leased, none was decided.
func (a *apart) granted(places []int) (granted []int) {
	for _, place := range places {
		if a.d.elsewhere[place].leased {
			granted = append(granted, place)
		}
	}
	if len(granted) == len(places) {
		return nil
	}
	return granted
}

// without decides a check whose node is away; last is false if it will be asked again.
func (a *apart) without(place int, last bool) (passes bool, err error) {
	d := a.d
	c, s := d.checks[place], d.elsewhere[place]
	d.away[place] = s.away.String()
	switch s.away {
	case policy.AwayOpen:
		d.verdicts[place] = engine.Verdict{Allowed: true}
		passes = true
	case policy.AwayShare:
		passes = true // until home asks
		if last {
			share, err := s.shareNow(a.nodes())
			if err != nil {
				return false, err
			}
			a.atHome(place, c)
			a.atHome(place, engine.Check{Limit: share, Key: c.Key, N: c.N, Shadow: c.Shadow})
		}
	default:
		d.verdicts[place] = engine.Verdict{RetryAfter: awayRetry, Reset: awayRetry}
		passes = c.Shadow
	}
	if last && a.take && c.N > 0 {
		s.counts[s.away].Add(1)
	}
	return passes, nil
}

// atHome notes a check that is decided here, for the check at a place.
func (a *apart) atHome(place int, c engine.Check) {
	a.here = append(a.here, c)
	a.whose = append(a.whose, place)
}

// home decides the limits that are decided here.
func (a *apart) home() (allowed bool, err error) {
	if len(a.here) == 0 {
		return true, nil
	}
	if len(a.here) > engine.MaxChecks {
		return false, policy.Failure(api.CodeInvalidCount, "checks", "more than %d limits to pass at once while the node that decides is away: ask for fewer keys in a request", engine.MaxChecks)
	}
	a.verdict = slices.Grow(a.verdict, len(a.here))[:len(a.here)]
	allowed, _, err = a.engine.DecideAll(a.here, nil, a.verdict, a.take)
	if err != nil {
		return false, a.lost(err)
	}
	for i, place := range a.whose {
		if i > 0 && a.whose[i-1] == place {
			a.d.verdicts[place] = stricter(a.d.verdicts[place], a.verdict[i])
		} else {
			a.d.verdicts[place] = a.verdict[i]
		}
	}
	if !allowed {
		return false, a.lost(nil)
	}
	return true, nil
}

// stricter is what two limits of one check say together.
func stricter(a, b engine.Verdict) engine.Verdict {
	return engine.Verdict{
		Allowed: a.Allowed && b.Allowed, Never: a.Never || b.Never, Remaining: min(a.Remaining, b.Remaining),
		RetryAfter: max(a.RetryAfter, b.RetryAfter), Reset: max(a.Reset, b.Reset),
	}
}

// lost counts a decision that took something of another node in vain.
func (a *apart) lost(err error) error {
	if a.taken {
		a.strictLost.Add(1)
	}
	return err
}

// StrictLost is how many denied requests took admissions anyway of limits that other nodes decide. Limits of other
// groups, or limits that are decided here, had changed meanwhile.
func (l *Live) StrictLost() uint64 { return l.strictLost.Load() }
