package admit

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// awayRetry is after how long a request that was denied because nobody decides may try again.
const awayRetry = time.Second

// noPartRetry is the same for one whose region has no part of the limit: another policy file may give it one.
const noPartRetry = time.Minute

// ownersDecision is a decision with limits that another node decides.
//
// It asks the limits that are decided here first, and takes nothing: a denial there costs no message. Then it takes the
// limits of other nodes, group by group, and last the limits that are decided here. With limits of several groups it
// asks all before it takes the first. A later limit may have changed meanwhile and deny. What was taken before then
// stays taken: that never exceeds a limit, and StrictLost counts it.
type ownersDecision struct {
	*Live
	d    *Decision
	take bool

	here   []engine.Check // the limits that are decided here
	places []int          // of here, in d.checks
	taken  bool           // of another node
}

// decideByOwners is decide for a decision with limits of others, whose verdicts are made.
func (l *Live) decideByOwners(d *Decision, take bool) (allowed bool, err error) {
	for i, e := range d.elsewhere {
		if e != nil && e.leased {
			d.checks[i].Key = strings.Clone(d.checks[i].Key)
		}
	}
	// What is known here of the limits of others stands for them if some deny.
	if _, _, err = l.engine.Limits().DecideAll(d.checks, nil, d.verdicts, false); err != nil {
		return false, err
	}
	for i, e := range d.elsewhere {
		if e == noPart {
			d.verdicts[i] = engine.Verdict{RetryAfter: noPartRetry, Reset: noPartRetry}
		}
	}
	a := &ownersDecision{Live: l, d: d, take: take}
	for i, c := range d.checks {
		if d.elsewhere[i] != nil && d.elsewhere[i] != noPart {
			continue
		}
		if !d.verdicts[i].Allowed && !c.Shadow {
			return false, nil
		}
		if d.elsewhere[i] == nil {
			a.here, a.places = append(a.here, c), append(a.places, i)
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
	return a.decideHere()
}

// groups returns the places of the checks that other nodes decide, with the checks of each group together.
func (a *ownersDecision) groups() (groups [][]int) {
	at := map[int]int{}
	for i, c := range a.d.checks {
		e := a.d.elsewhere[i]
		if e == nil || e == noPart {
			continue
		}
		group := a.cluster.Owners.Group(c.Key)
		g, known := at[group]
		if !known {
			g = len(groups)
			at[group] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// askAll asks all groups at the same time, and takes nothing.
func (a *ownersDecision) askAll(groups [][]int) (passes bool, err error) {
	all, errs := make([]bool, len(groups)), make([]error, len(groups))
	var asking sync.WaitGroup
	for i, g := range groups {
		asking.Go(func() { all[i], errs[i] = a.ask(g, false) }) // each writes its own places
	}
	asking.Wait()
	return !slices.Contains(all, false), cmp.Or(errs...)
}

// ask asks the node that decides for the checks at the places of one group, and reports whether the request may go on.
func (a *ownersDecision) ask(places []int, take bool) (passes bool, err error) {
	checks := make([]engine.Check, len(places))
	verdicts := make([]engine.Verdict, len(places))
	for i, place := range places {
		checks[i] = a.d.checks[place]
	}
	passes, answered, err := a.cluster.Owners.Decide(a.d.Context, checks, verdicts, take)
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
		if !slices.Contains(granted, place) {
			passes = a.without(place, take == a.take) && passes
		}
	}
	if passes && len(granted) > 0 {
		return a.ask(granted, take)
	}
	return passes, nil
}

// granted returns the places whose leased limits this node may decide although the owner does not answer. They had to
// wait for strict limits of the same owner. If all are leased, none was decided.
func (a *ownersDecision) granted(places []int) (granted []int) {
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
func (a *ownersDecision) without(place int, last bool) (passes bool) {
	d := a.d
	c, s := d.checks[place], d.elsewhere[place]
	d.away[place] = s.away.String()
	if s.away == policy.AwayOpen {
		d.verdicts[place], passes = engine.Verdict{Allowed: true}, true
	} else {
		d.verdicts[place], passes = engine.Verdict{RetryAfter: awayRetry, Reset: awayRetry}, c.Shadow
	}
	if last && a.take && c.N > 0 {
		s.counts[s.away].Add(1)
	}
	return passes
}

// decideHere decides the limits that are decided here.
func (a *ownersDecision) decideHere() (allowed bool, err error) {
	if len(a.here) == 0 {
		return true, nil
	}
	verdicts := make([]engine.Verdict, len(a.here))
	if allowed, _, err = a.engine.Limits().DecideAll(a.here, nil, verdicts, a.take); err != nil {
		return false, a.lost(err)
	}
	for i, place := range a.places {
		a.d.verdicts[place] = verdicts[i]
	}
	if !allowed {
		return false, a.lost(nil)
	}
	return true, nil
}

// lost counts a decision that took something of another node in vain.
func (a *ownersDecision) lost(err error) error {
	if a.taken {
		a.strictLost.Add(1)
	}
	return err
}

// StrictLost is how many denied requests took admissions anyway of limits that other nodes decide. Limits of other
// groups, or limits that are decided here, had changed meanwhile.
func (l *Live) StrictLost() uint64 { return l.strictLost.Load() }
