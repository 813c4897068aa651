package admission

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// freshAdmissions are n, the last of them at the time at, and the first at another.
type freshAdmissions struct {
	n         uint64
	at, first int64
}

// together is how long admissions are gathered that the journal has as of the last of them, in ns. A refund of some of
// them looks for them from their own time until so much later.
const together = 2 * time.Second

// note adds admissions to the next cut. The caller holds s.mu.
func (ls *Table) note(s *share, st *entry, n uint64, now int64) {
	if s.fresh == nil {
		s.fresh = map[*entry]freshAdmissions{}
	}
	of, more := s.fresh[st]
	if more && now-of.first > int64(together/2) {
		ls.close(s, st)
		of, more = freshAdmissions{}, false
	}
	if !more {
		of.first = now
	}
	s.fresh[st] = freshAdmissions{of.n + n, max(of.at, now), min(of.first, now)} // whose clock was read first may come second
}

// close puts what was noted of a state before the changes that come, in the next cut. The caller holds s.mu.
func (ls *Table) close(s *share, st *entry) {
	if of, fresh := s.fresh[st]; fresh {
		delete(s.fresh, st)
		s.changes = append(s.changes, of.admission(st, ls.Clock.Ahead()))
	}
}

func (f freshAdmissions) admission(st *entry, ahead int64) replication.Admission {
	return replication.Admission{Limit: st.Value.plan.Record, Key: st.Key(), At: ceilMs(f.at + ahead), N: f.n}
}

// Cut appends a partition's admissions since the cut before, and writes its states, if w is not
// nil.
func (ls *Table) Cut(partition int, list []replication.Admission, w *replication.StateWriter) []replication.Admission {
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	list = s.cut(list, &ls.Clock)
	if w != nil {
		w.Limits(ls.Clock.Ahead(), s.states)
	}
	return list
}

// cut appends the admissions since the cut before. The caller holds s.mu.
func (s *share) cut(list []replication.Admission, clock *keyspace.ClockLimits) []replication.Admission {
	list = append(append(list, s.forgets...), s.changes...)
	s.forgets, s.changes = nil, nil
	if len(s.fresh) == 0 && len(s.grants) == 0 {
		return list
	}
	ahead, before := clock.Ahead(), len(list)
	for st, of := range s.fresh {
		list = append(list, of.admission(st, ahead))
	}
	slices.SortFunc(list[before:], func(a, b replication.Admission) int { // a flush names a limit once, and equal states make equal flushes
		if a.Limit != b.Limit {
			return strings.Compare(a.Limit, b.Limit)
		}
		return strings.Compare(a.Key, b.Key)
	})
	clear(s.fresh)
	return s.cutSpent(list, ceilMs(clock.Now()+ahead))
}

// ApplyAll counts admissions that come from a journal, each at the latest time at which it may have been.
func (ls *Table) ApplyAll(partition int, list []replication.Admission) error {
	for _, a := range list {
		if err := ls.apply(partition, a); err != nil {
			return err
		}
	}
	return nil
}

// strictSlack is how far the clocks of two nodes may differ without a strict limit
// being too generous when another node decides: what it learned of the one before
// counts as so much later, but not later than now.
const strictSlack = time.Second

// apply counts admissions that come from a journal. Memory may be exceeded: what is
// in use is never dropped.
func (ls *Table) apply(partition int, a replication.Admission) error {
	plan, err := ls.Recorded(a.Limit)
	if err != nil {
		return err
	}
	if plan.forgets != 0 {
		s := &ls.shares[partition]
		s.mu.Lock()
		defer s.mu.Unlock()
		ls.forgetInline(s, plan)
		return nil
	}
	if plan.change != noChange {
		s := &ls.shares[partition]
		s.mu.Lock()
		defer s.mu.Unlock()
		ls.makeChange(s, partition, plan, a)
		return nil
	}
	now := ls.Clock.Now()
	at := ls.timeOf(a.At, now)
	if plan.Strict {
		at = min(at+int64(strictSlack), now)
	}
	if now-at >= int64(plan.Interval()) && !plan.hasNoEnd() {
		return nil
	}
	if plan.out {
		ls.applyOut(partition, plan, a, at)
		return nil
	}
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := ls.hash(plan.Name, a.Key)
	st := s.find(hash, plan.Name, a.Key)
	if st == nil {
		st = ls.put(s, hash, plan, a.Key)
	} else if st.Value.plan != plan {
		ls.adopt(st, plan, now)
	}
	before := cellBytes(st)
	plan.Charge(&st.Value.state, at, a.N)
	ls.grow(st.Value.plan, int64(cellBytes(st)-before))
	return nil
}

