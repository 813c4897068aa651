package weir

import (
	"fmt"
	"strings"
)

// Where says which nodes of a cluster count a limit together, and who decides.
type Where uint8

const (
	// WhereShared counts the admissions of all nodes. Each that holds the key's
	// partition decides at once, by what it knows; what others admit meanwhile it
	// learns later.
	WhereShared Where = iota

	// WhereNode counts those of one node alone.
	WhereNode

	// WhereStrict counts those of all nodes, of which one decides for each key: who
	// that is, is not the engine's to know.
	WhereStrict
)

func (w Where) String() string {
	switch w {
	case WhereShared:
		return "shared"
	case WhereNode:
		return "node"
	case WhereStrict:
		return "strict"
	}
	return fmt.Sprintf("where %d", uint8(w))
}

// Where is what LimitIn was told; of a limit that Limit made, shared.
func (l *KeyedLimit) Where() Where {
	switch {
	case l.strict:
		return WhereStrict
	case strings.IndexByte(l.name.name, nodeMark) >= 0:
		return WhereNode
	}
	return WhereShared
}

// HoldsKey tells whether the engine holds the key's partition. Cost: a load where it
// never released one.
func (r *Replication) HoldsKey(key string) bool {
	e := r.engine
	return !e.holding.parted.Load() || e.holds(e.partitionOf(key))
}

// nodeMark stands between the name of a limit that is one node's alone and the name
// of the node. No name that is given to Limit has it.
const nodeMark = '@'

// LimitIn is Limit for the node of that name in a cluster. Every node must have
// another name, of 1 to MaxLimitNameBytes letters, digits or any of ._-, and the
// same one for ever.
//
// The admissions of a shared or strict limit are journaled whatever its period,
// those of a node's limit as Limit has it. What a key has used is kept apart for
// each node whose alone the limit is; shared and strict limits of one name are one.
func (r *Replication) LimitIn(node string, where Where, name string, l Limit) (*KeyedLimit, error) {
	e := r.engine
	if err := checkLimitName(name); err != nil {
		return nil, err
	}
	if !isName(node, "._-") {
		return nil, &Error{CodeInvalidLimit, "node", fmt.Sprintf("the name %.80q of a node: must be 1 to %d letters, digits or any of ._-", node, MaxLimitNameBytes)}
	}
	kept := name
	switch where {
	case WhereNode:
		kept = name + string(nodeMark) + node
	case WhereShared, WhereStrict:
	default:
		return nil, &Error{CodeInvalidLimit, "where", fmt.Sprintf("%v: must be shared, node or strict", where)}
	}
	return e.keyedLimit(&KeyedLimit{shown: name, journaled: where != WhereNode, strict: where == WhereStrict}, kept, l)
}

// checkKeptName is checkLimitName for the names that states are kept by.
func checkKeptName(kept string) error {
	name, node, marked := strings.Cut(kept, string(nodeMark))
	if marked && !isName(node, "._-") {
		return fmt.Errorf("%.80q is no node", node)
	}
	return checkLimitName(name)
}

// Overshoot is how many admissions of the limit were more than its burst, in an
// interval of its length, when those of other nodes came to be known here. Each node
// that knows of them counts them: the largest of these numbers tells, not their sum.
// It grows from when the journal was opened.
func (l *KeyedLimit) Overshoot() uint64 { return l.name.overshoot.Load() }

// Record is the limit in bytes: LimitOfRecord of another node's engine makes it
// again.
func (l *KeyedLimit) Record() string { return l.plan.Load().record }

// LimitOfRecord is the limit that a record tells of, to decide what another node
// asks. The error wraps ErrDamagedState for a record that is none.
func (r *Replication) LimitOfRecord(record string) (*KeyedLimit, error) {
	e := r.engine
	plan, err := e.limits.recorded(record)
	if err != nil {
		return nil, err
	}
	kl := &KeyedLimit{engine: e, name: plan.name, shown: plan.name.name, journaled: true, strict: plan.strict, inline: plan.inline}
	kl.plan.Store(plan)
	return kl, nil
}
