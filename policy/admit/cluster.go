package admit

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/limit"
)

// Cluster is what a Live needs of the nodes that decide together. The zero Cluster is
// one node alone: then every policy is decided here, wherever it says.
type Cluster struct {
	// Node is this node's name: 1 to weir.MaxLimitNameBytes letters, digits or any of ._-,
	// another for every node, and the same one for ever.
	Node string

	// Region is the region that the node counts for: of a limit over regions its part is decided by. "": none, and a Set with
	// such limits is refused, unless Whole says that they are decided by as a whole, as for a replay of what all regions were asked.
	Region string
	Whole  bool

	// Others know what other regions have counted. nil: there are none.
	Others Others

	// Nodes is how many nodes there are, up or not: each has its share of a strict limit
	// while the one that decides is away. nil: one.
	Nodes func() int

	// Strict asks the nodes that decide strict limits. nil: they are decided here.
	Strict Strict

	// Leased decides leased limits, with the nodes that lend. nil: they are decided here.
	Leased Leased

	// Shared asks the nodes that hold the keys of shared limits. nil: all are held, and
	// decided, here.
	Shared Shared

	// Divided tells that each node holds some keys of shared limits only: then limits that regions share without parts are refused.
	Divided bool
}

// Strict decides limits at the one node that decides for all. The keys are parted into
// groups; who decides for a group may change at any time.
type Strict interface {
	// Group is the group of a key.
	Group(key string) int

	// Decide is weir.Engine.TakeAll, or PeekAll if take is false, at a node that
	// decides for the group that all the checks' keys are of. It is not answered if that
	// node is away: then something may have been taken, or not. It returns within a time
	// that a request can wait.
	Decide(checks []weir.Check, verdicts []weir.Verdict, take bool) (allowed, answered bool, err error)

	// Change makes a change to the check's key, with its N, at a node that decides for it. Where it
	// is not answered, it may have been made, or not.
	Change(c limits.Change, of weir.Check) (made limits.Changed, answered bool, err error)
}

// Leased decides limits at this node within parts that the one node that decides for all lends to it.
type Leased interface {
	Strict

	// Take is Decide, that takes, as far as this node can without asking another: it takes no longer
	// than weir.Engine.TakeAll. If it is not decided nothing was taken.
	Take(checks []weir.Check, verdicts []weir.Verdict) (allowed, decided bool)
}

// Shared decides limits at one of the nodes that hold the key. Its groups are apart from
// those of Strict.
type Shared interface {
	Strict

	// Holds tells whether this node holds the key, and so decides itself. It is called
	// for each check, and may change at any time.
	Holds(key string) bool
}

// Others know what other regions have counted, as far as word of it has come. They wait for nobody.
type Others interface {
	// Counted is how many hits of a key all other regions have counted in (at-w, at], at least and at most, as far as is known, and of
	// which of them, or of their nodes (us/n2), some may be missing. at and w are whole seconds; key and late are changed by nobody.
	Counted(key string, at time.Time, w time.Duration) (lower, upper uint64, late []string, err error)
}

// limit is the engine's limit of a policy.
func (l *Live) limit(where limit.Where, name string, of weir.Limit) (*weir.KeyedLimit, error) {
	if l.cluster.Node == "" {
		return l.engine.Limit(name, of)
	}
	return limits.Of(l.engine).LimitIn(l.cluster.Node, where, name, of)
}
