package admit

import (
	"sync/atomic"

	"github.com/weir-counter/weir/api"
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

	// Nodes is how many nodes there are, up or not. Each has its share of a strict limit while the node that decides is
	// unreachable. nil: one.
	Nodes func() int

	// Owners decide strict and leased limits. nil: they are decided here.
	Owners Owners
}

// Owners decide the limits that nodes keep together: each key has one, the node that decides for it. The keys are divided into
// groups; who owns a group may change at any time.
type Owners interface {
	// Group is the group of a key.
	Group(key string) int

	// Take is Decide, that takes, as far as this node can without asking another: it takes no longer
	// than engine.Engine.TakeAll. If it is not decided nothing was taken.
	Take(checks []engine.Check, verdicts []engine.Verdict) (allowed, decided bool)

	// Decide is engine.Engine.TakeAll, or PeekAll if take is false. It decides at the owner of the group that has all
	// the checks' keys, or at this node within the quota lease that the owner has granted. It is not answered if the
	// owner is unreachable: then something may have been taken, or not. It returns within a time that a request can
	// wait.
	Decide(checks []engine.Check, verdicts []engine.Verdict, take bool) (allowed, answered bool, err error)

	// Change makes a change to the check's key, with its N, at the key's owner. Where it
	// is not answered, it may have been made, or not.
	Change(c engine.Change, of engine.Check) (made engine.Changed, answered bool, err error)
}

// limit is the engine's limit of a policy.
func (l *Live) limit(where limit.Where, name string, of engine.Limit) (*engine.KeyedLimit, error) {
	if l.cluster.Node == "" {
		return l.engine.Limit(name, of)
	}
	return l.engine.LimitIn(l.cluster.Node, where, name, of)
}

// elsewhere is what a limit that other nodes decide needs here.
type elsewhere struct {
	leased bool // this node may have a part of it
	away   policy.Away
	counts *awayCounts

	// With AwayShare: this node's share, of so many nodes.
	whole engine.Limit
	share *engine.KeyedLimit
	nodes atomic.Int64
}

// unwritten makes ready a limit of no policy, which all nodes of a cluster keep together. Decisions without its owner
// count by countedAs.
func (l *Live) unwritten(name, countedAs string, of engine.Limit) (b boundLimit, err error) {
	where := limit.WhereLeased
	if of.Calendar.Unit != limit.NoUnit { // no part of a quota by the calendar can be granted
		where = limit.WhereStrict
	}
	if b.limit, err = l.limit(where, name, of); err == nil {
		b.elsewhere, err = l.decidedByOne(countedAs, where, of, policy.AwayClosed)
	}
	return b, err
}

// decidedByOne is for a strict or leased limit; nil if this node decides alone.
func (l *Live) decidedByOne(name string, where limit.Where, of engine.Limit, away policy.Away) (*elsewhere, error) {
	if l.cluster.Owners == nil {
		return nil, nil
	}
	s := &elsewhere{leased: where == limit.WhereLeased, away: away, counts: l.countsOf(name), whole: of}
	if away != policy.AwayShare {
		return s, nil
	}
	nodes := l.nodes()
	part, err := shareOf(of, nodes)
	if err != nil {
		return nil, err
	}
	s.share, err = l.limit(limit.WhereNode, name, part)
	s.nodes.Store(int64(nodes))
	return s, err
}

func (l *Live) nodes() int {
	if l.cluster.Nodes == nil {
		return 1
	}
	return max(1, l.cluster.Nodes())
}

// shareNow is the share by the number of nodes that there are now.
func (s *elsewhere) shareNow(nodes int) (*engine.KeyedLimit, error) {
	if s.nodes.Swap(int64(nodes)) == int64(nodes) {
		return s.share, nil
	}
	part, err := shareOf(s.whole, nodes)
	if err == nil {
		err = s.share.SetLimit(part)
	}
	return s.share, err
}

// shareOf is a node's part of a limit.
func shareOf(of engine.Limit, nodes int) (engine.Limit, error) {
	plan, err := limit.New(of)
	if err != nil {
		return engine.Limit{}, policy.Failure(api.CodeInvalidLimit, "limit", "%v", err)
	}
	return policy.PartOf(plan.Limit(), max(1, plan.Limit().Burst/uint64(nodes))), nil
}

// awayCounts counts, by Away, the decisions of a policy without the node that decides.
type awayCounts [policy.AwayShare + 1]atomic.Uint64

// AwayCount is how many decisions of a policy were made without the node that decides, by its Away.
type AwayCount struct{ Closed, Open, Share uint64 }

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
	return AwayCount{c[policy.AwayClosed].Load(), c[policy.AwayOpen].Load(), c[policy.AwayShare].Load()}
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