// hasNoEnd tells whether admissions matter for longer than the interval while others follow: a full bucket of GCRA stays full
// while it fills no faster than requests take. So all that a journal has is applied to it.
func (p *Plan) hasNoEnd() bool { return p.Limit().Algorithm == limit.GCRA }

// timeOf is a time in Unix ms, which a journal has, by Clock, and not after now.
func (ls *Table) timeOf(ms, now int64) int64 {
	ahead := ls.Clock.Ahead()
	return min(min(ms, max(now+ahead, 0)/msOfNs+1)*msOfNs-ahead, now)
}

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
	for _, id := range s.grantIDs() {
		scratch = s.grants[id].append(scratch[:0])
		add(changeRecord(id.name, changeGrant), id.key, scratch)
	}
	for id, until := range s.bans {
		scratch = binary.AppendUvarint(scratch[:0], uint64(until))
		add(changeRecord(id.name, changeBan), id.key, scratch)
	}
	for id, k := range s.permits {
		scratch = appendHolders(scratch[:0], k)
		add(changeRecord(id.name, changePermit), id.key, scratch)
	}
	for id, r := range s.reserved {
		scratch = r.append(scratch[:0])
		add(r.record(id), id.key, scratch)
	}
}

// Restore puts states back into an empty share, all or none.
func (ls *Table) Restore(partition int, list []replication.LimitState) error {
	states, beside, err := ls.decodeStates(list)
	if err != nil {
		return err
	}
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range states {
		ls.restoreOne(s, &states[i])
	}
	ls.restoreGrants(s, beside.grants)
	for _, b := range beside.bans {
		ls.ban(s, grantID{b.Name, b.Key}, b.Until, ceilMs(ls.Clock.Now()+ls.Clock.Ahead()))
	}
	ls.restorePermits(s, beside.permits)
	ls.restoreReserved(s, partition, beside.parts)
	return nil
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
	st.Value.plan.Begin(&st.Value.state, st.Room())
	ls.grow(st.Value.plan, bytesOf(st))
}

// restored is a state that was read.
type restored struct {
	key string
	keyState
}

func (ls *Table) decodeStates(list []replication.LimitState) (states []restored, beside besideStates, err error) {
	now, ahead := ls.Clock.Now(), ls.Clock.Ahead()
	states = make([]restored, 0, len(list))
	for _, l := range list {
		plan, err := ls.Recorded(l.Record)
		if err != nil {
			return nil, beside, err
		}
		if plan.change != noChange {
			if err := beside.read(plan, l, ahead); err != nil {
				return nil, beside, fmt.Errorf("%w: what key %.100q was granted of limit %s: %w", replication.ErrDamagedState, l.Key, plan.Name.Name, err)
			}
			continue
		}
		states = append(states, restored{key: l.Key, keyState: keyState{plan: plan}})
		state := &states[len(states)-1].state
		decode := plan.DecodeState
		if l.Before {
			decode = plan.DecodeStateBefore
		}
		if rest, err := decode(state, l.State); err != nil || len(rest) > 0 {
			return nil, beside, fmt.Errorf("%w: what key %.100q used of limit %s: %w", replication.ErrDamagedState, l.Key, plan.Name.Name, errors.Join(err))
		}
		if by := l.Ahead - ahead; by < -int64(time.Second) || by > int64(time.Millisecond) { // else the clock has drifted
			plan.Shift(state, by)
		}
		plan.Adopt(state, plan.Plan, now) // if the clock has run back since: not later than now
	}
	return states, beside, nil
}

// limitRecord is a name and a limit in bytes: length of the name, name, algorithm,
// N, period in ns, burst, of a quota by the calendar what appendCalendar writes, and a byte
// of bits (inline.go) if any is set.
func limitRecord(name string, l limit.Limit, bits byte) string {
	b := wire.AppendText(nil, name)
	for _, v := range []uint64{recordedAlgorithm(l), l.N, uint64(l.Per), l.Burst} {
		b = binary.AppendUvarint(b, v)
	}
	b = appendCalendar(b, l.Calendar)
	if bits != 0 {
		b = append(b, bits)
	}
	return string(b)
}

