package admission

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/limit"
)

// KeyedLimit is a limit of an engine that each key has for itself: 10 per second
// for each user, say. It is safe for many goroutines.
type KeyedLimit struct {
	table     *Table
	name      *Name // that its states are kept by
	shown     string
	journaled bool // whatever the period
	strict    bool // one node decides for all, and may grant quota leases
	leased    bool // strict, and that node grants quota leases
	inline    bool
	plan      atomic.Pointer[Plan]
}

// Limit returns the engine's limit of a name. The name has 1 to MaxNameBytes letters, digits and any of ._/- in
// it. The engine keeps what a key has used by the limit's name. A limit made again under its name grants no fresh
// allowance, even with other numbers. Two limits in use at once under one name count each other's admissions.
//
// Limits with a period of a minute or more survive a restart, if a journal runs.
func (ls *Table) Limit(name string, l limit.Limit) (*KeyedLimit, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return ls.prepare(&KeyedLimit{shown: name}, name, l)
}

// LimitIn is Limit for the node of that name in a cluster. Every node must have its own name, and keep it for
// ever. A name has 1 to MaxNameBytes letters, digits or any of ._- in it.
//
// The admissions of a leased or strict limit are journaled whatever its period. For a node's own limit, Limit says
// which are journaled. What a key has used is kept separately for each node if the limit belongs to one node. Leased
// and strict limits of one name are one limit.
func (ls *Table) LimitIn(node string, where limit.Where, name string, l limit.Limit) (*KeyedLimit, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if !isNodeName(node) {
		return nil, &keyspace.Error{Code: api.CodeInvalidLimit, Field: "node", Message: fmt.Sprintf("the name %.80q of a node: must be 1 to %d letters, digits or any of ._-", node, MaxNameBytes)}
	}
	switch where {
	case limit.WhereNode:
		return ls.prepare(&KeyedLimit{shown: name}, name+nodeMark+node, l)
	case limit.WhereStrict, limit.WhereLeased:
		return ls.prepare(&KeyedLimit{shown: name, journaled: true, strict: true, leased: where == limit.WhereLeased}, name, l)
	}
	return nil, &keyspace.Error{Code: api.CodeInvalidLimit, Field: "where", Message: fmt.Sprintf("%v: must be leased, node or strict", where)}
}

// prepare makes a limit ready, under the name that its states are kept by.
func (ls *Table) prepare(made *KeyedLimit, kept string, l limit.Limit) (_ *KeyedLimit, err error) {
	if _, err := limit.New(l); err != nil { // first: a limit that can't be holds no name
		return nil, &keyspace.Error{Code: api.CodeInvalidLimit, Field: "limit", Message: err.Error()}
	}
	made.table = ls
	if made.name, err = ls.hold(kept); err != nil {
		return nil, err
	}
	return made, made.SetLimit(l)
}

// LimitOfRecord is the limit that a Record tells of, to decide what another node
// asks. The error wraps replication.ErrDamagedState for a record that is none.
func (ls *Table) LimitOfRecord(record string) (*KeyedLimit, error) {
	plan, err := ls.recorded(record)
	if err != nil {
		return nil, err
	}
	l := &KeyedLimit{table: ls, name: plan.Name, shown: plan.Name.Name, journaled: true, strict: plan.Strict, inline: plan.Inline}
	l.plan.Store(plan)
	return l, nil
}

// InUse reports whether some key has used of the limit, or of another one of its name.
func (l *KeyedLimit) InUse() bool { return l.name.states.Load() > 0 }

// Release says that the caller no longer uses the limit. The engine forgets the name once no key has it in use, and can
// then take another name. Without Release, an engine takes 10,000 names.
func (l *KeyedLimit) Release() {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if l.name.held--; l.name.held == 0 {
		l.table.held--
	}
}

// Name is the limit's name, as it was given.
func (l *KeyedLimit) Name() string { return l.shown }

// Limit is what each key may do, the burst filled in.
func (l *KeyedLimit) Limit() limit.Limit { return l.plan.Load().Limit() }

// Record is the limit in bytes: LimitOfRecord of another node's engine makes it again.
func (l *KeyedLimit) Record() string { return l.plan.Load().Record }

// Where is the argument of LimitIn; of a limit that Limit made, leased.
func (l *KeyedLimit) Where() limit.Where {
	switch {
	case l.strict && !l.leased:
		return limit.WhereStrict
	case strings.Contains(l.name.Name, nodeMark):
		return limit.WhereNode
	}
	return limit.WhereLeased
}

// SetLimit changes the limit of all keys while it is in use. It grants no fresh
// allowance: what was admitted before counts under the new limit too.
func (l *KeyedLimit) SetLimit(to limit.Limit) error {
	plan, err := l.newPlan(to)
	if err == nil {
		l.plan.Store(plan)
	}
	return err
}

// Inline makes l a limit that requests bring along, as it is from now on: see
// Table.ForgetInline. It is for a limit that nothing was asked of yet.
func (l *KeyedLimit) Inline() error {
	l.inline = true
	return l.SetLimit(l.Limit())
}

// Wait returns when a request of the key was admitted: it asks, and asks again when the limit would let it pass. Calls of
// one key are not in order, and one may wait longer than those that come after it. It fails at once if ctx would end
// before, and has taken nothing when it fails.
func (l *KeyedLimit) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN is Wait for n requests at once. More than the burst is an Error with api.CodeInvalidCount. Other errors are as
// of Take.
func (l *KeyedLimit) WaitN(ctx context.Context, key string, n uint64) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v, err := l.Take(key, n)
		switch {
		case err != nil || v.Allowed:
			return err
		case v.Never:
			return &keyspace.Error{Code: api.CodeInvalidCount, Field: "n", Message: fmt.Sprintf("n of %d can never pass: the burst is %d", n, l.Limit().Burst)}
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < v.RetryAfter {
			return fmt.Errorf("the limit lets this pass in %v: %w", v.RetryAfter, context.DeadlineExceeded)
		}
		if err := concurrency.Sleep(ctx, max(v.RetryAfter, time.Millisecond)); err != nil {
			return err
		}
	}
}
