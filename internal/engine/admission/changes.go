package admission

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// A change is what somebody does to what a key has used, except for requests. The journal has the changes of a partition in their order.
// Admissions that were gathered before a change of their key are journaled before it, or are less by it.

// newest is the time of the newest admissions, for a refund.
const newest = math.MaxInt64

// Refund gives back up to n admissions that the key took, all at one time. It returns by how many more are free for it.
// That is less than n if some have left the window, or the bucket has filled since. taken is by the time of day; the
// zero Time stands for the newest admissions. The limit holds for what was really used, if taken is right.
//
// A change to what a key has used is journaled as its admissions are. The error is an Error as for Take.
func (l *KeyedLimit) Refund(key string, n uint64, taken time.Time) (free uint64, err error) {
	if err := keyspace.CheckKey(key); err != nil {
		return 0, err
	}
	ls, plan, at := l.table, l.plan.Load(), int64(newest)
	if !taken.IsZero() {
		if at, err = unixNano("taken", taken); err != nil {
			return 0, err
		}
		at -= ls.Clock.Ahead()
	}
	now := ls.Clock.Now()
	s := ls.lockedOf(key)
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
	free, given := ls.refund(st, now, at, min(n, limit.MaxBurst))
	if !plan.journaled {
		return free, nil
	}
	// What was not here to be given back is not given back where more was admitted either.
	if given = ls.unnote(s, st, at, given); given > 0 {
		ls.record(s, &replication.Refund{ChangeOf: changeAt(plan.Name.Name, key, floored(min(at, now))), N: given})
	}
	return free, nil
}

// unixNano is a time that an int64 has.
func unixNano(field string, t time.Time) (int64, error) {
	if s := t.Unix(); s < 0 || s > 9_000_000_000 {
		return 0, &keyspace.Error{Code: api.CodeInvalidTime, Field: field, Message: fmt.Sprintf("%s: must be 1970 to 2255", t.UTC().Format(time.RFC3339))}
	}
	return t.UnixNano(), nil
}

// unnote takes up to n admissions that were taken at a time out of the next cut: the journal does not get them. It returns how many
// are left for a change, which comes after all that was noted. The caller holds s.mu.
func (ls *Table) unnote(s *share, st *entry, at int64, n uint64) (left uint64) {
	gathered, fresh := s.fresh[st]
	if !fresh {
		return n
	}
	if at >= gathered.first {
		some := min(n, gathered.n)
		n, gathered.n = n-some, gathered.n-some
		if s.fresh[st] = gathered; gathered.n == 0 {
			delete(s.fresh, st)
		}
	}
	if n > 0 {
		ls.close(s, st)
	}
	return n
}

// refund is limit.Plan.Refund of a state, of admissions that one cut has. The caller holds s.mu.
func (ls *Table) refund(st *entry, now, at int64, n uint64) (free, given uint64) {
	before := cellBytes(st)
	last := at
	if at < newest {
		last += int64(together)
		if st.Value.plan.Strict {
			last += int64(strictSlack)
		}
	}
	free, given = st.Value.plan.Refund(&st.Value.state, now, at, last, n)
	ls.grow(st.Value.plan, int64(cellBytes(st)-before))
	return free, given
}

// Reset forgets what the key has used of all limits of the name, with its grant and its ban: it has its whole burst again. This
// includes limits that the nodes of a cluster count separately. It reports whether there was something to forget.
func (l *KeyedLimit) Reset(key string) (was bool, err error) {
	if err := keyspace.CheckKey(key); err != nil {
		return false, err
	}
	ls := l.table
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	if err := ls.RefusesChange(); err != nil {
		return false, err
	}
	base := baseName(l.name.Name)
	was = ls.reset(s, base, key, ls.nowMs(), ls.forgetState)
	ls.record(s, &replication.Reset{ChangeOf: ls.changeOf(base, key)})
	return was, nil
}

// reset calls forget with the states of a key under the limit of a name, and forgets its grant, ban and reservations. The caller holds s.mu.
func (ls *Table) reset(s *share, base, key string, at int64, forget func(s *share, st *entry)) (was bool) {
	for _, name := range ls.namesOf(base) {
		if st := s.find(ls.hash(name, key), name, key); st != nil {
			was = true
			forget(s, st)
		}
	}
	if id := (keyID{base, key}); s.grants[id] != nil {
		was = ls.takeBack(s, id, at) || was
	}
	was = ls.unban(s, keyID{base, key}) || was
	ls.forgetReserved(s, func(id partID) bool { return id.key == key && baseName(id.name) == base })
	return was
}

// forgetState forgets what a key has used, with what no cut has yet. The caller holds s.mu.
func (ls *Table) forgetState(s *share, st *entry) {
	delete(s.fresh, st)
	ls.drop(s, st)
}

