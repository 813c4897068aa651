package weir

import (
	"fmt"
	"strings"

	"github.com/weir-counter/weir/internal/admission"
	"github.com/weir-counter/weir/internal/friend"
	"github.com/weir-counter/weir/limit"
)

// limitSide is what a KeyedLimit shows to other packages of this module, and not to its
// users: see internal/limits.
type limitSide KeyedLimit

// keyedSide has an unexported name, so that the methods of KeyedLimit are those for its users.
type keyedSide = friend.Of[*limitSide]

// newKeyedLimit makes one without a plan, by the name that its states are kept by and the one that it was given.
func (e *Engine) newKeyedLimit(name *admission.Name, shown string) *KeyedLimit {
	l := &KeyedLimit{engine: e, name: name, shown: shown}
	l.keyedSide = friend.Make((*limitSide)(l))
	return l
}

func (s *limitSide) Where() limit.Where {
	switch {
	case s.leased:
		return limit.WhereLeased
	case s.strict:
		return limit.WhereStrict
	case strings.IndexByte(s.name.Name, admission.NodeMark) >= 0:
		return limit.WhereNode
	}
	return limit.WhereShared
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
	case limit.WhereShared, limit.WhereStrict, limit.WhereLeased:
	default:
		return nil, &Error{CodeInvalidLimit, "where", fmt.Sprintf("%v: must be shared, node, strict or leased", where)}
	}
	return e.keyedLimit(kept, name, l, func(made *KeyedLimit) {
		made.journaled, made.leased = where != limit.WhereNode, where == limit.WhereLeased
		made.strict = made.leased || where == limit.WhereStrict
	})
}

func (s *limitSide) Overshoot() uint64 { return s.name.Overshoot.Load() }

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
