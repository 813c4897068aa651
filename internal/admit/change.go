package admit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// Changed is the result of a change to what one key has used of one limit.
type Changed struct {
	Name           string // of the limit
	Key            string // that is counted
	Asked          int    // Refund: the place of its request
	Reserved       uint64 // Settle: how many were reserved of this limit
	Banned         bool   // Hold: a limit of the request bans its key
	Limit          engine.Limit
	engine.Changed // as far as the node that made it knows
}

// Reset forgets what a key, as it is counted, has used of the limit of a name, on all nodes, and takes its grant back.
// If no limit has the name, ok is false.
//
// The error is a *engine.Error. CodeInvalidLimit means that no policy, Prepared or inline limit has the name.
// CodeNotHeld means that the nodes that decide for the key do not answer. Other errors are as for
// engine.KeyedLimit.Reset.
func (l *Live) Reset(name, key string) (made Changed, ok bool, err error) {
	return l.changeNamed(engine.Change{Kind: engine.ChangeReset}, name, key, 0)
}

// resetsAtOnce is how many limits of a key ResetInline resets at the same time: in a cluster each waits for the journal.
const resetsAtOnce = 64

// ResetInline is Reset of all limits that requests brought along for a key. It returns how many of them had something to forget, also
// with an error. In a cluster it resets all limits that requests brought to this node: the journal may not have yet what was used
// of them. After an error, or once ctx has ended, it resets no more.
func (l *Live) ResetInline(ctx context.Context, key string) (was int, err error) {
	names := l.engine.Limits().InlineNames(key)
	if l.cluster.Owners != nil {
		l.inline.mu.RLock()
		names = slices.AppendSeq(names, maps.Keys(l.inline.names))
		l.inline.mu.RUnlock()
	}
	slices.Sort(names)
	for part := range slices.Chunk(slices.Compact(names), resetsAtOnce) {
		if ctx.Err() != nil {
			return was, context.Cause(ctx)
		}
		var resetting sync.WaitGroup
		made, errs := make([]Changed, len(part)), make([]error, len(part))
		for i, name := range part {
			resetting.Go(func() { made[i], _, errs[i] = l.Reset(name, key) })
		}
		resetting.Wait()
		for _, one := range made {
			if one.Was {
				was++
			}
		}
		if err := cmp.Or(errs...); err != nil {
			return was, err
		}
	}
	return was, nil
}

// Grant is engine.KeyedLimit.Grant for a counted key of the limit of a name, as for Reset. For a key that the policy never
// counts it fails with CodeInvalidKey, unless n is 0.
func (l *Live) Grant(name, key string, n uint64, until time.Time) (made Changed, ok bool, err error) {
	if n > 0 && !l.IsInline(name, key) {
		if err := l.Set().Counts(name, key); err != nil {
			return Changed{}, true, err
		}
	}
	return l.changeNamed(engine.Change{Kind: engine.ChangeGrant, At: until}, name, key, n)
}

// Refund gives back what Take took for requests, all at one time (engine.KeyedLimit.Refund): the N of each limit that
// is for a request. It appends the result of each limit to made. Errors are as for Take, or CodeNotHeld; the refunds
// in made were made anyway.
//
// With an ID, of any length, a refund may be repeated within ten minutes. The repeat gives back what the first one did
// not, and returns the first results again.
func (l *Live) Refund(reqs []Request, taken time.Time, id, tenant string) (made []Changed, err error) {
	return l.changeEach(engine.Change{Kind: engine.ChangeRefund, At: taken}, reqs, id, tenant)
}

// Use counts the N of each limit that is for a request as used, whatever the limit says. Errors are as for Refund.
func (l *Live) Use(reqs []Request, tenant string) error {
	_, err := l.changeEach(engine.Change{Kind: engine.ChangeUse}, reqs, "", tenant)
	return err
}

// Hold is one part of a limit that somebody outside Weir uses without asking.
type Hold struct {
	Used    uint64 // counted as used first, whatever the limit says
	Counted func() // called once Used is counted, even if the hold fails then
	Need    uint64
	Want    uint64
	Life    time.Duration // how long the hold counts, and after that an interval of the limit longer
}

// Hold renews the hold of an ID in all enforcing limits that match a request. order says what is wanted of each limit. In each
// result, Used is what is held from now on, and Freed its share: see admission.Table.SetHold. A banned key gets nothing, but what
// it needs stays held.
func (l *Live) Hold(req Request, id, tenant string, seq uint64, order func(name string, rule engine.Limit) Hold) (made []Changed, err error) {
	d := Decision{Tenant: tenant}
	if err := l.gather(l.bound.Load(), &req, &d); err != nil {
		return nil, err
	}
	banned := slices.ContainsFunc(d.Results, func(r Result) bool { return r.Mode == policy.Enforce && l.engine.Limits().Banned(r.Name, r.Key) > 0 })
	for i, c := range d.checks {
		if c.Shadow {
			continue
		}
		target, want := boundLimit{limit: c.Limit, elsewhere: d.elsewhere[i]}, order(c.Limit.Name(), c.Limit.Limit())
		if want.Used > 0 {
			if _, err := l.change(engine.Change{Kind: engine.ChangeUse}, target, c.Key, want.Used); err != nil {
				return made, err
			}
			want.Counted()
		}
		if banned {
			want.Want = 0
		}
		one, err := l.change(engine.Change{Kind: engine.ChangeHold, ID: id, Parts: seq, Content: want.Need, Ago: want.Life}, target, c.Key, want.Want)
		if err != nil {
			return made, err
		}
		one.Banned = banned
		made = append(made, one)
	}
	return made, nil
}

