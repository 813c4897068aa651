package admission

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// freshAdmissions are n, the last of them at the time at, and the first at another.
type freshAdmissions struct {
	n         uint64
	at, first int64
}

// together is for how long, in ns, admissions are gathered into one journal entry, which has the time of the last. A refund
// therefore looks for admissions from their own time until together later.
const together = 2 * time.Second

// maxClosed is how many changes of a share may wait for a cut when admissions are closed. Beyond that they are gathered for longer, and a
// refund may not find them: so a journal that takes nothing for long fills no memory.
const maxClosed = 1000

// note adds admissions to the next cut. The caller holds s.mu.
func (ls *Table) note(s *share, st *entry, n uint64, now int64) {
	if s.fresh == nil {
		s.fresh = map[*entry]freshAdmissions{}
	}
	gathered, more := s.fresh[st]
	if more && now-gathered.first > int64(together/2) && len(s.changes) < maxClosed {
		ls.close(s, st)
		gathered, more = freshAdmissions{}, false
	}
	if !more {
		gathered.first = now
	}
	s.fresh[st] = freshAdmissions{gathered.n + n, max(gathered.at, now), min(gathered.first, now)} // whose clock was read first may come second
}

// close puts what was noted of a state before the changes that come, in the next cut. The caller holds s.mu.
func (ls *Table) close(s *share, st *entry) {
	if gathered, fresh := s.fresh[st]; fresh {
		delete(s.fresh, st)
		a := gathered.admission(st)
		s.changes = append(s.changes, &a)
		if s.closed == nil {
			s.closed = map[*entry]uint64{}
		}
		s.closed[st] += a.N
	}
}

// admission is what a cut will have of what was gathered, with At by Clock: see dated.
func (f freshAdmissions) admission(st *entry) replication.Admission {
	return replication.Admission{Limit: st.Value.plan.Record, Key: st.Key(), At: f.at, N: f.n}
}

// changeOf is what a change has that is made now, or at a time by Clock, in ns: see dated.
func (ls *Table) changeOf(name, key string) replication.ChangeOf {
	return changeAt(name, key, ls.Clock.Now())
}

func changeAt(name, key string, at int64) replication.ChangeOf {
	return replication.ChangeOf{Name: name, Key: strings.Clone(key), At: at}
}

// dated makes the times of changes times of day, in Unix ms and not before them. Until they leave in a cut or in a state they
// are by Clock: a time of day that is corrected meanwhile would be wrong in part of a flush.
func (ls *Table) dated(list []replication.Change) []replication.Change {
	ahead := ls.Clock.Ahead()
	replication.MoveChanges(list, func(at int64) int64 { return ceilMs(at + ahead) })
	return list
}

// nowMs is the time of day in Unix ms, not before it.
func (ls *Table) nowMs() int64 { return ceilMs(ls.Clock.Now() + ls.Clock.Ahead()) }

// unixMs is the time of day in Unix ms of a time by Clock, rounded down.
func (ls *Table) unixMs(at int64) int64 { return (at + ls.Clock.Ahead()) / msOfNs }

// over reports whether a time of day in Unix ms has come.
func (ls *Table) over(until int64) bool { return until <= ls.unixMs(ls.Clock.Now()) }

// record has the next cut tell of a change. The caller holds s.mu.
func (ls *Table) record(s *share, one replication.Change) {
	if ls.gather {
		s.changes = append(s.changes, one)
	}
}

// Cut appends a partition's changes and admissions since the cut before to c, and writes its states, with more changes, if w is not nil.
func (ls *Table) Cut(partition int, c *replication.Cut, w *replication.StateWriter, more []replication.Change) {
	s := ls.locked(partition)
	defer s.mu.Unlock()
	ls.cut(s, c)
	if w != nil {
		w.Limits(ls.Clock.Ahead(), s.states, append(more, ls.kept(s)...))
	}
}

// cut is Cut without states. The caller holds s.mu.
func (ls *Table) cut(s *share, c *replication.Cut) {
	list := ls.cutOutstanding(s, ls.cutSpent(s, s.changes))
	c.Changes = append(c.Changes, ls.dated(list)...)
	s.changes, s.closed = nil, nil
	if len(s.fresh) == 0 {
		return
	}
	ahead := ls.Clock.Ahead()
	for st, gathered := range s.fresh {
		a := gathered.admission(st)
		a.At = ceilMs(a.At + ahead)
		c.Admissions = append(c.Admissions, a)
	}
	slices.SortFunc(c.Admissions, func(a, b replication.Admission) int { // a flush names a limit once, and equal states make equal flushes
		return cmp.Or(strings.Compare(a.Limit, b.Limit), strings.Compare(a.Key, b.Key))
	})
	clear(s.fresh)
}

