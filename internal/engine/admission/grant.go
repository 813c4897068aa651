package admission

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// A grant is admissions that a key has in addition to a limit until a time. A request that the
// limit would deny uses what is left of the limit, and the rest of the grant. So no more
// than the limit's own bound and the grant is ever admitted.
type grant struct {
	n     uint64 // at first; 0: it was taken back
	left  uint64
	until int64  // Unix ms, by the time of day; of one that was taken back: until when that is known
	spent uint64 // since the last cut
	after int64  // Unix ms: grants that were made before it came late
}

// A grant may come in the journal after it was taken back: a former owner of the key made it, and never answered. Its caller asked
// the next owner too, or gave up. So a grant that was made before a grant was taken back changes nothing. What the next owner
// grants the key after that is later, whatever its clock says.
const (
	// lateClocks is how far the clocks of two owners may differ, in ms: each is known to a second.
	lateClocks = 2000

	// lateMost is for how long a key is known whose grant was taken back, in ms.
	lateMost = int64(24 * time.Hour / time.Millisecond)
)

// MaxGrants bounds the grants that are made in one table, and those that were taken back and are known. Grants of other nodes are in
// addition.
const MaxGrants = 10_000

// Grant gives the key n admissions in addition to the limit, 1 to limit.MaxBurst, usable until a time of day. A request
// that the limit would deny uses what is left of the limit, and takes the rest from the grant. A grant replaces an
// earlier grant of the key; the same n and until again change nothing, so it may be sent again. n = 0 takes it back. All limits of the
// name share one grant.
func (l *KeyedLimit) Grant(key string, n uint64, until time.Time) error {
	if err := keyspace.CheckKey(key); err != nil {
		return err
	}
	if n > limit.MaxBurst {
		return &keyspace.Error{Code: api.CodeInvalidCount, Field: "n", Message: fmt.Sprintf("a grant of %d: at most %d", n, uint64(limit.MaxBurst))}
	}
	ls, end := l.table, int64(0) // Unix ms
	if n > 0 {
		ns, err := unixNano("until", until)
		if err != nil {
			return err
		}
		if now := ls.Clock.Wall.Time(); !until.After(now) {
			return &keyspace.Error{Code: api.CodeInvalidTime, Field: "until", Message: fmt.Sprintf("%s is over: it is %s", until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
		}
		end = ns / msOfNs
	}
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	if err := ls.RefusesChange(); err != nil {
		return err
	}
	id, at := keyID{baseName(l.name.Name), key}, ls.nowMs()
	g := s.grants[id]
	if n > 0 && (g == nil || g.n == 0) && ls.grants.Load() >= MaxGrants {
		return overloaded("10,000 grants are in use: wait until some are over, or take some back (a grant of 0)")
	}
	if g != nil {
		at = max(at, g.after)
	}
	ls.grant(s, id, n, end, at)
	ls.record(s, ls.granting(id, n, end, at))
	return nil
}

// granting is a grant that was made at a time in Unix ms as a change.
func (ls *Table) granting(id keyID, n uint64, until, at int64) *replication.Grant {
	return &replication.Grant{ChangeOf: changeAt(id.name, id.key, at*msOfNs-ls.Clock.Ahead()), N: n, Until: until}
}

// grant puts a grant in that was made at a time in Unix ms, or takes it out. One of the same size and end as the key's is the same: two
// owners of the key may have been asked for it, and the journal may have both, in any order. The caller holds s.mu.
func (ls *Table) grant(s *share, id keyID, n uint64, until, at int64) {
	g := s.grants[id]
	switch {
	case n == 0:
		ls.takeBack(s, id, at)
		return
	case g != nil && at < g.after || g != nil && g.n == n && g.until == until:
		return
	case until <= ls.nowMs():
		ls.endGrant(s, id)
		return
	}
	made := grant{n: n, left: n, until: until}
	if g != nil {
		made.after = g.after
	}
	ls.putGrant(s, id, made)
}

// takeBack takes a grant out, at a time in Unix ms. The caller holds s.mu.
func (ls *Table) takeBack(s *share, id keyID, at int64) (was bool) {
	after := at + lateClocks
	if g := s.grants[id]; g != nil {
		after = max(after, g.after)
	}
	until := at + lateMost
	if until <= ls.nowMs() || ls.takenBack.Load() >= MaxGrants {
		return ls.ungrant(s, id)
	}
	return ls.putGrant(s, id, grant{until: until, after: after})
}

// putGrant puts a grant in the place of the key's, and reports whether it had one. The caller holds s.mu.
func (ls *Table) putGrant(s *share, id keyID, made grant) (was bool) {
	g := s.grants[id]
	if g == nil {
		if s.grants == nil {
			s.grants = map[keyID]*grant{}
		}
		g = &grant{}
		s.grants[id.clone()] = g
	} else {
		was = g.n > 0
		ls.grantsOf(g).Add(-1)
	}
	*g = made
	ls.grantsOf(g).Add(1)
	return was
}

// ungrant forgets a grant, or that it was taken back. It reports whether there was one. The caller holds s.mu.
func (ls *Table) ungrant(s *share, id keyID) (was bool) {
	g := s.grants[id]
	if g == nil {
		return false
	}
	delete(s.grants, id)
	ls.grantsOf(g).Add(-1)
	return g.n > 0
}

// endGrant forgets a grant that is over, but not when one of the key was taken back before it. The caller holds s.mu.
func (ls *Table) endGrant(s *share, id keyID) {
	if g := s.grants[id]; g != nil && g.after > 0 && g.n > 0 {
		ls.takeBack(s, id, g.after-lateClocks)
		return
	}
	ls.ungrant(s, id)
}

// grantsOf is how many there are like one.
func (ls *Table) grantsOf(g *grant) *atomic.Int64 {
	if g.n == 0 {
		return &ls.takenBack
	}
	return &ls.grants
}

// Grants calls f with each grant that is in use. f must not call the engine.
func (ls *Table) Grants(f func(name, key string)) {
	ls.eachShare(func(_ int, s *share) {
		for id, g := range s.grants {
			if g.n > 0 {
				f(id.name, id.key)
			}
		}
	})
}

// granted is the grant of a key that is in use, or nil. The caller holds s.mu.
func (ls *Table) granted(s *share, plan *Plan, key string, now int64) *grant {
	if len(s.grants) == 0 {
		return nil
	}
	g := s.grants[keyID{baseName(plan.Name.Name), key}]
	if g == nil || g.n == 0 || g.until <= ls.unixMs(now) {
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
func (a *request) peek(now int64, n uint64) limit.Verdict {
	st := &a.state.Value.state
	if a.outstanding == 0 {
		return a.grant.peek(a.plan, st, now, n)
	}
	extra := uint64(0)
	if a.grant != nil {
		extra = a.grant.left
	}
	burst, free := a.plan.Limit().Burst, a.free(now)
	own := n - min(n, extra)
	v := a.plan.Peek(st, now, min(burst, own+min(a.outstanding, burst)))
	v.Allowed, v.Never, v.Remaining = n <= free+extra, own > burst, free+extra
	switch {
	case v.Allowed:
		v.RetryAfter = 0
	case v.RetryAfter == 0 && !v.Never: // nothing is used: it is all out
		v.RetryAfter = a.plan.Interval()
	}
	return v
}

// free is what of the limit is neither used nor out.
func (a *request) free(now int64) uint64 {
	free := a.plan.Peek(&a.state.Value.state, now, 0).Remaining
	return free - min(free, a.outstanding)
}

// takeGranted takes what peek has allowed: of the limit what is free, and the rest of the grant. The
// caller holds the lock of the key's share.
func (ls *Table) takeGranted(a *request, now int64) limit.Verdict {
	own := min(a.N, a.free(now))
	before := cellBytes(a.state)
	v := a.plan.Take(&a.state.Value.state, now, own)
	ls.decided(&ls.shares[a.partition], a.state, now, own, true, before)
	a.grant.left -= min(a.grant.left, a.N-own)
	a.grant.spent += a.N - own
	v.Remaining += a.grant.left
	v.Remaining -= min(v.Remaining, a.outstanding)
	return v
}