// changeEach makes a change to each limit that matches a request.
func (l *Live) changeEach(order engine.Change, reqs []Request, id, tenant string) (made []Changed, err error) {
	d := Decision{Tenant: tenant}
	b := l.bound.Load()
	for i := range reqs {
		d.asking = i
		if err := l.gather(b, &reqs[i], &d); err != nil {
			return made, err
		}
	}
	for i, c := range d.checks {
		if id != "" {
			order.ID = partID(id, d.Results[i].Asked, c.Limit.Name(), c.Key)
		}
		one, err := l.change(order, boundLimit{limit: c.Limit, elsewhere: d.elsewhere[i]}, c.Key, c.N)
		if err != nil {
			return made, err
		}
		one.Asked = d.Results[i].Asked
		made = append(made, one)
	}
	return made, nil
}

// partID returns the ID of one limit's part in a request with an ID.
func partID(id string, asked int, name, key string) string {
	sum := sha256.Sum256([]byte(id + "\x00" + strconv.Itoa(asked) + "\x00" + name + "\x00" + key))
	return hex.EncodeToString(sum[:])
}

func (l *Live) changeNamed(c engine.Change, name, key string, n uint64) (made Changed, ok bool, err error) {
	target, ok := l.named(name, key)
	if !ok {
		target, err = l.unwritten(name, InlineAway, engine.Limit{N: 1, Per: time.Second})
		if err != nil {
			return Changed{}, false, nil // no limit can have the name
		}
		defer target.limit.Release() // an inline limit that no request has brought along since the start
		if c.Kind != engine.ChangeReset && c.Kind != engine.ChangeSettle || !target.limit.InUse() && !strings.HasPrefix(name, policy.InlinePrefix) {
			return Changed{}, false, nil
		}
	}
	made, err = l.change(c, target, key, n)
	return made, true, err
}

// change makes one change where the key is decided: here, or at another node.
func (l *Live) change(c engine.Change, target boundLimit, key string, n uint64) (Changed, error) {
	made, answered, err := engine.Changed{}, false, error(nil)
	switch target.elsewhere {
	case nil:
		made, err = c.MakeOnce(l.engine, target.limit, key, n)
	case noPart:
		err = policy.Failure(api.CodeInvalidLimit, "limit", "region %s has no part of limit %s: nothing is used of it here", l.cluster.Region, target.limit.Name())
	default:
		made, answered, err = l.cluster.Owners.Change(c, engine.Check{Limit: target.limit, Key: key, N: n})
		if err == nil && !answered {
			err = policy.Failure(api.CodeNotHeld, "key", "the node that decides limit %s for this key did not answer: the change may have been made, or not; look at what the key has left before you ask for it again", target.limit.Name())
		}
	}
	return Changed{Name: target.limit.Name(), Key: key, Limit: target.limit.Limit(), Changed: made}, err
}

// named returns the limit of a name that may count a key: for a policy, the limit of the key's override if it has one.
func (l *Live) named(name, key string) (target boundLimit, ok bool) {
	b := l.bound.Load()
	inline := l.inlineLimit(name)
	if at, ok := b.set.Place(name); ok && (inline.limit == nil || b.set.Counts(name, key) == nil) {
		return b.limitOf(at, key), true
	}
	if p, ok := l.prepared.Load(name); ok {
		return p.(*Prepared).boundLimit, true
	}
	return inline, inline.limit != nil
}

// inlineLimit returns a limit that requests brought along under a name; its limit is nil if there is none.
func (l *Live) inlineLimit(name string) boundLimit {
	l.inline.mu.RLock()
	defer l.inline.mu.RUnlock()
	return l.inline.names[name]
}

// IsInline reports whether a key is counted under the name of limits that requests brought along, and under no policy of the name.
func (l *Live) IsInline(name, key string) bool {
	if _, prepared := l.preparedLimit(name); prepared {
		return false
	}
	if set := l.Set(); set.Counts(name, key) == nil {
		if _, taken := set.Place(name); taken {
			return false
		}
	}
	return strings.HasPrefix(name, policy.InlinePrefix) || l.inlineLimit(name).limit != nil
}

