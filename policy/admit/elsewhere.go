package admit

import (
	"sync/atomic"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// elsewhere is what a limit that other nodes decide needs here.
type elsewhere struct {
	who    Strict
	held   Shared // who, of a shared limit: what is held here is decided here; nil of a strict one
	leased bool   // who is the cluster's Leased
	away   policy.Away
	counts *awayCounts

	// With AwayShare: this node's share, of so many nodes.
	whole weir.Limit
	share *weir.KeyedLimit
	nodes atomic.Int64
}

// of is e if another node decides for a key, else nil. e may be nil.
func (e *elsewhere) of(key string) *elsewhere {
	if e == nil || e.held != nil && e.held.Holds(key) {
		return nil
	}
	return e
}

// sharedLimit is for a shared limit, whose decisions without a holder count by name; nil
// if all keys are held here.
func (l *Live) sharedLimit(name string) *elsewhere {
	by := l.cluster.Shared
	if by == nil {
		return nil
	}
	return &elsewhere{who: by, held: by, away: policy.AwayOwn, counts: l.countsOf(name)}
}

// decidedByOne is for a strict or leased limit; nil if this node decides alone.
func (l *Live) decidedByOne(name string, where limit.Where, of weir.Limit, away policy.Away) (*elsewhere, error) {
	who := l.cluster.Strict
	if where == limit.WhereLeased {
		who = l.cluster.Leased
	}
	if who == nil {
		return nil, nil
	}
	s := &elsewhere{who: who, leased: where == limit.WhereLeased, away: away, counts: l.countsOf(name), whole: of}
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
