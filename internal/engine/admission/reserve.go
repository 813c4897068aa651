package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// A reservation is admissions that were taken for what a request may need, and that are settled
// once it is known what it did need. Each limit of the request has a part of it, under one
// ID, with the key's state: both are in one cut, so that a crash leaves both or none. All nodes
// know of it, and it is settled once: whatever settles it again finds that.
type reserved struct {
	replication.Reservation        // At by Clock, in ns
	end                     int64  // Unix ms: Until, or later, if it was over when the journal had it
	by                      string // Reservation.By
	shared                  bool   // another node asked for it too
	forgotten               bool   // it counts as settled, because its admissions no longer count
}

func (r *reserved) part() Part {
	return Part{baseName(r.Name), r.Key, r.N, r.Content, r.Parts, r.Settled, r.Used, r.Over, r.forgotten}
}

// partID names a part of a reservation.
type partID struct{ name, key, id string }

// settledPart is one that was settled, and until when that is known, in Unix ms.
type settledPart struct {
	*reserved
	until int64
}

// Part is a part of a reservation, as others look it up.
type Part struct {
	Name    string // of the limit, as it was given
	Key     string
	N       uint64
	Content uint64 // Reservation.Content
	Parts   uint64 // Reservation.Parts
	Settled bool

	Used, Over uint64 // of one that was settled
	forgotten  bool
}

// Repeat returns the result of settling a part again. If used differs from the first time, the error is api.CodeKeyReused.
func (p Part) Repeat(used uint64) (Settled, error) {
	if was := p.Used + p.Over; was != used && !p.forgotten {
		return Settled{}, &keyspace.Error{Code: api.CodeKeyReused, Field: "id", Message: fmt.Sprintf("the reservation is settled with %d used of limit %s, and now it is %d: a settlement may be repeated, and not changed", was, p.Name, used)}
	}
	return Settled{Known: true, Again: true, Used: p.Used, Over: p.Over}, nil
}

// MaxReservations bounds the parts of reservations that are known in one table and not settled, and the parts that
// were settled and are kept for repeats.
const MaxReservations = 100_000

const (
	// MaxReservationID is the longest ID, in bytes.
	MaxReservationID = 64

	// MaxReservation is how long a reservation lasts at most.
	MaxReservation = 24 * time.Hour

	// lapseAfter is how long after its end a reservation is given back, and then forgotten, in ms:
	// other nodes' clocks may be behind.
	lapseAfter = int64(5 * time.Second / time.Millisecond)

	// repeatsFor is for how long a settled part is kept to answer repeats, in ms.
	repeatsFor = int64(time.Minute / time.Millisecond)
)

// Reservation is admissions for what a request may need, to be settled once it is known what
// it did need.
type Reservation struct {
	ID       string    // 1 to MaxReservationID bytes, another for each
	Until    time.Time // required: it can be settled until then, at most MaxReservation from now
	GiveBack bool      // what is not settled until then is given back; else it stays used
	Content  uint64    // identifies what is asked for, if the ID may come again: another content is refused. 0: not checked
	Parts    uint64    // how many limits and keys have a reservation with the ID; 0: not known
	By       string    // the node that asks the one that decides; "": not known
}

// Settled is how a part was settled.
type Settled struct {
	Known   bool   // there was such a part, and its time is not over
	Again   bool   // it had been settled before, so
	Used    uint64 // that count as used
	Freed   uint64 // by how many more are free for it
	Over    uint64 // that were used beyond the reservation, and denied: they do not count
	Present limit.Verdict
}

// RefusesReservation is api.CodeOverloaded while there is no memory for a reservation more, and api.CodeKeyReused if the
// ID is of one that was over a moment ago.
func (ls *Table) RefusesReservation(id string) error {
	if ls.ended(id) {
		return &keyspace.Error{Code: api.CodeKeyReused, Field: "id", Message: "this id belongs to a reservation that has ended: use a new id for each reservation"}
	}
	return ls.refusesReservations()
}

func (ls *Table) refusesReservations() error {
	if ls.reserved.Load() < MaxReservations {
		return nil
	}
	return overloaded("100,000 reservations are not settled or not over: settle them, or use shorter ttls")
}

