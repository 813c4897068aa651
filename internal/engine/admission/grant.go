package admission

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
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

// Grants calls f with each grant that is in use. f must not call the table.
func (ls *Table) Grants(f func(name, key string)) {
	for i := range ls.shares {
		s := &ls.shares[i]
		s.mu.Lock()
		for id := range s.grants {
			f(id.name, id.key)
		}
		s.mu.Unlock()
	}
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

// What a node that decides a key has lent to others of its limit (package internal/cluster/grant) is out:
// those after it must know. It is kept, and journaled, as a state of its own for each limit, key and
// node that lends, by the name NAME@@NODE: one number, which each later one replaces, and how long
// it counts. In journals and snapshots it is an admission of that number and one, since 0 can't be.

// mostOut is the largest number that is out of one key: as many as any limit admits in held, and one
// less.
func mostOut(held time.Duration) uint64 { return uint64(held/time.Microsecond) - 1 }

// outName is the name by which it is kept what a node has lent of a limit.
func outName(name, holder string) string {
	return name + string(NodeMark) + string(NodeMark) + holder
}

// cutOutName takes an outName apart.
func cutOutName(kept string) (name, holder string, ok bool) {
	return strings.Cut(kept, string(NodeMark)+string(NodeMark))
}

// outPlan is the plan by which it is kept what is out for held, of the limit of a name.
func (ls *Table) outPlan(name, holder string, held time.Duration) (*Plan, error) {
	of := limit.Limit{Algorithm: limit.Window, N: mostOut(held) + 1, Per: held, Burst: mostOut(held) + 1}
	return ls.Recorded(limitRecord(outName(name, holder), of, recordStrict|recordOut))
}

// SetOut notes how much of a key's limit is out, lent by a node, for held from now on: instead of what
// SetOut said before. It is in the next cut.
func (ls *Table) SetOut(plan *Plan, holder string, partition int, key string, held time.Duration, out uint64) error {
	of, err := ls.outPlan(plan.Name.Name, holder, held)
	if err != nil {
		return fmt.Errorf("what is out of limit %s: %w", plan.Name.Name, err)
	}
	s := &ls.shares[partition]
	now := ls.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(out, mostOut(held)) + 1
	st := ls.setOut(s, of, key, now, n)
	if ls.gather {
		if s.fresh == nil {
			s.fresh = map[*entry]freshAdmissions{}
		}
		s.fresh[st] = freshAdmissions{n, now, now}
	}
	return nil
}

// setOut replaces what is out, unless what is there was said later. The caller holds s.mu.
func (ls *Table) setOut(s *share, plan *Plan, key string, at int64, n uint64) *entry {
	var said limit.State
	plan.Charge(&said, at, n)
	hash := ls.hash(plan.Name, key)
	st := s.find(hash, plan.Name, key)
	if st == nil {
		st = ls.put(s, hash, plan, key)
	} else if st.Value.plan.Peek(&st.Value.state, at, 0).Reset > plan.Peek(&said, at, 0).Reset && st.Value.plan.Limit() == plan.Limit() {
		return st
	}
	ls.grow(st.Value.plan, -bytesOf(st))
	st.Value.plan, st.Value.state = plan, said
	ls.grow(st.Value.plan, bytesOf(st))
	return st
}

// applyOut is apply of what another node has lent, or this one in an earlier life.
func (ls *Table) applyOut(partition int, plan *Plan, a replication.Admission, at int64) {
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	ls.setOut(s, plan, a.Key, at, a.N)
}

// Out is what is out of one key, lent by one node.
type Out struct {
	Limit, Key, Holder string
	Partition          int
	N                  uint64
	Until              int64 // by Now; it counts until then
}

// Outs calls f with all that is out of keys in some partitions. f runs under a lock of limits.
func (ls *Table) Outs(of func(partition int) bool, f func(Out)) {
	now := ls.Clock.Now()
	for i := range ls.shares {
		if !of(i) {
			continue
		}
		s := &ls.shares[i]
		s.mu.Lock()
		s.table.Load().Each(func(st *entry) {
			if !st.Value.plan.out {
				return
			}
			name, holder, _ := cutOutName(st.Value.plan.Name.Name)
			v := st.Value.plan.Peek(&st.Value.state, now, 0)
			if used := st.Value.plan.Limit().Burst - v.Remaining; used > 1 {
				f(Out{Limit: name, Key: st.Key(), Holder: holder, Partition: i, N: used - 1, Until: now + int64(v.Reset)})
			}
		})
		s.mu.Unlock()
	}
}

// Use counts n admissions of a key that were made at a time, not after now, without asking.
func (ls *Table) Use(plan *Plan, partition int, key string, at int64, n uint64) {
	now := ls.Clock.Now()
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := ls.hash(plan.Name, key)
	st := s.find(hash, plan.Name, key)
	if st == nil {
		st = ls.put(s, hash, plan, key)
	} else if st.Value.plan != plan {
		ls.adopt(st, plan, now)
	}
	before := cellBytes(st)
	at = min(at, now)
	plan.Charge(&st.Value.state, at, n)
	ls.decided(s, st, at, n, true, before)
}

// peek is what the request's limit says of n admissions, with what a grant adds, beside those that are
// out.
func (a *Request) peek(now int64, n uint64) limit.Verdict {
	st := &a.state.Value.state
	if a.Beside == 0 {
		return a.grant.peek(a.Plan, st, now, n)
	}
	extra := uint64(0)
	if a.grant != nil {
		extra = a.grant.left
	}
	burst, free := a.Plan.Limit().Burst, a.free(now)
	own := n - min(n, extra)
	v := a.Plan.Peek(st, now, min(burst, own+min(a.Beside, burst)))
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
	return free - min(free, a.Beside)
}

// takeBeside takes what peek has allowed: of the limit what is free, and the rest of the grant. The
// caller holds the lock of the key's share.
func (ls *Table) takeBeside(a *Request, now int64) limit.Verdict {
	own := min(a.N, a.free(now))
	before := cellBytes(a.state)
	v := a.Plan.Take(&a.state.Value.state, now, own)
	ls.decided(&ls.shares[a.Partition], a.state, now, own, true, before)
	a.grant.left -= min(a.grant.left, a.N-own)
	a.grant.spent += a.N - own
	v.Remaining += a.grant.left
	v.Remaining -= min(v.Remaining, a.Beside)
	return v
}