// resetState forgets what a key used before a place in the journal. What no cut has yet comes after that place. The caller holds s.mu.
func (ls *Table) resetState(s *share, st *entry) {
	gathered, fresh := s.fresh[st]
	closed, now := s.closed[st], ls.Clock.Now()
	if !fresh && closed == 0 {
		ls.drop(s, st)
		return
	}
	ls.grow(st.Value.plan, -bytesOf(st))
	st.Value.state = limit.State{}
	st.Value.plan.Charge(&st.Value.state, now, closed)
	st.Value.plan.Charge(&st.Value.state, gathered.at, gathered.n)
	ls.grow(st.Value.plan, bytesOf(st))
}

// namesOf are the names that what is used of the limit of a name is kept by: itself, and the names for
// nodes.
func (ls *Table) namesOf(base string) (list []*Name) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for text, name := range ls.names {
		if baseName(text) == base {
			list = append(list, name)
		}
	}
	return list
}

// baseName is the name that a limit was given, of the name that its states are kept by.
func baseName(kept string) string {
	base, _, _ := strings.Cut(kept, nodeMark)
	return base
}

// stateOf is the state of a key by the name that it is kept by, or nil. The caller holds s.mu.
func (ls *Table) stateOf(s *share, kept, key string) *entry {
	ls.mu.Lock()
	name := ls.names[kept]
	ls.mu.Unlock()
	if name == nil {
		return nil
	}
	return s.find(ls.hash(name, key), name, key)
}

// ForgetKeys forgets what the keys that begin with prefix have used of all limits, with their grants and bans. It is
// KeyedLimit.Reset of all of them. It returns how many keys had something to forget here, each counted for each limit.
// With a journal, other nodes forget too when they follow the next flush, and a restart brings nothing back. Admissions
// that another node makes meanwhile may stay. The error is api.CodeInvalidKey if the prefix is empty or longer than a
// key, and api.CodeOverloaded while the journal can take no more.
//
// Cost: O(keys with limits in use), a partition at a time.
func (ls *Table) ForgetKeys(prefix string) (keys int, err error) {
	if err := keyspace.CheckKey(prefix); err != nil {
		return 0, err
	}
	return ls.forgetAll(func(s *share) int {
		ls.record(s, &replication.ForgetKeys{ChangeOf: ls.changeOf("", prefix)})
		return ls.forgetKeys(s, prefix, ls.nowMs(), ls.forgetState)
	})
}

// forgetKeys calls forget with the states of keys that begin with prefix, and forgets their grants, bans and reservations. It
// returns of how many keys there was something. The caller holds s.mu.
func (ls *Table) forgetKeys(s *share, prefix string, at int64, forget func(s *share, st *entry)) int {
	was := map[keyID]struct{}{}
	s.table.Load().EachWith(prefix, func(st *entry) {
		was[keyID{baseName(st.Value.plan.Name.Name), st.Key()}] = struct{}{}
		forget(s, st)
	})
	for id := range s.grants {
		if strings.HasPrefix(id.key, prefix) && ls.takeBack(s, id, at) {
			was[id] = struct{}{}
		}
	}
	for id := range s.bans {
		if strings.HasPrefix(id.key, prefix) {
			ls.unban(s, id)
			was[id] = struct{}{}
		}
	}
	ls.forgetReserved(s, func(id partID) bool { return strings.HasPrefix(id.key, prefix) })
	return len(was)
}

// ForgetInline forgets what keys have used of the inline limit of a name, or with "" of all: each has its whole burst
// again. It returns how many states there were here. With a journal, other nodes forget too when they follow the next
// flush, and a restart brings nothing back. Admissions that another node makes meanwhile may stay.
//
// Cost: O(keys with limits in use), a partition at a time.
func (ls *Table) ForgetInline(name string) (states int, err error) {
	if name != "" {
		if err := checkName(name); err != nil {
			return 0, err
		}
	}
	return ls.forgetAll(func(s *share) int {
		ls.record(s, &replication.ForgetInline{ChangeOf: ls.changeOf(name, "")})
		return ls.forgetInline(s, name)
	})
}

// forgetInline drops the states of the inline limit of a name, or with "" of all, also those that no cut
// has yet. The caller holds s.mu.
func (ls *Table) forgetInline(s *share, name string) (states int) {
	s.table.Load().Each(func(st *entry) {
		if plan := st.Value.plan; plan.Inline && (name == "" || plan.Name.Name == name) {
			ls.forgetState(s, st)
			states++
		}
	})
	return states
}

// forgetAll calls forget with each share, locked, and adds up what it returns.
func (ls *Table) forgetAll(forget func(s *share) int) (sum int, err error) {
	if err := ls.RefusesChange(); err != nil {
		return 0, err
	}
	ls.eachShare(func(_ int, s *share) { sum += forget(s) })
	return sum, nil
}