// flags are the bits of the plan's record.
func (p *Plan) flags() (bits byte) {
	if p.Strict {
		bits |= recordStrict
	}
	if p.Inline {
		bits |= recordInline
	}
	return bits
}

// Recorded reads a limitRecord. Plans of equal records are one.
func (ls *Table) Recorded(record string) (*Plan, error) {
	ls.mu.Lock()
	plan := ls.records[record]
	ls.mu.Unlock()
	if plan != nil {
		return plan, nil
	}
	r := wire.NewReader([]byte(record))
	name := string(r.Block())
	l := limit.Limit{Algorithm: limit.Algorithm(r.AtMost(math.MaxUint8)), N: r.Uvarint(), Per: time.Duration(r.Uvarint()), Burst: r.Uvarint()}
	readCalendar(r, &l)
	var bits byte
	if r.Len() > 0 {
		bits = r.Byte()
	}
	what := noChange
	if bits&recordChange != 0 {
		what = change(r.Byte())
	}
	rest := ""
	if what != noChange {
		rest = string(r.Bytes(r.Len()))
	}
	made, err := limit.New(l)
	if err == nil {
		err = checkKept(name)
	}
	if err != nil || r.Failed() || r.Len() > 0 || bits&^byte(recordBits) != 0 || what >= changes {
		return nil, fmt.Errorf("%w: the limit of an admission: %w", replication.ErrDamagedState, errors.Join(err))
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(ls.records) >= MaxNames {
		clear(ls.records) // what is in use is soon back
	}
	plan = &Plan{Plan: made.ByTimeOfDay(ls.Clock.Ahead), Name: ls.name(name), journaled: true, Record: record,
		Strict: bits&recordStrict != 0, Inline: bits&recordInline != 0, forgets: bits & (recordForget | recordForgetAll), change: what, rest: rest, out: bits&recordOut != 0}
	if rest != "" {
		return plan, nil // which is seldom told again
	}
	ls.records[record] = plan
	return plan, nil
}

// RefuseTakes is engine.Engine.RefuseTakes.
func (ls *Table) RefuseTakes(why string) {
	was := ls.taken.Load()
	switch {
	case why == "" && was != nil:
		ls.taken.Store(nil)
	case why != "" && (was == nil || *was != why):
		ls.taken.Store(&why)
	}
}

// refusesTake is why a take of a plan is refused; nil: it is not.
func (ls *Table) refusesTake(plan *Plan) error {
	if why := ls.taken.Load(); why != nil && plan.journaled {
		return &OverloadedError{*why}
	}
	return nil
}

// Admissions are what keys of a content have used: see engine.Engine.Admissions.
func (ls *Table) Admissions(states []replication.LimitState) (list []replication.Admission, err error) {
	known, beside, err := ls.decodeStates(states)
	if err != nil {
		return nil, err
	}
	now := ls.Clock.Now()
	for i := range known {
		st := &known[i]
		st.plan.Known(&st.state, now, func(at int64, n uint64) {
			list = append(list, replication.Admission{Limit: st.plan.Record, Key: st.key, At: ceilMs(at), N: n})
		})
	}
	for _, p := range beside.parts {
		if !p.settled {
			list = append(list, replication.Admission{Limit: p.record(p.id), Key: p.id.key, At: p.first, N: p.n})
		}
	}
	for _, b := range beside.bans {
		record := binary.AppendUvarint([]byte(changeRecord(b.Name, changeBan)), uint64(b.Until))
		list = append(list, replication.Admission{Limit: string(record), Key: b.Key, At: ceilMs(now + ls.Clock.Ahead()), N: 1})
	}
	for _, p := range beside.permits {
		if left := p.until - now; left > 0 {
			list = append(list, replication.Admission{Limit: permitRecord(p.id.name, p.holder, min(left, int64(maxPermit))), Key: p.id.key, At: ceilMs(now + ls.Clock.Ahead()), N: 1})
		}
	}
	for _, g := range beside.grants {
		list = append(list, replication.Admission{Limit: g.record(g.id.name), Key: g.id.key, At: ceilMs(now + ls.Clock.Ahead()), N: 1})
	}
	return list, nil
}