// Reserve is Take of n admissions that Settle says later how many were used of; without it all stay
// used, or none, as r says. It is journaled with them. The same ID again, for the same key, takes nothing more; with another
// Content or n it is api.CodeKeyReused.
func (l *KeyedLimit) Reserve(key string, n uint64, r Reservation) (limit.Verdict, error) {
	if err := l.checkReservation(key, r); err != nil {
		return limit.Verdict{}, err
	}
	ls := l.table
	s := ls.lockedOf(key)
	was := s.reserved[partID{l.name.Name, key, r.ID}]
	known := was != nil && !ls.over(was.Until)
	same := known && was.N == n && was.Content == r.Content
	s.mu.Unlock()
	switch {
	case same:
		return l.Peek(key, 0)
	case known:
		return limit.Verdict{}, &keyspace.Error{Code: api.CodeKeyReused, Field: "id", Message: "this id belongs to a reservation with other content: use a new id for each reservation"}
	}
	if err := ls.RefusesReservation(r.ID); err != nil {
		return limit.Verdict{}, err
	}
	began := time.Now()
	v, err := l.Take(key, n)
	if err != nil || !v.Allowed || n == 0 {
		return v, err
	}
	if _, err = l.NoteReserved(key, n, r, time.Since(began), false); err != nil {
		_, _ = l.Refund(key, n, time.Time{}) // what was just taken
	}
	return v, err
}

func (l *KeyedLimit) checkReservation(key string, r Reservation) error {
	if err := keyspace.CheckKey(key); err != nil {
		return err
	}
	switch left := r.Until.Sub(l.table.Clock.Wall.Time()); {
	case len(r.ID) < 1 || len(r.ID) > MaxReservationID:
		return &keyspace.Error{Code: api.CodeInvalidKey, Field: "id", Message: fmt.Sprintf("the id of a reservation has %d bytes: must have 1 to %d", len(r.ID), MaxReservationID)}
	case r.Until.IsZero():
		return &keyspace.Error{Code: api.CodeInvalidTime, Field: "ttl", Message: fmt.Sprintf("Until is not set: a reservation needs a time within %v from now", MaxReservation)}
	case left <= 0 || left > MaxReservation:
		return &keyspace.Error{Code: api.CodeInvalidTime, Field: "ttl", Message: fmt.Sprintf("a reservation for %v: must be more than 0, and at most %v", left, MaxReservation)}
	}
	return l.table.refusesReservations()
}

// NoteReserved notes admissions that were taken a moment ago as reserved: see Reserve. again says that another node asked for the
// same before: nothing was noted, and the admissions are to be given back. If known, another node decides for the key, and this node
// only keeps a record of it.
func (l *KeyedLimit) NoteReserved(key string, n uint64, r Reservation, ago time.Duration, known bool) (again bool, err error) {
	if err := l.checkReservation(key, r); err != nil {
		return false, err
	}
	ls, partition := l.table, l.table.partitionOf(key)
	taken := ls.Clock.Now() - int64(ago)
	s := ls.locked(partition)
	defer s.mu.Unlock()
	common := changeAt(l.name.Name, key, taken)
	made := replication.Reservation{ChangeOf: common, ID: strings.Clone(r.ID), N: n, Until: r.Until.UnixMilli(), Back: r.GiveBack, Content: r.Content, Parts: r.Parts}
	if was := s.reserved[idOf(&made)]; was != nil {
		again = was.by != r.By && was.by != "" && r.By != ""
		was.shared = was.shared || again
		return again, nil
	}
	if err := ls.refusesReservations(); err != nil {
		return false, err
	}
	ls.reserve(s, partition, made)
	s.reserved[idOf(&made)].by = r.By
	if !known {
		ls.record(s, recorded(made))
	}
	return false, nil
}

// recorded is a part as the journal has it: its admissions were taken at At or later.
func recorded(r replication.Reservation) *replication.Reservation {
	r.At = floored(r.At)
	return &r
}

func idOf(r *replication.Reservation) partID { return partID{r.Name, r.Key, r.ID} }

// reserve puts a part in. The caller holds s.mu.
func (ls *Table) reserve(s *share, partition int, made replication.Reservation) {
	if s.reserved == nil {
		s.reserved = map[partID]*reserved{}
	}
	r := &reserved{Reservation: made, end: made.Until}
	if ls.over(made.Until) {
		r.end = ls.nowMs() + repeatsFor
	}
	s.reserved[idOf(&made)] = r
	ls.reserved.Add(1)
	ls.ids.Lock()
	if ls.byID == nil {
		ls.byID = map[string][]partRef{}
	}
	ls.byID[made.ID] = append(ls.byID[made.ID], partRef{partition, idOf(&made)})
	ls.ids.Unlock()
	if r.Settled {
		ls.noteSettled(s, r)
	}
}

// partRef is where a part is.
type partRef struct {
	partition int
	id        partID
}

