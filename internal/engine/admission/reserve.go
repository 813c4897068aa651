package admission

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// A reservation is admissions that were taken for what a request may need, and that are settled
// once it is known what it did need. Each limit of the request has a part of it, under one
// ID, with the key's state: both are in one cut, so that a crash leaves both or none. All nodes
// know of it, and it is settled once: whatever settles it again finds that.
type reserved struct {
	n       uint64
	content uint64 // tells reservations of one ID apart; 0: of no known content
	first   int64  // Unix ms: not after they were taken
	until   int64  // Unix ms
	back    bool   // what is not settled until then is given back
	whole   bool   // all parts of its ID are known here; not kept on disk
	settled bool
	forget  int64  // Unix ms: from when on a settled part is not kept; 0: lapse has not seen it settled
	lapsed  bool   // it was given back as it was not settled
	used    uint64 // once settled
	over    uint64 // of what was used, what the limit denied
}

// partID names a part of a reservation.
type partID struct{ name, key, id string }

// Part is a part of a reservation, as others look it up.
type Part struct {
	Name    string // that its state is kept by
	Key     string
	N       uint64
	Content uint64 // Reservation.Content
	Settled bool
	Whole   bool // all parts of the reservation are known here: see Table.Whole
}

// MaxReservations bounds the parts of reservations that are made in one table; those of other
// nodes come beside.
const MaxReservations = 100_000

// MaxReservationID is the longest ID, in bytes.
const MaxReservationID = 64

const (
	// lapseAfter is how long after its end a reservation is given back, and then forgotten, in ms:
	// other nodes' clocks may be behind.
	lapseAfter = int64(5 * time.Second / time.Millisecond)

	// repeatsFor is for how long a part that was settled says so to who settles it again, in ms: then it is forgotten.
	repeatsFor = int64(time.Minute / time.Millisecond)
)

