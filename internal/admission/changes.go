package admission

import (
	"math"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/limit"
)

// A change is what somebody does to what a key has used, beside requests: to give
// admissions back, to forget all, to grant more. It goes to the journal as an admission
// of a record that is no limit, in the order in which it was made among those of its
// partition: what was admitted before it and is in no cut yet leaves with it, or is
// less by it, and never reaches the journal.
type change byte

const (
	noChange      change = iota
	changeRefund         // N admissions that were taken at At are given back
	changeReset          // what the key has used of the limit, on any node, is forgotten
	changeGrant          // as its record says: admissions more than the limit, in place of an earlier grant
	changeSpend          // N of the key's grant were used
	changeReserve        // N admissions that were taken at At are reserved: reserve.go
	changeSettle         // a reservation is settled as its record says
	changeBan            // the key is denied until a time: ban.go
	changePermit         // a holder has a permit of the key, or gives it back: permit.go
	changeForget         // what all keys that begin so have used of all limits, on any node, is forgotten: forget.go
	changes              // how many there are
)

// changeRecord is the record of a change to what keys have used of the limit of a name.
func changeRecord(name string, c change) string {
	return limitRecord(name, limit.Limit{N: 1, Per: time.Millisecond, Burst: 1}, recordChange) + string([]byte{byte(c)})
}

// journalChange has the next cut tell of a change. The caller holds s.mu.
func (ls *Table) journalChange(s *share, c change, name, key string, at int64, n uint64) {
	ls.journalRecord(s, changeRecord(name, c), key, at, n)
}

// journalRecord is journalChange of a record. The caller holds s.mu.
func (ls *Table) journalRecord(s *share, record, key string, at int64, n uint64) {
	if ls.gather {
		s.changes = append(s.changes, replication.Admission{Limit: record, Key: strings.Clone(key), At: at, N: n})
	}
}

// scope is what a change that comes from a journal is made on.
type scope byte

const (
	everywhere scope = iota
	heldStates       // the states that HoldShare brings back, alone
	keptStates       // what is kept whether the partition is held or not
)

func (c scope) has(plan *Plan) bool {
	return c == everywhere || (c == heldStates) == plan.ofHolders()
}

// together is how long admissions may have been gathered for a cut, in ns: it tells of all as of
// the last of them. Those that were gathered for longer are not found by when they were taken, and
// stay used.
const together = 2 * time.Second

// Newest is the time of the newest admissions, for Refund.
const Newest = math.MaxInt64

// Refund gives back up to n admissions that a key took of the plan's limit at a time of
// Clock, or Newest, and returns how many more are free for it: see limit.Plan.Refund.
func (ls *Table) Refund(plan *Plan, partition int, key string, at int64, n uint64) (free uint64, err error) {
	s := &ls.shares[partition]
	now := ls.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.find(ls.hash(plan.Name, key), plan.Name, key)
	if st == nil || n == 0 {
		return 0, nil
	}
	if err := ls.refusesTake(plan); err != nil {
		return 0, err
	}
	if st.Value.plan != plan {
		ls.adopt(st, plan, now)
	}
	n = min(n, limit.MaxBurst)
	free, given := ls.refund(st, now, at, n)
	if !plan.journaled {
		return free, nil
	}
	// What was not here to be given back is not given back where more was admitted either.
	if given -= s.unnote(st, at, given); given > 0 {
		ls.journalChange(s, changeRefund, plan.Name.Name, key, max(min(at, now)+ls.Clock.Ahead(), 0)/msOfNs, given)
	}
	return free, nil
}

// unnote takes up to n admissions that were taken at a time out of the next cut, and returns how
// many: the journal never hears of them. The caller holds s.mu.
func (s *share) unnote(st *entry, at int64, n uint64) uint64 {
	of, fresh := s.fresh[st]
	if !fresh || at < of.first {
		return 0
	}
	if n >= of.n {
		delete(s.fresh, st)
		return of.n
	}
	of.n -= n
	s.fresh[st] = of
	return n
}

// refund is limit.Plan.Refund of a state, of admissions that one cut told of. The caller holds s.mu.
func (ls *Table) refund(st *entry, now, at int64, n uint64) (free, given uint64) {
	before := cellBytes(st)
	last := at
	if at < Newest {
		last += int64(together)
		if st.Value.plan.Strict {
			last += int64(strictSlack)
		}
	}
	free, given = st.Value.plan.Refund(&st.Value.state, now, at, last, n)
	ls.grow(st.Value.plan, int64(cellBytes(st)-before))
	return free, given
}