// Reserved lists the parts of a reservation that is known here, and not over.
func (ls *Table) Reserved(id string) (parts []Part) {
	ls.ids.Lock()
	refs := slices.Clone(ls.byID[id])
	ls.ids.Unlock()
	for _, ref := range refs {
		s := &ls.shares[ref.partition]
		s.mu.Lock()
		if r := s.reserved[ref.id]; r != nil && !ls.over(r.Until) {
			parts = append(parts, r.part())
		}
		s.mu.Unlock()
	}
	return parts
}

// ended reports whether a reservation of the ID is over and still known. For 15 s settlements of other nodes may come that
// another reservation of the ID would take for its own; for 75 s if it was over when the journal had it.
func (ls *Table) ended(id string) bool {
	ls.ids.Lock()
	refs := slices.Clone(ls.byID[id])
	ls.ids.Unlock()
	return slices.ContainsFunc(refs, func(ref partRef) bool {
		s := &ls.shares[ref.partition]
		s.mu.Lock()
		defer s.mu.Unlock()
		r := s.reserved[ref.id]
		return r != nil && ls.over(r.Until)
	})
}

// OpenReservations calls f with each part of a reservation that is not settled: the limit's name, the key, and how many it
// has reserved. f must not call the engine. O(reservations).
func (ls *Table) OpenReservations(f func(name, key string, n uint64)) {
	if ls.reserved.Load() == 0 {
		return
	}
	ls.eachShare(func(_ int, s *share) {
		for _, r := range s.reserved {
			if !r.Settled {
				f(baseName(r.Name), r.Key, r.N)
			}
		}
	})
}

// Settle says how many of a reservation's admissions were used. It gives the rest back, as Refund does. With debt, what
// was used beyond them counts whatever the limit says; else it counts only if all of it fits the limit. Settled again
// within a minute, Settle returns the first result, or fails with api.CodeKeyReused if used is another number. Known is false if there is
// no such reservation, or its time is over.
func (l *KeyedLimit) Settle(key, id string, used uint64, debt bool) (done Settled, err error) {
	if err := keyspace.CheckKey(key); err != nil {
		return Settled{}, err
	}
	ls, plan := l.table, l.plan.Load()
	now := ls.Clock.Now()
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	r := s.reserved[partID{plan.Name.Name, key, id}]
	switch {
	case r == nil || r.Lapsed || !r.Settled && ls.over(r.Until):
		return Settled{}, nil
	case r.Settled:
		return r.part().Repeat(used)
	}
	if err := ls.refusesTake(plan); err != nil {
		return Settled{}, err
	}
	done = Settled{Known: true, Used: used}
	st := s.find(ls.hash(plan.Name, key), plan.Name, key)
	if st == nil {
		if st, err = ls.state(s, plan, key, now); err != nil {
			return Settled{}, err
		}
	}
	if used > r.N {
		done.Over = ls.takeMore(s, st, now, min(used-r.N, limit.MaxBurst), debt)
		done.Used -= done.Over
	}
	done.Freed = ls.settle(s, r, now, done.Used, done.Over, false)
	done.Present = st.Value.plan.Peek(&st.Value.state, now, 0)
	return done, nil
}

// Unreserve gives a part of a reservation back that failed in another one, and forgets it as if it had not been made, unless another
// node asked for it too. It is false for one that is not known, or settled.
func (l *KeyedLimit) Unreserve(key, id string) (known bool, err error) {
	if err := keyspace.CheckKey(key); err != nil {
		return false, err
	}
	ls := l.table
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	r := s.reserved[partID{l.name.Name, key, id}]
	if r == nil || r.Settled {
		return false, nil
	}
	if !r.shared {
		ls.settle(s, r, ls.Clock.Now(), 0, 0, true)
	}
	return true, nil
}

// takeMore takes what was used beyond a reservation, or returns it. The caller holds s.mu.
func (ls *Table) takeMore(s *share, st *entry, now int64, n uint64, debt bool) (over uint64) {
	before := cellBytes(st)
	if !st.Value.plan.Allow(&st.Value.state, now, n) {
		if !debt {
			return n
		}
		st.Value.plan.Charge(&st.Value.state, now, n)
	}
	ls.decided(s, st, now, n, true, before)
	return 0
}

// settle settles a part, and has the journal tell; with forget, the part is not known any more. The caller holds s.mu.
func (ls *Table) settle(s *share, r *reserved, now int64, used, over uint64, forget bool) (free uint64) {
	back := uint64(0) // as other nodes are to give back: what was here
	if st := ls.stateOf(s, r.Name, r.Key); st != nil && used < r.N {
		at := min(r.At, now)
		free, back = ls.refund(st, now, at, r.N-used)
		back = ls.unnote(s, st, at, back)
	}
	ls.record(s, &replication.Settlement{ChangeOf: ls.changeOf(r.Name, r.Key), ID: r.ID, Used: used, Back: back, Over: over, Forget: forget})
	if forget {
		ls.unreserve(s, r)
		return free
	}
	r.Used, r.Over = used, over
	ls.noteSettled(s, r)
	return free
}

