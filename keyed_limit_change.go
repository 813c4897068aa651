package weir

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// Refund gives back up to n admissions that the key took, all at one time, and returns by
// how many more are free for it: fewer than n where some have left the window, or the
// bucket has filled since. taken is by the time of day; the zero Time stands for the
// newest admissions. The limit holds for what was really used, if taken is right.
//
// A change to what a key has used is journaled as its admissions are. The error is an
// Error as of Take.
func (l *KeyedLimit) Refund(key string, n uint64, taken time.Time) (free uint64, err error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	limits := l.engine.limits
	at := int64(admission.Newest)
	if !taken.IsZero() {
		if at, err = unixNano("taken", taken); err != nil {
			return 0, err
		}
		at -= limits.Clock.Ahead()
	}
	free, err = limits.Refund(l.plan.Load(), l.engine.keys.PartitionOf(key), key, at, n)
	return free, limitError(err)
}

// Reset forgets what the key has used of all limits of the name, those that nodes of a
// cluster count apart too, and its grant: it has its whole burst again. It tells whether
// there was something.
func (l *KeyedLimit) Reset(key string) (was bool, err error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	was, err = l.engine.limits.Reset(l.name, l.engine.keys.PartitionOf(key), key)
	return was, limitError(err)
}

// MaxGrants is how many grants an engine makes that are not over.
const MaxGrants = admission.MaxGrants

// Grant gives the key n admissions more than the limit, 1 to limit.MaxBurst, to be used until
// a time of day: a request that the limit would deny uses what is left of the limit, and the
// rest of the grant. It stands in place of an earlier grant of the key, so that it may be
// sent again; n of 0 takes that back. All limits of the name have one together.
func (l *KeyedLimit) Grant(key string, n uint64, until time.Time) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if n > limit.MaxBurst {
		return &Error{CodeInvalidCount, "n", fmt.Sprintf("a grant of %d: at most %d", n, uint64(limit.MaxBurst))}
	}
	var at int64
	if n > 0 {
		var err error
		if at, err = unixNano("until", until); err != nil {
			return err
		}
		if now := l.engine.clock.Wall.Time(); !until.After(now) {
			return &Error{CodeInvalidTime, "until", fmt.Sprintf("%s is over: it is %s", until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
		}
	}
	return limitError(l.engine.limits.Grant(l.name, l.engine.keys.PartitionOf(key), key, n, at/int64(time.Millisecond)))
}

// unixNano is a time that an int64 has.
func unixNano(field string, t time.Time) (int64, error) {
	if s := t.Unix(); s < 0 || s > 9_000_000_000 {
		return 0, &Error{CodeInvalidTime, field, fmt.Sprintf("%s: must be 1970 to 2255", t.UTC().Format(time.RFC3339))}
	}
	return t.UnixNano(), nil
}

const (
	// MaxBan is how long a ban is at most.
	MaxBan = 366 * 24 * time.Hour

	// MaxBans is how many bans an engine makes that are not over.
	MaxBans = admission.MaxBans
)

// KeyBan is a ban: the key is denied under the limit of the name, until a time of day.
type KeyBan struct {
	Name, Key string
	Until     time.Time
}

// Ban is that of package internal/engine/side.
func (r *side) Ban(name, key string, length time.Duration) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if length < 0 || length > MaxBan {
		return &Error{CodeInvalidTime, "for", fmt.Sprintf("a ban for %s: must be more than 0, and at most 366 days", length)}
	}
	until := int64(0)
	if length > 0 {
		limits := r.engine.limits
		until = (limits.Clock.Now() + limits.Clock.Ahead() + int64(length)) / int64(time.Millisecond)
	}
	return limitError(r.engine.limits.Ban(name, r.engine.keys.PartitionOf(key), key, until))
}

// Banned is that of package internal/engine/side.
func (r *side) Banned(name, key string) time.Duration {
	if !r.engine.limits.AnyBanned() {
		return 0
	}
	until, now := r.engine.limits.Banned(name, r.engine.keys.PartitionOf(key), key)
	return time.Duration(max(0, until-now)) * time.Millisecond
}

// Bans is that of package internal/engine/side.
func (r *side) Bans(n int) (list []KeyBan) {
	for _, b := range r.engine.limits.Bans(n) {
		list = append(list, KeyBan{b.Name, b.Key, time.UnixMilli(b.Until)})
	}
	return list
}

