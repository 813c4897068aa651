package admission

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// A grant is admissions that a key has beside a limit until a time: a request that the
// limit would deny uses what is left of the limit, and the rest of the grant. So no more
// than the limit's own bound and the grant is ever admitted.
type grant struct {
	left  uint64
	until int64  // Unix ms, by the time of day
	spent uint64 // since the last cut
}

// grantID names a grant. The limit has the name that it was given: what nodes count apart
// has one grant for all of them.
type grantID struct{ name, key string }

// MaxGrants bounds the grants that are made in one table; those of other nodes come beside.
const MaxGrants = 10_000

// Grant gives a key n admissions beside the limit of a name until a time of day in Unix ms,
// in place of what was left of an earlier grant; n of 0 takes that back.
func (ls *Table) Grant(name *Name, partition int, key string, n uint64, until int64) error {
	s := &ls.shares[partition]
	now := ls.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := ls.taken.Load(); why != nil {
		return &OverloadedError{*why}
	}
	id := grantID{BaseName(name.Name), strings.Clone(key)}
	if n > 0 && s.grants[id] == nil && ls.grants.Load() >= MaxGrants {
		return &OverloadedError{"10,000 grants are in use: wait until some are over, or take some back (a grant of 0)"}
	}
	ls.grant(s, id, min(n, limit.MaxBurst), until, ceilMs(now+ls.Clock.Ahead()))
	made := grant{left: min(n, limit.MaxBurst), until: until}
	ls.journalRecord(s, made.record(id.name), key, ceilMs(now+ls.Clock.Ahead()), 1)
	return nil
}

// grant puts a grant in, or takes it out. The caller holds s.mu.
func (ls *Table) grant(s *share, id grantID, n uint64, until, nowMs int64) {
	if n == 0 || until <= nowMs {
		ls.ungrant(s, id)
		return
	}
	if s.grants == nil {
		s.grants = map[grantID]*grant{}
	}
	if s.grants[id] == nil {
		ls.grants.Add(1)
	}
	s.grants[id] = &grant{left: n, until: until}
}

// ungrant takes a grant out. The caller holds s.mu.
func (ls *Table) ungrant(s *share, id grantID) (was bool) {
	if _, was = s.grants[id]; was {
		delete(s.grants, id)
		ls.grants.Add(-1)
	}
	return was
}

// granted is the grant of a key that is in use, or nil. The caller holds s.mu.
func (ls *Table) granted(s *share, plan *Plan, key string, now int64) *grant {
	if len(s.grants) == 0 {
		return nil
	}
	g := s.grants[grantID{BaseName(plan.Name.Name), key}]
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

// takeOf takes n of a limit, and what it has not of the grant. The caller holds s.mu.
func (ls *Table) takeOf(s *share, g *grant, st *entry, now int64, n uint64) limit.Verdict {
	v := g.peek(st.Value.plan, &st.Value.state, now, n)
	if !v.Allowed || n == 0 {
		return v
	}
	own := min(n, v.Remaining-g.left)
	before := cellBytes(st)
	taken := st.Value.plan.Take(&st.Value.state, now, own)
	ls.decided(s, st, now, own, true, before)
	g.left -= n - own
	g.spent += n - own
	taken.Remaining += g.left
	return taken
}

// forgetGrants drops the grants that are over. The caller holds s.mu.
func (ls *Table) forgetGrants(s *share, nowMs int64) {
	for id, g := range s.grants {
		if g.until <= nowMs {
			ls.ungrant(s, id)
		}
	}
}

// grantIDs are the grants of a share, in order. The caller holds s.mu.
func (s *share) grantIDs() (ids []grantID) {
	for id := range s.grants {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b grantID) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.key, b.key))
	})
	return ids
}

// record is a grant in bytes: that of the change, then as append has it. Times of admissions are told by
// other nodes' clocks, and counts are 1 or more: neither would do.
func (g *grant) record(name string) string {
	return string(g.append([]byte(changeRecord(name, changeGrant))))
}

// append appends what is left and until when, as unsigned varints.
func (g *grant) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, g.left), uint64(g.until))
}

var errGrant = errors.New("is no grant")

func readGrant(b []byte) (g grant, err error) {
	r := wire.NewReader(b)
	g = grant{left: r.AtMost(limit.MaxBurst), until: int64(r.AtMost(1<<63 - 1))}
	if !r.Done() {
		return g, errGrant
	}
	return g, nil
}

// keyGrant is a grant that was read.
type keyGrant struct {
	id grantID
	grant
}

// restoreGrants takes grants back. The caller holds s.mu.
func (ls *Table) restoreGrants(s *share, list []keyGrant) {
	nowMs := ceilMs(ls.Clock.Now() + ls.Clock.Ahead())
	for _, g := range list {
		ls.grant(s, g.id, g.left, g.until, nowMs)
	}
}

// cutSpent appends what was used of grants since the cut before. The caller holds s.mu.
func (s *share) cutSpent(list []replication.Admission, nowMs int64) []replication.Admission {
	for id, g := range s.grants {
		if g.spent > 0 {
			list = append(list, replication.Admission{Limit: changeRecord(id.name, changeSpend), Key: id.key, At: nowMs, N: g.spent})
			g.spent = 0
		}
	}
	return list
}