// Reservation is how admissions are reserved.
type Reservation struct {
	ID      string
	Until   int64         // Unix ms
	Back    bool          // what is not settled until then is given back
	Content uint64        // of what was asked for: 0 stands for none
	Ago     time.Duration // they were taken no longer ago
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

// RefusesReservations is an *OverloadedError while no more can be made.
func (ls *Table) RefusesReservations() error {
	if ls.reserved.Load() < MaxReservations {
		return nil
	}
	return &OverloadedError{"100,000 reservations are not settled or not over: settle them, or use shorter ttls"}
}

// Reserve notes that a key took n admissions of the plan's limit for a reservation. The same
// again does nothing. With known, others decide for the key, and this node only knows of it.
func (ls *Table) Reserve(plan *Plan, partition int, key string, n uint64, r Reservation, known bool) error {
	s := &ls.shares[partition]
	now := ls.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	id := partID{plan.Name.Name, key, r.ID}
	if s.reserved[id] != nil {
		return nil
	}
	if err := ls.RefusesReservations(); err != nil {
		return err
	}
	made := reserved{n: n, content: r.Content, first: max(now-int64(r.Ago)+ls.Clock.Ahead(), 0) / msOfNs, until: r.Until, back: r.Back}
	ls.reserve(s, partition, id, made)
	if !known {
		ls.journalRecord(s, made.record(id), key, made.first, n)
	}
	return nil
}

// reserve puts a part in. The caller holds s.mu.
func (ls *Table) reserve(s *share, partition int, id partID, made reserved) {
	if s.reserved == nil {
		s.reserved = map[partID]*reserved{}
	}
	id = partID{strings.Clone(id.name), strings.Clone(id.key), strings.Clone(id.id)}
	s.reserved[id] = &made
	ls.reserved.Add(1)
	ls.ids.Lock()
	defer ls.ids.Unlock()
	if ls.byID == nil {
		ls.byID = map[string][]partRef{}
	}
	ls.byID[id.id] = append(ls.byID[id.id], partRef{partition, id})
}

// partRef is where a part is.
type partRef struct {
	partition int
	id        partID
}

// Reserved lists the parts of a reservation that is known here.
func (ls *Table) Reserved(id string) (parts []Part) {
	nowMs := (ls.Clock.Now() + ls.Clock.Ahead()) / msOfNs
	for _, ref := range ls.partsOf(id) {
		s := &ls.shares[ref.partition]
		s.mu.Lock()
		if r := s.reserved[ref.id]; r != nil && r.until > nowMs {
			parts = append(parts, Part{ref.id.name, ref.id.key, r.n, r.content, r.settled, r.whole})
		}
		s.mu.Unlock()
	}
	return parts
}

// Whole notes that all parts of a reservation are known here. Other nodes learn of them one after another.
func (ls *Table) Whole(id string) {
	for _, ref := range ls.partsOf(id) {
		s := &ls.shares[ref.partition]
		s.mu.Lock()
		if r := s.reserved[ref.id]; r != nil {
			r.whole = true
		}
		s.mu.Unlock()
	}
}

func (ls *Table) partsOf(id string) []partRef {
	ls.ids.Lock()
	defer ls.ids.Unlock()
	return slices.Clone(ls.byID[id])
}

// Settle says how many of a reservation's admissions were used: the rest is given back. What was
// used beyond them counts as debt, whatever the limit says, or else if the limit has room for
// all of it.
func (ls *Table) Settle(plan *Plan, partition int, key, id string, used uint64, debt bool) (done Settled, err error) {
	s := &ls.shares[partition]
	now := ls.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reserved[partID{plan.Name.Name, key, id}]
	if r == nil || !r.settled && r.until <= (now+ls.Clock.Ahead())/msOfNs {
		return Settled{}, nil
	}
	if r.settled {
		return Settled{Known: true, Again: true, Used: r.used, Over: r.over}, nil
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
	if used > r.n {
		done.Over = ls.takeMore(s, st, now, min(used-r.n, limit.MaxBurst), debt)
		done.Used -= done.Over
	}
	done.Freed = ls.settle(s, partID{plan.Name.Name, key, id}, r, now, done.Used, done.Over)
	done.Present = st.Value.plan.Peek(&st.Value.state, now, 0)
	return done, nil
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

// settle settles a part, and has the journal tell. The caller holds s.mu.
func (ls *Table) settle(s *share, id partID, r *reserved, now int64, used, over uint64) (free uint64) {
	r.settled, r.used, r.over = true, used, over
	rest := uint64(0) // as other nodes are to give back: what was here
	if st := ls.stateOf(s, id); st != nil && used < r.n {
		free, rest = ls.refund(st, now, ls.timeOf(r.first, now), r.n-used)
		rest = ls.unnote(s, st, ls.timeOf(r.first, now), rest)
	}
	how := binary.AppendUvarint(binary.AppendUvarint(wire.AppendText(nil, id.id), used), rest)
	ls.journalRecord(s, changeRecord(id.name, changeSettle)+string(how), id.key, ceilMs(now+ls.Clock.Ahead()), 1)
	return free
}

// stateOf is the state that a part is of, or nil. The caller holds s.mu.
func (ls *Table) stateOf(s *share, id partID) *entry {
	ls.mu.Lock()
	name := ls.names[id.name]
	ls.mu.Unlock()
	if name == nil {
		return nil
	}
	return s.find(ls.hash(name, id.key), name, id.key)
}

// applySettle is what a journal has of a part that was settled: rest is to be given back. One that
// was given back here, as it was not settled in time, by a clock that is ahead, counts as used
// again. The caller holds s.mu.
func (ls *Table) applySettle(s *share, id partID, used, rest uint64, now int64) {
	r := s.reserved[id]
	if r == nil {
		return
	}
	st, at := ls.stateOf(s, id), ls.timeOf(r.first, now)
	switch {
	case r.settled && !(r.lapsed && used > 0):
		return
	case st == nil:
	case r.settled:
		before := cellBytes(st)
		st.Value.plan.Charge(&st.Value.state, at, min(used, r.n))
		ls.grow(st.Value.plan, int64(cellBytes(st)-before))
	default:
		ls.refund(st, now, at, rest)
	}
	r.settled, r.lapsed, r.used = true, false, used
}

// Lapse settles the reservations whose time is over: what is to be given back then is, the others
// are forgotten, and so is what was settled a minute ago. It is for the janitor, every second or so.
func (ls *Table) Lapse() {
	if ls.reserved.Load() == 0 {
		return
	}
	for i := range ls.shares {
		s := &ls.shares[i]
		s.mu.Lock()
		if len(s.reserved) > 0 {
			ls.lapse(s)
		}
		s.mu.Unlock()
	}
}

// lapse is Lapse of a share. The caller holds s.mu.
func (ls *Table) lapse(s *share) {
	now := ls.Clock.Now()
	nowMs := (now + ls.Clock.Ahead()) / msOfNs
	for id, r := range s.reserved {
		switch {
		case r.forget > 0 && nowMs >= r.forget:
			ls.unreserve(s, id)
		case nowMs < r.until+lapseAfter:
			if r.settled && r.forget == 0 {
				r.forget = nowMs + repeatsFor
			}
		case r.back && !r.settled:
			ls.settle(s, id, r, now, 0, 0)
			r.lapsed = true
		case nowMs >= r.until+3*lapseAfter:
			ls.unreserve(s, id)
		}
	}
}

// unreserve forgets a part. The caller holds s.mu.
func (ls *Table) unreserve(s *share, id partID) {
	delete(s.reserved, id)
	ls.reserved.Add(-1)
	ls.ids.Lock()
	defer ls.ids.Unlock()
	refs := ls.byID[id.id]
	for i := range refs {
		if refs[i].id == id {
			refs[i] = refs[len(refs)-1]
			refs = refs[:len(refs)-1]
			break
		}
	}
	if ls.byID[id.id] = refs; len(refs) == 0 {
		delete(ls.byID, id.id)
	}
}

// record is a part in bytes: that of the change, then until as an unsigned varint, 1 if it is
// given back, the ID with its length before it, and the content as an unsigned varint, if it is known.
func (r *reserved) record(id partID) string {
	b := binary.AppendUvarint([]byte(changeRecord(id.name, changeReserve)), uint64(r.until))
	b = wire.AppendText(wire.AppendBool(b, r.back), id.id)
	if r.content != 0 {
		b = binary.AppendUvarint(b, r.content)
	}
	return string(b)
}

// readPart reads what record has after the change; state is what append wrote, or nil.
func readPart(rest string, state []byte) (id string, made reserved, err error) {
	r := wire.NewReader([]byte(rest))
	made.until = int64(r.AtMost(1<<63 - 1))
	made.back = r.Bool()
	id = r.Text(MaxReservationID)
	if r.Len() > 0 {
		made.content = r.Uvarint()
	}
	if !r.Done() || state == nil {
		return id, made, partError(r.Done())
	}
	r = wire.NewReader(state)
	made.n = r.AtMost(limit.MaxBurst)
	made.first = int64(r.AtMost(1<<63 - 1))
	made.settled, made.lapsed = r.Bool(), r.Bool()
	made.used = r.Uvarint()
	return id, made, partError(r.Done())
}

func partError(ok bool) error {
	if !ok {
		return errPart
	}
	return nil
}

var errPart = errors.New("is no part of a reservation")

// append appends what record does not have.
func (r *reserved) append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, r.n), uint64(r.first))
	b = wire.AppendBool(wire.AppendBool(b, r.settled), r.lapsed)
	return binary.AppendUvarint(b, r.used)
}

