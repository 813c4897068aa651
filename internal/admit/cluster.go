package admit

import (
	"context"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// Cluster is what a Live needs of the nodes that decide together. The zero Cluster is
// one node alone: then every policy is decided here, wherever it says.
type Cluster struct {
	// Node is this node's name: 1 to engine.MaxLimitNameBytes letters, digits or any of ._-,
	// another for every node, and the same one for ever.
	Node string

	// Region is the region that the node counts for: the node decides by the region's part of a limit over regions. "":
	// none, and a Set with such limits is refused. With Whole, the node decides by the whole limits, as for a replay of
	// what all regions were asked.
	Region string
	Whole  bool

	// Owners decide strict and leased limits. nil: they are decided here.
	Owners Owners
}

// Owners decide the limits that nodes keep together: each key has one, the node that decides for it. The keys are divided into
// groups; who owns a group may change at any time.
type Owners interface {
	// Group is the group of a key.
	Group(key string) int

	// Take is Decide, that takes, as far as this node can without asking another: it takes no longer
	// than admission.Table.TakeAll. If it is not decided nothing was taken.
	Take(checks []engine.Check, verdicts []engine.Verdict) (allowed, decided bool)

	// Decide is admission.Table.TakeAll, or PeekAll if take is false. It decides at the owner of the group that has all
	// the checks' keys, or at this node within the quota lease that the owner has granted. It is not answered if the
	// owner is unreachable: then something may have been taken, or not. It returns within a time that a request can
	// wait, whatever becomes of ctx, which may be nil: it has the request's trace.
	Decide(ctx context.Context, checks []engine.Check, verdicts []engine.Verdict, take bool) (allowed, answered bool, err error)

	// Change makes a change to the check's key, with its N, at the key's owner. Where it
	// is not answered, it may have been made, or not.
	Change(c engine.Change, check engine.Check) (made engine.Changed, answered bool, err error)
}

// limit is the engine's limit of a policy.
func (l *Live) limit(where limit.Where, name string, rule engine.Limit) (*engine.KeyedLimit, error) {
	if l.cluster.Node == "" {
		return l.engine.Limit(name, rule)
	}
	return l.engine.Limits().LimitIn(l.cluster.Node, where, name, rule)
}

// elsewhere is what a limit that other nodes decide needs here.
type elsewhere struct {
	leased bool // this node may have a part of it
	away   policy.Away
	counts *awayCounts
}

// unwritten makes ready a limit of no policy, which all nodes of a cluster keep together. Decisions without its owner
// count by countedAs.
func (l *Live) unwritten(name, countedAs string, rule engine.Limit) (b boundLimit, err error) {
	where := limit.WhereLeased
	if rule.Calendar.Unit != limit.NoUnit { // no part of a quota by the calendar can be granted
		where = limit.WhereStrict
	}
	if b.limit, err = l.limit(where, name, rule); err == nil {
		b.elsewhere = l.decidedByOne(countedAs, where, policy.AwayClosed)
	}
	return b, err
}

// decidedByOne is for a strict or leased limit; nil if this node decides alone.
func (l *Live) decidedByOne(name string, where limit.Where, away policy.Away) *elsewhere {
	if l.cluster.Owners == nil {
		return nil
	}
	return &elsewhere{leased: where == limit.WhereLeased, away: away, counts: l.countsOf(name)}
}

// awayCounts counts, by Away, the decisions of a policy without the node that decides.
type awayCounts [policy.AwayOpen + 1]atomic.Uint64

// AwayCount is how many decisions of a policy were made without the node that decides, by its Away.
type AwayCount struct{ Closed, Open uint64 }

// InlineAway is, for Live.Away, the name of all limits that requests bring along: theirs may be any. No policy has it.
const InlineAway = policy.InlinePrefix + "*"

// Away is the AwayCount of a policy by name, or of InlineAway, since the Live was made. It is zero if the limits were
// always decided here.
func (l *Live) Away(name string) AwayCount {
	l.counting.Lock()
	defer l.counting.Unlock()
	c := l.away[name]
	if c == nil {
		return AwayCount{}
	}
	return AwayCount{c[policy.AwayClosed].Load(), c[policy.AwayOpen].Load()}
}

// countsOf is kept by name, so that another Set goes on counting.
func (l *Live) countsOf(name string) *awayCounts {
	l.counting.Lock()
	defer l.counting.Unlock()
	c := l.away[name]
	if c == nil {
		if l.away == nil {
			l.away = map[string]*awayCounts{}
		}
		c = new(awayCounts)
		l.away[name] = c
	}
	return c
}

// Dropped is a policy that another Set took out while keys had used some of it.
type Dropped struct {
	Name      string
	KeysInUse int // on this node
}

// Dropped returns what the last Replace took out while it was in use, in the order of the earlier file. Keys that only
// such a policy was for have no limit any more. What they have used stays for a while, for a policy that is put back.
func (l *Live) Dropped() []Dropped {
	if d := l.dropped.Load(); d != nil {
		return *d
	}
	return nil
}

// noteDropped looks for what is in was, nil at first, and not in now.
func (l *Live) noteDropped(was *bound, now *policy.Set) {
	var dropped []Dropped
	if was != nil {
		for i := range was.policies {
			name := was.set.At(i).Name
			if _, stays := now.Place(name); stays {
				continue
			}
			if keys := was.policies[i].limit.KeysInUse(); keys > 0 {
				dropped = append(dropped, Dropped{name, keys})
			}
		}
	}
	l.dropped.Store(&dropped)
}
