package admission

import (
	"strings"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/limit"
)

// What keys have used of shared limits is kept where their partition is held. Strict
// limits are decided by a node that may hold none of their keys, and those of one node
// are that node's: both are kept everywhere. A shared limit that is decided anyway
// where its key's partition is not held knows what was admitted there, and no more.

// ofHolders tells whether only the holders of a key's partition keep its state.
func (p *Plan) ofHolders() bool {
	return p.journaled && !p.Strict && !strings.ContainsRune(p.Name.Name, NodeMark)
}

// ReleaseShare lets the states of shared limits go, but for those whose admissions no cut has
// yet.
func (ls *Table) ReleaseShare(partition int) {
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = true
	ls.letGo(s)
}

// letGo drops the states of shared limits that no cut waits for. The caller holds s.mu.
func (ls *Table) letGo(s *share) {
	s.table.Load().Each(func(st *entry) {
		if _, fresh := s.fresh[st]; !fresh && st.Value.plan.ofHolders() {
			ls.drop(s, st)
		}
	})
}

// HoldShare takes the states of shared limits back, and admissions after them. What was
// admitted here since the last cut counts too; what was before comes from the journal.
func (ls *Table) HoldShare(partition int, list []replication.LimitState) error {
	states, _, err := ls.decodeStates(list) // grants are kept everywhere
	if err != nil {
		return err
	}
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	ls.letGo(s)
	for st := range s.fresh {
		if st.Value.plan.ofHolders() {
			ls.grow(st.Value.plan, -int64(cellBytes(st)))
			st.Value.state = limit.State{}
			ls.grow(st.Value.plan, int64(cellBytes(st)))
		}
	}
	for i := range states {
		if states[i].plan.ofHolders() {
			ls.restoreOne(s, &states[i])
		}
	}
	for _, a := range s.changes {
		plan, err := ls.Recorded(a.Limit)
		if err != nil {
			return err
		}
		ls.makeChange(s, partition, plan, a, heldStates)
	}
	for st, of := range s.fresh {
		if st.Value.plan.ofHolders() {
			before := cellBytes(st)
			st.Value.plan.Charge(&st.Value.state, of.at, of.n)
			ls.grow(st.Value.plan, int64(cellBytes(st)-before))
		}
	}
	s.away = false
	return nil
}

// ApplyShared counts those admissions that are of limits whose state only holders keep.
func (ls *Table) ApplyShared(partition int, list []replication.Admission) error {
	for _, a := range list {
		plan, err := ls.Recorded(a.Limit)
		if err == nil && plan.ofHolders() {
			err = ls.apply(partition, a, false, heldStates)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