// noteSettled keeps a part that was settled for a minute, for repeats, or until too many others were settled. The caller holds s.mu.
func (ls *Table) noteSettled(s *share, r *reserved) {
	r.Settled = true
	ls.reserved.Add(-1)
	ls.settled.Add(1)
	s.settled = append(s.settled, settledPart{r, ls.nowMs() + repeatsFor})
	if ls.settled.Load() > MaxReservations {
		ls.forgetOldest(s)
	}
}

// forgetOldest forgets the part that was settled first. The caller holds s.mu.
func (ls *Table) forgetOldest(s *share) {
	r := s.settled[0].reserved
	if s.settled = s.settled[1:]; s.reserved[idOf(&r.Reservation)] == r {
		ls.unreserve(s, r)
	}
}

// applyReservation is what a journal or a state has of a part. One that is over is kept for a minute, because its settlement
// comes later in the journal, and gives back what its admissions took. They leave half of the space to new ones. The caller holds s.mu.
func (ls *Table) applyReservation(s *share, partition int, c *replication.Reservation) {
	if s.reserved[idOf(c)] == nil && (!ls.over(c.Until) || ls.reserved.Load() < MaxReservations/2) {
		made := *c
		made.N, made.At = min(c.N, limit.MaxBurst), ls.timeOf(c.At, ls.Clock.Now())
		ls.reserve(s, partition, made)
	}
}

// applySettlement is what a journal has of a part that was settled. One that
// was given back here, as it was not settled in time, by a clock that is ahead, counts as used
// again. The caller holds s.mu.
func (ls *Table) applySettlement(s *share, c *replication.Settlement, now int64) {
	r := s.reserved[partID{c.Name, c.Key, c.ID}]
	if r == nil {
		return
	}
	st, at := ls.stateOf(s, c.Name, c.Key), min(r.At, now)
	switch {
	case r.Settled && !(r.Lapsed && c.Used > 0):
		return
	case st == nil:
	case r.Settled:
		ls.charge(st, at, min(c.Used, r.N))
	default:
		ls.refund(st, now, at, min(c.Back, limit.MaxBurst))
	}
	if c.Forget {
		ls.unreserve(s, r)
		return
	}
	r.Lapsed, r.Used, r.Over = false, c.Used, c.Over
	if !r.Settled {
		ls.noteSettled(s, r)
	}
}

// Lapse settles the reservations whose time is over: what is to be given back then is, the others
// are forgotten, and so is what was settled a minute ago. It is for the janitor, every second or so.
func (ls *Table) Lapse() {
	if ls.reserved.Load()+ls.settled.Load() == 0 {
		return
	}
	ls.eachShare(func(_ int, s *share) { ls.lapse(s) })
}

// lapse is Lapse of a share. The caller holds s.mu.
func (ls *Table) lapse(s *share) {
	now := ls.Clock.Now()
	nowMs := ls.unixMs(now)
	for len(s.settled) > 0 && s.settled[0].until <= nowMs {
		ls.forgetOldest(s)
	}
	for _, r := range s.reserved {
		switch {
		case nowMs < r.end+lapseAfter:
		case r.Back && !r.Settled:
			ls.settle(s, r, now, 0, 0, false)
			r.Lapsed = true
		case nowMs >= r.end+3*lapseAfter:
			ls.unreserve(s, r)
		}
	}
}

// unreserve forgets a part. The caller holds s.mu.
func (ls *Table) unreserve(s *share, r *reserved) {
	id := idOf(&r.Reservation)
	delete(s.reserved, id)
	if r.Settled {
		ls.settled.Add(-1)
	} else {
		ls.reserved.Add(-1)
	}
	ls.ids.Lock()
	defer ls.ids.Unlock()
	refs := slices.DeleteFunc(ls.byID[id.id], func(ref partRef) bool { return ref.id == id })
	if ls.byID[id.id] = refs; len(refs) == 0 {
		delete(ls.byID, id.id)
	}
}

// forgetReserved settles the reservations of which nothing counts any more. The caller holds s.mu.
func (ls *Table) forgetReserved(s *share, which func(id partID) bool) {
	for id, r := range s.reserved {
		if !r.Settled && which(id) {
			r.Used, r.forgotten = r.N, true
			ls.noteSettled(s, r)
		}
	}
}