// Reset forgets what a key has used of the limit of a name, on whatever node, its grant and its ban: it
// has its whole burst again. It tells whether there was something here.
func (ls *Table) Reset(name *Name, partition int, key string) (was bool, err error) {
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := ls.taken.Load(); why != nil {
		return false, &OverloadedError{*why}
	}
	base := BaseName(name.Name)
	for _, name := range ls.namesOf(base) {
		hash := ls.hash(name, key)
		if st := s.find(hash, name, key); st != nil {
			was = true
			delete(s.fresh, st)
			ls.drop(s, st)
		}
	}
	was = ls.ungrant(s, grantID{base, key}) || was
	was = ls.unban(s, grantID{base, key}) || was
	s.forgetReservedOf(base, key)
	ls.journalChange(s, changeReset, base, key, ceilMs(ls.Clock.Now()+ls.Clock.Ahead()), 1)
	return was, nil
}

// applyReset is Reset that comes from a journal: what was admitted here and comes after it
// there stays. The caller holds s.mu.
func (ls *Table) applyReset(s *share, base, key string, on scope) {
	for _, name := range ls.namesOf(base) {
		if st := s.find(ls.hash(name, key), name, key); st != nil && on.has(st.Value.plan) {
			ls.resetState(s, st)
		}
	}
	if on != heldStates {
		ls.ungrant(s, grantID{base, key})
		ls.unban(s, grantID{base, key})
		s.forgetReservedOf(base, key)
	}
}

// resetState forgets what a key has used, but for what no cut has yet. The caller holds s.mu.
func (ls *Table) resetState(s *share, st *entry) {
	of, fresh := s.fresh[st]
	if !fresh {
		ls.drop(s, st)
		return
	}
	ls.grow(st.Value.plan, -bytesOf(st))
	st.Value.state = limit.State{}
	st.Value.plan.Charge(&st.Value.state, of.at, of.n)
	ls.grow(st.Value.plan, bytesOf(st))
}

// makeChange makes a change that comes from a journal. The caller holds s.mu.
func (ls *Table) makeChange(s *share, partition int, plan *Plan, a replication.Admission, on scope) {
	now := ls.Clock.Now()
	switch plan.change {
	case changeRefund:
		st := s.find(ls.hash(plan.Name, a.Key), plan.Name, a.Key)
		if st != nil && on.has(st.Value.plan) {
			ls.refund(st, now, ls.timeOf(a.At, now), min(a.N, limit.MaxBurst))
		}
	case changeReset:
		ls.applyReset(s, plan.Name.Name, a.Key, on)
	case changeForget:
		ls.forgetKeys(s, plan.rest, func(st *entry) bool {
			if !on.has(st.Value.plan) {
				return false
			}
			ls.resetState(s, st)
			return true
		}, on != heldStates)
	case changeGrant:
		if g, err := readGrant([]byte(plan.rest)); err == nil && on != heldStates {
			ls.grant(s, grantID{plan.Name.Name, strings.Clone(a.Key)}, g.left, g.until, ceilMs(now+ls.Clock.Ahead()))
		}
	case changeSpend:
		if g := s.grants[grantID{plan.Name.Name, a.Key}]; g != nil && on != heldStates {
			g.left -= min(g.left, a.N)
		}
	case changeBan:
		if until, err := readBan([]byte(plan.rest)); err == nil && on != heldStates {
			ls.ban(s, grantID{plan.Name.Name, strings.Clone(a.Key)}, until, ceilMs(now+ls.Clock.Ahead()))
		}
	case changePermit:
		if holder, ttl, err := readPermit([]byte(plan.rest)); err == nil && on != heldStates {
			ls.applyPermit(s, grantID{plan.Name.Name, a.Key}, holder, ls.timeOf(a.At, now), ttl, now)
		}
	case changeReserve, changeSettle:
		ls.makeReserved(s, partition, plan, a, on)
	}
}

// namesOf are the names that what is used of the limit of a name is kept by: itself, and those of
// nodes.
func (ls *Table) namesOf(base string) (list []*Name) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for text, name := range ls.names {
		if BaseName(text) == base {
			list = append(list, name)
		}
	}
	return list
}

// BaseName is the name that a limit was given, of the name that its states are kept by.
func BaseName(kept string) string {
	base, _, _ := strings.Cut(kept, string(NodeMark))
	return base
}

const msOfNs = int64(time.Millisecond)

// ceilMs is a time in whole ms, not before it.
func ceilMs(ns int64) int64 { return max(ns+msOfNs-1, 0) / msOfNs }