// MayCount reports whether a limit of the name, if it exists, may count a key. It may not if a policy counts only other
// keys, or if the limit belongs to a listener.
func (l *Live) MayCount(name, key string) bool {
	if _, prepared := l.preparedLimit(name); prepared {
		return false
	}
	return l.Set().Counts(name, key) == nil || l.IsInline(name, key)
}

// banned denies the requests if one of their keys is banned, and reports whether one is. Nothing is taken. Policies in shadow mode ban
// nobody. The verdicts of other limits are what this node knows of them.
func (l *Live) banned(d *Decision) bool {
	any := false
	for i := range d.Results {
		r := &d.Results[i]
		if r.Mode != policy.Enforce {
			continue
		}
		if left := l.engine.Limits().Banned(r.Name, r.Key); left > 0 {
			r.Banned, any = true, true
			r.RetryAfter = left
		}
	}
	if !any {
		return false
	}
	d.verdicts = slices.Grow(d.verdicts[:0], len(d.checks))[:len(d.checks)]
	if _, err := l.engine.Limits().PeekAll(d.checks, d.verdicts); err != nil {
		clear(d.verdicts)
	}
	for i := range d.Results {
		if r := &d.Results[i]; r.Banned {
			d.verdicts[i] = engine.Verdict{RetryAfter: r.RetryAfter, Reset: max(r.RetryAfter, d.verdicts[i].Reset)}
		}
	}
	d.applyVerdicts(false)
	d.wait = 0 // a ban outlasts any wait
	return true
}

// BanDenied bans the keys that policies with a DenyFor have just denied. It calls may before each ban, and leaves the ban out if may
// fails. A decision without a Tenant has done so already. Without a ban, the limit goes on denying what is over it.
func (l *Live) BanDenied(d *Decision, may func() error) {
	if d.Allowed {
		return
	}
	for i := range d.Results {
		r := &d.Results[i]
		if r.denyFor == 0 || r.Allowed || r.Never || r.Banned || r.Away != "" || r.Mode != policy.Enforce || r.N == 0 {
			continue
		}
		err := may()
		if err == nil {
			err = l.Ban(r.Name, r.Key, r.denyFor)
		}
		if err != nil {
			l.bansFailed.Add(1)
			continue
		}
		r.RetryAfter = max(r.RetryAfter, r.denyFor)
		d.RetryAfter = max(d.RetryAfter, r.RetryAfter)
	}
}

// Ban bans a key, as it is counted, under the policy of a name: all nodes deny it from now on for length, at most
// engine.MaxBan. It replaces an earlier ban. This node knows the ban at once, the others when they follow the next
// flush. The error is a *engine.Error: CodeInvalidLimit if no policy that enforces has the name, CodeInvalidKey for a
// key that it never counts, CodeOverloaded if there are too many bans.
func (l *Live) Ban(name, key string, length time.Duration) error {
	set := l.Set()
	at, ok := set.Place(name)
	if !ok {
		return set.Unknown(name)
	}
	if set.At(at).Mode != policy.Enforce {
		return policy.Failure(api.CodeInvalidLimit, "name", "limit %s is in shadow mode, which denies nobody", name)
	}
	if err := set.Counts(name, key); err != nil {
		return err
	}
	if length < policy.MinDenyFor || length > engine.MaxBan {
		return policy.Failure(api.CodeInvalidTime, "for", "a ban for %s: must be 1s to 366d", units.FormatDuration(length))
	}
	return l.engine.Limits().Ban(name, key, length)
}

// Unban lifts the ban of a key under the limit of a name, on all nodes. It reports whether this node knew of the ban.
func (l *Live) Unban(name, key string) (was bool, err error) {
	was = l.engine.Limits().Banned(name, key) > 0
	return was, l.engine.Limits().Ban(name, key, 0)
}

// LiftBans lifts all bans under the limit of a name that this node knows, on all nodes.
func (l *Live) LiftBans(name string) error {
	for _, b := range l.engine.Limits().Bans(math.MaxInt) {
		if b.Name != name {
			continue
		}
		if err := l.engine.Limits().Ban(name, b.Key, 0); err != nil {
			return err
		}
	}
	return nil
}

// Full reports whether the limit of a name would now deny a counted key one admission, or can't be asked.
func (l *Live) Full(name, key string) bool {
	target, ok := l.named(name, key)
	if !ok {
		return false
	}
	check, verdicts := []engine.Check{{Limit: target.limit, Key: key, N: 1}}, make([]engine.Verdict, 1)
	allowed, answered, err := false, true, error(nil)
	switch target.elsewhere {
	case nil:
		allowed, err = l.engine.Limits().PeekAll(check, verdicts)
	case noPart:
	default:
		allowed, answered, err = l.cluster.Owners.Decide(context.Background(), check, verdicts, false)
	}
	return err != nil || !answered || !allowed
}

// BansFailed returns how many bans of DenyFor failed: there were 100,000 bans, an identity had used up its Share, or the
// journal could take no more.
func (l *Live) BansFailed() uint64 { return l.bansFailed.Load() }
