package admission

import (
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// A grant is admissions that a key has in addition to a limit until a time. A request that the
// limit would deny uses what is left of the limit, and the rest of the grant. So no more
// than the limit's own bound and the grant is ever admitted.
type grant struct {
	n     uint64 // at first
	left  uint64
	until int64  // Unix ms, by the time of day
	spent uint64 // since the last cut
}

// MaxGrants bounds the grants that are made in one table. Grants of other nodes are in addition.
const MaxGrants = 10_000

// Grant gives a key n admissions more than the limit of a name until a time of day in Unix ms.
// It replaces an earlier grant; n of 0 takes that back.
func (ls *Table) Grant(name *Name, partition int, key string, n uint64, until int64) error {
	s := ls.locked(partition)
	defer s.mu.Unlock()
	if err := ls.RefusesChange(); err != nil {
		return err
	}
	id := keyID{BaseName(name.Name), key}
	if n > 0 && s.grants[id] == nil && ls.grants.Load() >= MaxGrants {
		return overloaded("10,000 grants are in use: wait until some are over, or take some back (a grant of 0)")
	}
	n = min(n, limit.MaxBurst)
	ls.grant(s, id, n, until)
	ls.record(s, &replication.Grant{ChangeOf: ls.changeOf(id.name, key), N: n, Until: until})
	return nil
}

// grant puts a grant in, or takes it out. One of the same size and end as the key's is the same: two owners of the key may have been asked
// for it, and the journal may have both, in any order. The caller holds s.mu.
func (ls *Table) grant(s *share, id keyID, n uint64, until int64) {
	if n == 0 || until <= ls.nowMs() {
		ls.ungrant(s, id)
		return
	}
	if s.grants == nil {
		s.grants = map[keyID]*grant{}
	}
	switch g := s.grants[id]; {
	case g == nil:
		ls.grants.Add(1)
	case g.n == n && g.until == until:
		return
	}
	s.grants[id.clone()] = &grant{n: n, left: n, until: until}
}

// ungrant takes a grant out. The caller holds s.mu.
func (ls *Table) ungrant(s *share, id keyID) (was bool) {
	if _, was = s.grants[id]; was {
		delete(s.grants, id)
		ls.grants.Add(-1)
	}
	return was
}

// Grants calls f with each grant that is in use. f must not call the table.
func (ls *Table) Grants(f func(name, key string)) {
	ls.eachShare(func(_ int, s *share) {
		for id := range s.grants {
			f(id.name, id.key)
		}
	})
}

// granted is the grant of a key that is in use, or nil. The caller holds s.mu.
func (ls *Table) granted(s *share, plan *Plan, key string, now int64) *grant {
	if len(s.grants) == 0 {
		return nil
	}
	g := s.grants[keyID{BaseName(plan.Name.Name), key}]
	if g == nil || g.until <= (now+ls.Clock.Ahead())/msOfNs {
		return nil
	}
	return g
}

// peek is what a plan says of n, with what a grant adds; g may be nil.
func (g *grant) peek(plan *Plan, state *limit.State, now int64, n uint64) limit.Verdict {
	v := plan.Peek(state, now, n)
	if g == nil {
		return v
	}
	switch {
	case v.Allowed:
	case n-v.Remaining <= g.left:
		v = limit.Verdict{Allowed: true, Remaining: v.Remaining, Reset: v.Reset}
	case n-g.left <= plan.Limit().Burst:
		v = plan.Peek(state, now, n-g.left) // when it passes with all of the grant
	}
	v.Remaining += g.left
	return v
}

// cutSpent appends what was used of grants since the cut before. The caller holds s.mu.
func (ls *Table) cutSpent(s *share, list []replication.Change) []replication.Change {
	for id, g := range s.grants {
		if g.spent > 0 {
			list = append(list, &replication.Spend{ChangeOf: ls.changeOf(id.name, id.key), N: g.spent})
			g.spent = 0
		}
	}
	return list
}

// peek is what the request's limit says of n admissions, with what a grant adds, where others are outstanding.
func (a *Request) peek(now int64, n uint64) limit.Verdict {
	st := &a.state.Value.state
	if a.Outstanding == 0 {
		return a.grant.peek(a.Plan, st, now, n)
	}
	extra := uint64(0)
	if a.grant != nil {
		extra = a.grant.left
	}
	burst, free := a.Plan.Limit().Burst, a.free(now)
	own := n - min(n, extra)
	v := a.Plan.Peek(st, now, min(burst, own+min(a.Outstanding, burst)))
	v.Allowed, v.Never, v.Remaining = n <= free+extra, own > burst, free+extra
	switch {
	case v.Allowed:
		v.RetryAfter = 0
	case v.RetryAfter == 0 && !v.Never: // nothing is used: it is all out
		v.RetryAfter = a.Plan.Interval()
	}
	return v
}

// free is what of the limit is neither used nor out.
func (a *Request) free(now int64) uint64 {
	free := a.Plan.Peek(&a.state.Value.state, now, 0).Remaining
	return free - min(free, a.Outstanding)
}

// takeGranted takes what peek has allowed: of the limit what is free, and the rest of the grant. The
// caller holds the lock of the key's share.
func (ls *Table) takeGranted(a *Request, now int64) limit.Verdict {
	own := min(a.N, a.free(now))
	before := cellBytes(a.state)
	v := a.Plan.Take(&a.state.Value.state, now, own)
	ls.decided(&ls.shares[a.Partition], a.state, now, own, true, before)
	a.grant.left -= min(a.grant.left, a.N-own)
	a.grant.spent += a.N - own
	v.Remaining += a.grant.left
	v.Remaining -= min(v.Remaining, a.Outstanding)
	return v
}