// ApplyAdmissions counts admissions that come from a journal, each at the latest time at which it may have been. They are not
// gathered again. Bytes that are no limit's are an error.
func (ls *Table) ApplyAdmissions(partition int, list []replication.Admission) error {
	for i := range list {
		if err := ls.apply(partition, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// ApplyChanges makes changes that come from a journal, or that a state has.
func (ls *Table) ApplyChanges(partition int, list []replication.Change) error {
	for _, one := range list {
		switch a := one.(type) {
		case *replication.Admission:
			if err := ls.apply(partition, a); err != nil {
				return err
			}
		case *replication.Counter: // is no limit's
		default:
			ls.applyChange(partition, one)
		}
	}
	return nil
}

func (ls *Table) applyChange(partition int, one replication.Change) {
	now := ls.Clock.Now()
	s := ls.locked(partition)
	defer s.mu.Unlock()
	switch c := one.(type) {
	case *replication.Refund:
		if st := ls.stateOf(s, c.Name, c.Key); st != nil {
			ls.refund(st, now, ls.timeOf(c.At, now), min(c.N, limit.MaxBurst))
		}
	case *replication.Reset:
		ls.reset(s, c.Name, c.Key, c.At, ls.resetState)
	case *replication.ForgetKeys:
		ls.forgetKeys(s, c.Key, c.At, ls.resetState)
	case *replication.ForgetInline:
		ls.forgetInline(s, c.Name)
	case *replication.Grant:
		ls.grant(s, keyID{c.Name, c.Key}, min(c.N, limit.MaxBurst), c.Until, c.At)
	case *replication.Spend:
		if g := s.grants[keyID{c.Name, c.Key}]; g != nil {
			g.left -= min(g.left, c.N)
		}
	case *replication.Ban:
		ls.ban(s, keyID{c.Name, c.Key}, c.Until)
	case *replication.Permit:
		ls.applyPermit(s, c, now)
	case *replication.Reservation:
		ls.applyReservation(s, partition, c)
	case *replication.Settlement:
		ls.applySettlement(s, c, now)
	case *replication.Outstanding:
		ls.applyOutstanding(s, c, now)
	}
}

// strictSlack is how far the clocks of two nodes may differ without a strict limit
// being too generous when another node decides. What that node learned from the former one
// counts as strictSlack later, but not later than now.
const strictSlack = time.Second

// apply counts admissions that come from a journal. Memory may be exceeded: what is
// in use is never dropped.
func (ls *Table) apply(partition int, a *replication.Admission) error {
	plan, err := ls.recorded(a.Limit)
	if err != nil {
		return err
	}
	now := ls.Clock.Now()
	at := ls.timeOf(a.At, now)
	if plan.Strict {
		at = min(at+int64(strictSlack), now)
	}
	if now-at >= int64(plan.Interval()) && !plan.hasNoEnd() {
		return nil
	}
	s := ls.locked(partition)
	defer s.mu.Unlock()
	ls.charge(ls.stateToCharge(s, plan, a.Key, now), at, a.N)
	return nil
}

// stateToCharge is state whether there is memory for it or not. The caller holds s.mu.
func (ls *Table) stateToCharge(s *share, plan *Plan, key string, now int64) *entry {
	hash := ls.hash(plan.Name, key)
	st := s.find(hash, plan.Name, key)
	if st == nil {
		return ls.put(s, hash, plan, key)
	}
	if st.Value.plan != plan {
		ls.adopt(st, plan, now)
	}
	return st
}

// charge is limit.Plan.Charge of a state. The caller holds s.mu.
func (ls *Table) charge(st *entry, at int64, n uint64) {
	before := cellBytes(st)
	st.Value.plan.Charge(&st.Value.state, at, n)
	ls.grow(st.Value.plan, int64(cellBytes(st)-before))
}

// hasNoEnd reports whether admissions matter for longer than the interval while others follow: a full bucket of GCRA stays full
// while it fills no faster than requests take. So all that a journal has is applied to it.
func (p *Plan) hasNoEnd() bool { return p.Limit().Algorithm == limit.GCRA }

// timeOf is a time in Unix ms, which a journal has, by Clock, and not after now.
func (ls *Table) timeOf(ms, now int64) int64 {
	ahead := ls.Clock.Ahead()
	return min(min(ms, max(now+ahead, 0)/msOfNs+1)*msOfNs-ahead, now)
}

const msOfNs = int64(time.Millisecond)

// floored is a time that ceilMs makes a ms not after at.
func floored(at int64) int64 { return at - msOfNs + 1 }

// ceilMs is a time in whole ms, not before it.
func ceilMs(ns int64) int64 { return max(ns+msOfNs-1, 0) / msOfNs }

// states calls add with the share's states that survive a restart. The caller holds s.mu.
func (s *share) states(add func(record, key string, state []byte)) {
	var scratch []byte
	s.table.Load().Each(func(st *entry) {
		if !st.Value.plan.journaled && (st.Value.plan.Record == "" || !st.Value.state.HasPast()) { // a past may be of a limit that is
			return
		}
		scratch = st.Value.plan.AppendState(scratch[:0], &st.Value.state)
		add(st.Value.plan.Record, st.Key(), scratch)
	})
}

// kept are the changes that make what a share has, except for states. The caller holds s.mu.
func (ls *Table) kept(s *share) (list []replication.Change) {
	for id, g := range s.grants {
		if g.after > 0 {
			list = append(list, ls.granting(id, 0, 0, g.after-lateClocks))
		}
		if g.n > 0 {
			list = append(list, ls.granting(id, g.n, g.until, max(g.after, ls.nowMs())))
		}
		if g.left < g.n { // after the grant, which would be whole again if it came once more
			list = append(list, &replication.Spend{ChangeOf: ls.changeOf(id.name, id.key), N: g.n - g.left})
		}
	}
	for id, until := range s.bans {
		list = append(list, &replication.Ban{ChangeOf: ls.changeOf(id.name, id.key), Until: until})
	}
	now := ls.Clock.Now()
	for id, k := range s.permits {
		k.Each(func(holder uint64, until int64) {
			if until > now {
				list = append(list, &replication.Permit{ChangeOf: ls.changeOf(id.name, id.key), Holder: holder, For: until - now})
			}
		})
	}
	for _, r := range s.reserved {
		list = append(list, recorded(r.Reservation))
	}
	for id, o := range s.outstanding {
		list = append(list, o.change(id))
	}
	return ls.dated(list)
}

// Restore puts states back into an empty share, all or none.
func (ls *Table) Restore(partition int, list []replication.LimitState, changes []replication.Change) error {
	states, err := ls.decodeStates(list)
	if err != nil {
		return err
	}
	s := &ls.shares[partition]
	s.mu.Lock()
	for i := range states {
		ls.restoreOne(s, &states[i])
	}
	s.mu.Unlock()
	return ls.ApplyChanges(partition, changes)
}

// restoreOne puts a state in, in place of what is there. The caller holds s.mu.
func (ls *Table) restoreOne(s *share, from *restored) {
	if from.plan.Idle(&from.state, ls.Clock.Now()) && !from.plan.hasNoEnd() {
		return
	}
	hash := ls.hash(from.plan.Name, from.key)
	st := s.find(hash, from.plan.Name, from.key)
	if st == nil {
		st = ls.put(s, hash, from.plan, from.key)
	}
	ls.grow(st.Value.plan, -bytesOf(st))
	st.Value = from.keyState
	st.Value.plan.Begin(&st.Value.state, st.Space())
	ls.grow(st.Value.plan, bytesOf(st))
}

// restored is a state that was read.
type restored struct {
	key string
	keyState
}

func (ls *Table) decodeStates(list []replication.LimitState) (states []restored, err error) {
	now, ahead := ls.Clock.Now(), ls.Clock.Ahead()
	states = make([]restored, len(list))
	for i, l := range list {
		plan, err := ls.recorded(l.Record)
		if err != nil {
			return nil, err
		}
		states[i] = restored{key: l.Key, keyState: keyState{plan: plan}}
		state := &states[i].state
		if rest, err := plan.DecodeState(state, l.State); err != nil || len(rest) > 0 {
			return nil, fmt.Errorf("%w: what key %.100q used of limit %s: %w", replication.ErrDamagedState, l.Key, plan.Name.Name, errors.Join(err))
		}
		if by := l.Ahead - ahead; by < -int64(time.Second) || by > int64(time.Millisecond) { // else the clock has drifted
			plan.Shift(state, by)
		}
		plan.Adopt(state, plan.Plan, now) // if the clock has run back since: not later than now
	}
	return states, nil
}

// Admissions returns what keys of a content have used of limits that survive a restart, in the form that
// ApplyAdmissions takes. Each has the latest time at which it may have been.
func (ls *Table) Admissions(c replication.Content) (list []replication.Admission, err error) {
	known, err := ls.decodeStates(c.Limits)
	if err != nil {
		return nil, err
	}
	now, ahead := ls.Clock.Now(), ls.Clock.Ahead()
	for i := range known {
		st := &known[i]
		st.plan.Known(&st.state, now, func(at int64, n uint64) {
			list = append(list, replication.Admission{Limit: st.plan.Record, Key: st.key, At: ceilMs(at + ahead), N: n})
		})
	}
	return list, nil
}

// RefuseTakes has takes that would be admitted under a limit that is journaled refused with api.CodeOverloaded, and
// why; "" ends that. What is denied is denied all the same, and Peek and limits that are not journaled decide as ever.
//
// It is for a journal that takes no admissions: what it does not have, a crash gives back to be admitted once more.
func (ls *Table) RefuseTakes(why string) {
	was := ls.taken.Load()
	switch {
	case why == "" && was != nil:
		ls.taken.Store(nil)
	case why != "" && (was == nil || *was != why):
		ls.taken.Store(&why)
	}
}

// RefusesChange is why changes are refused; nil: they are not.
func (ls *Table) RefusesChange() error {
	if why := ls.taken.Load(); why != nil {
		return overloaded(*why)
	}
	return nil
}

// refusesTake is why a take of a plan is refused; nil: it is not.
func (ls *Table) refusesTake(plan *Plan) error {
	if !plan.journaled {
		return nil
	}
	return ls.RefusesChange()
}
