package admission

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
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
	if given = ls.unnote(s, st, at, given); given > 0 {
		ls.journalChange(s, changeRefund, plan.Name.Name, key, max(min(at, now)+ls.Clock.Ahead(), 0)/msOfNs, given)
	}
	return free, nil
}

// unnote takes up to n admissions that were taken at a time out of the next cut: the journal does not get them. It returns how many
// are left for a change, which comes after all that was noted. The caller holds s.mu.
func (ls *Table) unnote(s *share, st *entry, at int64, n uint64) (left uint64) {
	of, fresh := s.fresh[st]
	if !fresh {
		return n
	}
	if at >= of.first {
		some := min(n, of.n)
		n, of.n = n-some, of.n-some
		if s.fresh[st] = of; of.n == 0 {
			delete(s.fresh, st)
		}
	}
	if n > 0 {
		ls.close(s, st)
	}
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
func (ls *Table) applyReset(s *share, base, key string) {
	for _, name := range ls.namesOf(base) {
		if st := s.find(ls.hash(name, key), name, key); st != nil {
			ls.resetState(s, st)
		}
	}
	ls.ungrant(s, grantID{base, key})
	ls.unban(s, grantID{base, key})
	s.forgetReservedOf(base, key)
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
func (ls *Table) makeChange(s *share, partition int, plan *Plan, a replication.Admission) {
	now := ls.Clock.Now()
	switch plan.change {
	case changeRefund:
		st := s.find(ls.hash(plan.Name, a.Key), plan.Name, a.Key)
		if st != nil {
			ls.refund(st, now, ls.timeOf(a.At, now), min(a.N, limit.MaxBurst))
		}
	case changeReset:
		ls.applyReset(s, plan.Name.Name, a.Key)
	case changeForget:
		ls.forgetKeys(s, plan.rest, func(st *entry) { ls.resetState(s, st) })
	case changeGrant:
		if g, err := readGrant([]byte(plan.rest)); err == nil {
			ls.grant(s, grantID{plan.Name.Name, strings.Clone(a.Key)}, g.left, g.until, ceilMs(now+ls.Clock.Ahead()))
		}
	case changeSpend:
		if g := s.grants[grantID{plan.Name.Name, a.Key}]; g != nil {
			g.left -= min(g.left, a.N)
		}
	case changeBan:
		if until, err := readBan([]byte(plan.rest)); err == nil {
			ls.ban(s, grantID{plan.Name.Name, strings.Clone(a.Key)}, until, ceilMs(now+ls.Clock.Ahead()))
		}
	case changePermit:
		if holder, ttl, err := readPermit([]byte(plan.rest)); err == nil {
			ls.applyPermit(s, grantID{plan.Name.Name, a.Key}, holder, ls.timeOf(a.At, now), ttl, now)
		}
	case changeReserve, changeSettle:
		ls.makeReserved(s, partition, plan, a)
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

// A ban says that a key is denied under the limit of a name until a time, whatever it has used. All nodes know of
// it, of keys that they hold and of others. A Table keeps bans; who decides asks for them first.

// MaxBans bounds the bans that are made in one table; those of other nodes come beside.
const MaxBans = 100_000

// Ban bans a key under the limit of a name until a time of day in Unix ms, in place of an earlier ban; 0 lifts it.
func (ls *Table) Ban(name string, partition int, key string, until int64) error {
	s := &ls.shares[partition]
	now := ls.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := ls.taken.Load(); why != nil {
		return &OverloadedError{*why}
	}
	id := grantID{name, strings.Clone(key)}
	if _, again := s.bans[id]; !again && until > 0 && ls.bans.Load() >= MaxBans {
		return &OverloadedError{"100,000 bans are in use: wait until some are over, or lift some"}
	}
	nowMs := ceilMs(now + ls.Clock.Ahead())
	ls.ban(s, id, until, nowMs)
	record := binary.AppendUvarint([]byte(changeRecord(name, changeBan)), uint64(max(until, 0)))
	ls.journalRecord(s, string(record), key, nowMs, 1)
	return nil
}

// ban puts a ban in, or lifts it. The caller holds s.mu.
func (ls *Table) ban(s *share, id grantID, until, nowMs int64) {
	if until <= nowMs {
		ls.unban(s, id)
		return
	}
	if s.bans == nil {
		s.bans = map[grantID]int64{}
	}
	if _, again := s.bans[id]; !again {
		ls.bans.Add(1)
	}
	s.bans[id] = until
}

// unban lifts a ban. The caller holds s.mu.
func (ls *Table) unban(s *share, id grantID) (was bool) {
	if _, was = s.bans[id]; was {
		delete(s.bans, id)
		ls.bans.Add(-1)
	}
	return was
}

// Banned is until when a key is banned under the limit of a name, in Unix ms, and now by the same clock; 0: it is not.
func (ls *Table) Banned(name string, partition int, key string) (until, now int64) {
	s := &ls.shares[partition]
	now = (ls.Clock.Now() + ls.Clock.Ahead()) / msOfNs
	s.mu.Lock()
	defer s.mu.Unlock()
	if until = s.bans[grantID{name, key}]; until <= now {
		return 0, now
	}
	return until, now
}

// AnyBanned tells whether there are bans: without, that is all that a decision pays for them.
func (ls *Table) AnyBanned() bool { return ls.bans.Load() > 0 }

// KeyBan is a ban of a key.
type KeyBan struct {
	Name, Key string
	Until     int64 // Unix ms
}

// Bans lists the bans that are not over, at most n, those that end last first.
func (ls *Table) Bans(n int) (list []KeyBan) {
	now := (ls.Clock.Now() + ls.Clock.Ahead()) / msOfNs
	for i := range ls.shares {
		s := &ls.shares[i]
		s.mu.Lock()
		for id, until := range s.bans {
			if until > now {
				list = append(list, KeyBan{id.name, id.key, until})
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b KeyBan) int {
		return cmp.Or(cmp.Compare(b.Until, a.Until), strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key))
	})
	return list[:min(n, len(list))]
}

// forgetBans drops the bans that are over. The caller holds s.mu.
func (ls *Table) forgetBans(s *share, nowMs int64) {
	for id, until := range s.bans {
		if until <= nowMs {
			ls.unban(s, id)
		}
	}
}

var errBan = errors.New("is no ban")

// readBan reads until when a ban is: an unsigned varint.
func readBan(b []byte) (until int64, err error) {
	r := wire.NewReader(b)
	until = int64(r.AtMost(1<<63 - 1))
	if !r.Done() {
		return 0, errBan
	}
	return until, nil
}

// forgetName is the name in records of changeForget, which is about limits of all names.
const forgetName = "keys"

// ForgetKeys forgets what the keys that begin with prefix have used of all limits, on whatever node, as Reset does for one key of one
// limit: with their grants and bans. It returns of how many keys there was something here, each counted for each limit.
//
// Cost: O(keys with limits in use), a partition at a time; each partition's next cut tells of it.
func (ls *Table) ForgetKeys(prefix string) (keys int, err error) {
	if why := ls.taken.Load(); why != nil {
		return 0, &OverloadedError{*why}
	}
	record := changeRecord(forgetName, changeForget) + prefix
	for i := range ls.shares {
		s := &ls.shares[i]
		s.mu.Lock()
		keys += ls.forgetKeys(s, prefix, func(st *entry) {
			delete(s.fresh, st)
			ls.drop(s, st)
		})
		ls.journalRecord(s, record, "*", ceilMs(ls.Clock.Now()+ls.Clock.Ahead()), 1)
		s.mu.Unlock()
	}
	return keys, nil
}

// forgetKeys calls reset with the states of keys that begin with prefix, and forgets their grants, bans and reservations. It
// returns of how many keys there was something. The caller holds s.mu.
func (ls *Table) forgetKeys(s *share, prefix string, reset func(st *entry)) int {
	was := map[grantID]struct{}{}
	s.table.Load().EachWith(prefix, func(st *entry) {
		was[grantID{BaseName(st.Value.plan.Name.Name), st.Key()}] = struct{}{}
		reset(st)
	})
	for id := range s.grants {
		if strings.HasPrefix(id.key, prefix) {
			ls.ungrant(s, id)
			was[id] = struct{}{}
		}
	}
	for id := range s.bans {
		if strings.HasPrefix(id.key, prefix) {
			ls.unban(s, id)
			was[id] = struct{}{}
		}
	}
	s.forgetReserved(func(id partID) bool { return strings.HasPrefix(id.key, prefix) })
	return len(was)
}
