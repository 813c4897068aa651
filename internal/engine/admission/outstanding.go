package admission

import (
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// The part of a key's limit that its owner has granted to others as quota leases (package internal/cluster/grant) is outstanding.
// It counts as used for a time, and the next owner must know of it. For each limit, key and granting node it is one number, which
// each later one replaces.
type outstanding struct {
	n         uint64
	at, until int64 // by Clock
	fresh     bool  // no cut has it

	want, seq uint64 // of a hold: of the last Held
}

type outstandingID struct{ name, key, holder string }

// bytes is about how much it takes.
func (id outstandingID) bytes() int64 { return int64(200 + len(id.key)) }

func (o *outstanding) change(id outstandingID) replication.Change {
	return &replication.Outstanding{ChangeOf: changeAt(id.name, id.key, o.at), Holder: id.holder, N: o.n, For: o.until - o.at}
}

// SetOut notes how much of a key's limit a node has granted to others, for held from now on. It replaces
// what was noted before of that key and node, and is in the next cut.
func (l *KeyedLimit) SetOut(holder, key string, held time.Duration, out uint64) {
	ls := l.table
	now := ls.Clock.Now()
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	id := outstandingID{l.name.Name, strings.Clone(key), holder}
	ls.setOut(s, id, outstanding{n: min(out, limit.MaxBurst), at: now, until: now + int64(held)})
}

// setOut is setOutstanding, and in the next cut. The caller holds s.mu.
func (ls *Table) setOut(s *share, id outstandingID, said outstanding) {
	if o := ls.setOutstanding(s, id, said); ls.gather && !o.fresh {
		o.fresh = true
		s.newOutstanding = append(s.newOutstanding, id)
	}
}

// setOutstanding replaces what is outstanding, unless what is there was said later. The caller holds s.mu.
func (ls *Table) setOutstanding(s *share, id outstandingID, said outstanding) *outstanding {
	o := s.outstanding[id]
	if o == nil {
		if s.outstanding == nil {
			s.outstanding = map[outstandingID]*outstanding{}
		}
		o = &outstanding{}
		s.outstanding[id] = o
		ls.bytes.Add(id.bytes())
	}
	if said.at >= o.at {
		said.fresh = o.fresh
		*o = said
	}
	if id.isHold() {
		s.noteHold(id, o)
	}
	return o
}

// applyOutstanding is what another node has granted, or this one in an earlier life. The caller holds s.mu.
func (ls *Table) applyOutstanding(s *share, c *replication.Outstanding, now int64) {
	at := min(ls.timeOf(c.At, now)+int64(strictSlack), now)
	if until := at + min(c.For, int64(limit.MaxPer)); until > now {
		ls.setOutstanding(s, outstandingID{c.Name, c.Key, c.Holder}, outstanding{n: c.N, at: at, until: until})
	}
}

// cutOutstanding appends what no cut has. The caller holds s.mu.
func (ls *Table) cutOutstanding(s *share, list []replication.Change) []replication.Change {
	for _, id := range s.newOutstanding {
		if o := s.outstanding[id]; o != nil && o.fresh {
			o.fresh = false
			list = append(list, o.change(id))
		}
	}
	s.newOutstanding = s.newOutstanding[:0]
	return list
}

// forgetOutstanding drops what no longer counts. The caller holds s.mu.
func (ls *Table) forgetOutstanding(s *share, now int64) {
	for id, o := range s.outstanding {
		if o.until <= now && !o.fresh {
			delete(s.outstanding, id)
			ls.bytes.Add(-id.bytes())
			s.forgetHold(id)
		}
	}
}

// Out is what is outstanding of one key, granted by one node.
type Out struct {
	Limit, Key, Holder string
	Partition          int
	N                  uint64
	Until              int64 // by Now; it counts until then
}

// Outs calls f with all that is outstanding of keys in some partitions. f must not call the engine.
func (ls *Table) Outs(in func(partition int) bool, f func(Out)) {
	now := ls.Clock.Now()
	ls.eachShare(func(partition int, s *share) {
		if !in(partition) {
			return
		}
		for id, o := range s.outstanding {
			if o.n > 0 && o.until > now && !id.isHold() {
				f(Out{Limit: id.name, Key: id.key, Holder: id.holder, Partition: partition, N: o.n, Until: o.until})
			}
		}
	})
}

// Use counts n admissions of a key that were made at a time by Clock, not after now, without asking.
func (l *KeyedLimit) Use(key string, at int64, n uint64) {
	ls, plan := l.table, l.plan.Load()
	now := ls.Clock.Now()
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	st := ls.stateToCharge(s, plan, key, now)
	before := cellBytes(st)
	at = min(at, now)
	plan.Charge(&st.Value.state, at, n)
	ls.decided(s, st, at, n, true, before)
}
