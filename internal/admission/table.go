package admission

import "github.com/weir-counter/weir/internal/keytable"

// entry is what a key has used of one limit, with the key. A key has one for each name of a limit, in
// the table under a hash of both.
type entry = keytable.Entry[keyState]

// stateBytes is the memory of a state's entry, and its part of a bucket that has 3 to 6 of them.
func stateBytes(st *entry) int64 {
	return keytable.BytesWithRoom[keyState](len(st.Key()), len(st.Room())) + 14
}

// find returns the state of an ID, or nil. The caller holds s.mu.
func (s *share) find(hash uint64, name *Name, key string) *entry {
	t := s.table.Load()
	e := t.Find(hash, key)
	for e != nil && e.Value.plan.Name != name {
		e = t.Next(hash, key, e)
	}
	return e
}

// insertState makes a state whose ID is not in the table. The caller holds s.mu.
func (ls *Table) insertState(s *share, hash uint64, plan *Plan, key string) *entry {
	t := s.table.Load()
	if t.Full() {
		t = ls.resize(s)
	}
	e := keytable.NewWithRoom[keyState](key, plan.Near())
	e.Value.plan = plan
	e.Value.state.Begin(e.Room())
	t.Insert(hash, e)
	return e
}

// resize gives a table that is full, or sparse, another size. The caller holds s.mu.
func (ls *Table) resize(s *share) *keytable.Table[keyState] {
	t := s.table.Load().Resized(func(e *entry) uint64 { return ls.hash(e.Value.plan.Name, e.Key()) })
	s.table.Store(t)
	return t
}