// makeReserved makes a change of a reservation that comes from a journal. The caller holds s.mu.
func (ls *Table) makeReserved(s *share, partition int, plan *Plan, a replication.Admission) {
	now := ls.Clock.Now()
	if plan.change == changeSettle {
		r := wire.NewReader([]byte(plan.rest))
		id := partID{plan.Name.Name, a.Key, r.Text(MaxReservationID)}
		used, rest := r.Uvarint(), r.AtMost(limit.MaxBurst)
		if r.Done() {
			ls.applySettle(s, id, used, rest, now)
		}
		return
	}
	id, made, err := readPart(plan.rest, nil)
	of := partID{plan.Name.Name, a.Key, id}
	if err != nil || s.reserved[of] != nil || made.until+3*lapseAfter <= (now+ls.Clock.Ahead())/msOfNs {
		return
	}
	made.n, made.first = min(a.N, limit.MaxBurst), max(a.At, 0)
	ls.reserve(s, partition, of, made)
}

// besideStates is what a content has of keys beside their states.
type besideStates struct {
	grants []keyGrant
	bans   []KeyBan
	parts  []keyPart

	permits []keyPermit
}

// keyPart is a part that was read.
type keyPart struct {
	id partID
	reserved
}

// read reads what is of a change, by a clock that the time of day is ahead of by so many ns.
func (b *besideStates) read(plan *Plan, of replication.LimitState, ahead int64) error {
	if plan.change == changePermit {
		list, err := readHolders(grantID{plan.Name.Name, of.Key}, of.State, of.Ahead-ahead)
		b.permits = append(b.permits, list...)
		return err
	}
	if plan.change == changeReserve {
		id, made, err := readPart(plan.rest, of.State)
		b.parts = append(b.parts, keyPart{partID{plan.Name.Name, of.Key, id}, made})
		return err
	}
	if plan.change == changeBan {
		until, err := readBan(of.State)
		b.bans = append(b.bans, KeyBan{plan.Name.Name, of.Key, until})
		return err
	}
	g, err := readGrant(of.State)
	b.grants = append(b.grants, keyGrant{grantID{plan.Name.Name, of.Key}, g})
	return err
}

// restoreReserved takes parts back. The caller holds s.mu.
func (ls *Table) restoreReserved(s *share, partition int, list []keyPart) {
	for _, p := range list {
		if s.reserved[p.id] == nil {
			ls.reserve(s, partition, p.id, p.reserved)
		}
	}
}

// forgetReservedOf is forgetReserved of a key. The caller holds s.mu.
func (s *share) forgetReservedOf(base, key string) {
	s.forgetReserved(func(id partID) bool { return id.key == key && BaseName(id.name) == base })
}

// forgetReserved settles the reservations of which nothing counts any more. The caller holds s.mu.
func (s *share) forgetReserved(of func(id partID) bool) {
	for id, r := range s.reserved {
		if !r.settled && of(id) {
			r.settled, r.used = true, r.n
		}
	}
}