// limitSide is what a KeyedLimit shows to other packages of this module, and not to its
// users: see internal/engine/side.
type limitSide KeyedLimit

// keyedSide has an unexported name, so that the methods of KeyedLimit are those for its users.
type keyedSide = replication.SideOf[*limitSide]

// newKeyedLimit makes one without a plan, by the name that its states are kept by and the one that it was given.
func (e *Engine) newKeyedLimit(name *admission.Name, shown string) *KeyedLimit {
	l := &KeyedLimit{engine: e, name: name, shown: shown}
	l.keyedSide = replication.MakeSide((*limitSide)(l))
	return l
}

func (s *limitSide) Where() limit.Where {
	switch {
	case s.strict && !s.leased:
		return limit.WhereStrict
	case strings.IndexByte(s.name.Name, admission.NodeMark) >= 0:
		return limit.WhereNode
	}
	return limit.WhereLeased
}

func (r *side) LimitIn(node string, where limit.Where, name string, l Limit) (*KeyedLimit, error) {
	e := r.engine
	if err := checkLimitName(name); err != nil {
		return nil, err
	}
	if !admission.IsNodeName(node) {
		return nil, &Error{CodeInvalidLimit, "node", fmt.Sprintf("the name %.80q of a node: must be 1 to %d letters, digits or any of ._-", node, MaxLimitNameBytes)}
	}
	kept := name
	switch where {
	case limit.WhereNode:
		kept = admission.OfNode(name, node)
	case limit.WhereStrict, limit.WhereLeased:
	default:
		return nil, &Error{CodeInvalidLimit, "where", fmt.Sprintf("%v: must be leased, node or strict", where)}
	}
	return e.keyedLimit(kept, name, l, func(made *KeyedLimit) {
		made.journaled, made.leased = where != limit.WhereNode, where == limit.WhereLeased
		made.strict = made.leased || where == limit.WhereStrict
	})
}

func (s *limitSide) Record() string { return s.plan.Load().Record }

func (r *side) LimitOfRecord(record string) (*KeyedLimit, error) {
	e := r.engine
	plan, err := e.limits.Recorded(record)
	if err != nil {
		return nil, err
	}
	kl := e.newKeyedLimit(plan.Name, plan.Name.Name)
	kl.journaled, kl.strict, kl.inline = true, plan.Strict, plan.Inline
	kl.plan.Store(plan)
	return kl, nil
}

func (s *limitSide) Inline() error {
	s.inline = true
	l := (*KeyedLimit)(s)
	return l.SetLimit(l.Limit())
}

func (r *side) ForgetInline(name string) (states int, err error) {
	all := name == ""
	if all {
		name = "inline"
	}
	if err := checkLimitName(name); err != nil {
		return 0, err
	}
	return r.engine.limits.ForgetInlineOf(name, all)
}

func (r *side) ForgetKeys(prefix string) (keys int, err error) {
	if err := checkKey(prefix); err != nil {
		return 0, err
	}
	keys, err = r.engine.limits.ForgetKeys(prefix)
	return keys, limitError(err)
}

func (r *side) InlineNames(key string) []string {
	if checkKey(key) != nil {
		return nil // which has used nothing
	}
	return r.engine.limits.InlineNames(r.engine.keys.PartitionOf(key), key)
}

func (r *side) Now() int64 { return r.engine.limits.Clock.Now() }

func (r *side) DecideBeside(checks []Check, beside []uint64, verdicts []Verdict, take bool) (allowed bool, err error) {
	allowed, _, err = r.engine.decideAll(checks, beside, verdicts, take)
	return allowed, err
}

func (r *side) DecideAt(checks []Check, beside []uint64, verdicts []Verdict, take bool) (allowed bool, at int64, err error) {
	return r.engine.decideAll(checks, beside, verdicts, take)
}

func (r *side) Use(l *KeyedLimit, key string, at int64, n uint64) {
	r.engine.limits.Use(l.plan.Load(), r.engine.keys.PartitionOf(key), key, at, n)
}

func (r *side) SetOut(l *KeyedLimit, holder, key string, held time.Duration, out uint64) error {
	return r.engine.limits.SetOut(l.plan.Load(), holder, r.engine.keys.PartitionOf(key), key, held, out)
}

func (r *side) Outs(of func(partition int) bool, f func(admission.Out)) {
	r.engine.limits.Outs(of, f)
}
