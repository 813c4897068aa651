package limit

import (
	"cmp"
	"math/bits"
	"slices"
)

// The past of a state that knows more than its plan's own form can hold, because
// a wider or a longer limit was narrowed, or another one came in its place: what was
// admitted lately, for the limits that adopt the state later. Decisions do not look
// at it.
//
// It is the last pastCells of State.cells, behind those of the form: its reach, then
// for each of 17 sub-slots a time and a count, sub-slot k at place k%17. Counts of one
// sub-slot stand together at the latest of their times. That is the time of an
// admission, and so stays what it is however often the state is adopted: times that
// were rounded up each time would never leave while two limits take turns.
//
// Sub-slots are 2^k ns wide, the least of at least a 16th of the reach: those of a
// short reach lie within those of a long one, so however the reach changes, a count
// comes to stand no later than at the end of its longest sub-slot.
const (
	pastPlaces = 2 * (subSlots + 1)
	pastCells  = pastPlaces + 3
)

// reach is how far a past goes back. The interval T of a limit matters for T after
// that limit was last in use: what it admitted then has left.
type reach struct {
	interval int64 // the longest that matters
	used     int64 // when it was last in use: it matters for an interval from then
	next     int64 // the longest of shorter ones that were in use as well, or 0
}

// with is the reach once a limit's interval has been in use until at.
func (r reach) with(interval, at int64) reach {
	switch {
	case interval > r.interval: // and so matters for longer than all before
		return reach{interval, at, 0}
	case interval == r.interval:
		r.used = max(r.used, at)
	default:
		r.next = max(r.next, interval)
	}
	return r
}

// lapsed is the reach at the time now under a limit with the interval present, the
// zero one if nothing matters. When the next was last in use is not known: not later
// than now.
func (r reach) lapsed(now, present int64) reach {
	switch {
	case now-r.used < r.interval:
		return r
	case r.next == 0:
		return reach{}
	default:
		return reach{interval: max(r.next, present), used: now}
	}
}

// HasPast tells whether s knows more than its present limit lets it use, for limits
// with longer intervals or larger bursts that may adopt it: see Adopt. It may matter
// for longer than the present limit's interval: Idle tells. O(1).
func (s *State) HasPast() bool { return len(s.cells) >= pastCells } // the forms have at most 17

// past is the cells of the past; there must be one.
func (s *State) past() []int64 { return s.cells[len(s.cells)-pastCells:] }

func (s *State) pastReach() reach {
	past := s.past()
	return reach{past[0], past[1], past[2]}
}

// pastBegin gives s a past of what is listed, the oldest first, in place of any that
// it had, behind all cells that the plan's form may need.
func (s *State) pastBegin(p *Plan, r reach, list []admissions) {
	own := p.ownCells()
	if p.form == slots {
		s.slotsOpen()
	}
	cells := make([]int64, own+pastCells)
	copy(cells[:own], s.cells)
	s.cells = cells
	past := s.past()
	past[0], past[1], past[2] = r.interval, r.used, r.next
	for _, a := range list {
		s.pastAdd(a.at, a.n)
	}
}

// ownCells is how many cells the plan's form may need.
func (p *Plan) ownCells() int {
	switch p.form {
	case ring:
		return int(p.limit.Burst) - 1
	case slots:
		return subSlots + 1
	default:
		return 0
	}
}

// pastLapse forgets what no longer matters at the time now, with the whole past if
// nothing of it does.
func (s *State) pastLapse(p *Plan, now int64) {
	if !s.HasPast() {
		return
	}
	have := s.pastReach()
	switch r := have.lapsed(now, p.interval); {
	case r == have:
	case r.interval == 0:
		s.pastForget(p)
	default:
		var room [subSlots + 1]admissions
		s.pastBegin(p, r, s.pastList(room[:0]))
	}
}

// pastForget forgets the past; there must be one.
func (s *State) pastForget(p *Plan) {
	own := s.cells[:p.ownCells()]
	if p.form == slots {
		own = s.slotsCells()
	}
	s.cells = append([]int64(nil), own...)
}

// pastAdd remembers n admissions; there must be a past.
func (s *State) pastAdd(at int64, n uint64) {
	past := s.past()
	shift := bits.Len64(uint64((past[0]+subSlots-1)/subSlots - 1))
	slot := at >> shift
	place := pastCells - pastPlaces + 2*int(slot%(subSlots+1))
	latest, count := &past[place], &past[place+1]
	switch had := *latest >> shift; {
	case *count == 0 || had < slot: // longer ago than the reach
		*latest, *count = at, int64(min(n, MaxBurst))
	case had == slot:
		*latest, *count = max(*latest, at), int64(min(uint64(*count)+n, MaxBurst))
	}
}

// pastList is the past in a list that was empty, the oldest first.
func (s *State) pastList(list []admissions) []admissions {
	for places := s.past()[pastCells-pastPlaces:]; len(places) > 0; places = places[2:] {
		if places[1] > 0 {
			list = append(list, admissions{places[0], uint64(places[1])})
		}
	}
	slices.SortFunc(list, func(a, b admissions) int { return cmp.Compare(a.at, b.at) })
	return list
}

// pastWithin is pastList of what is within the reach, none later than now.
func (s *State) pastWithin(list []admissions, now int64) []admissions {
	length := s.pastReach().interval
	list = s.pastList(list)
	for i := range list {
		list[i].at = min(list[i].at, now)
	}
	return slices.DeleteFunc(list, func(a admissions) bool { return now-a.at >= length })
}

// pastNewest is the newest time of the past, -1 without one.
func (s *State) pastNewest() int64 {
	newest := int64(-1)
	for places := s.past()[pastCells-pastPlaces:]; len(places) > 0; places = places[2:] {
		if places[1] > 0 {
			newest = max(newest, places[0])
		}
	}
	return newest
}

// pastIdle tells whether nothing of a past matters.
func (s *State) pastIdle(p *Plan, now int64) bool {
	return !s.HasPast() || now-s.pastNewest() >= s.pastReach().lapsed(now, p.interval).interval
}

// remember adds n admissions, just decided at the time now, to a past.
func (p *Plan) remember(s *State, now int64, n uint64) {
	switch p.form { // a time before the newest seen counts as that one
	case ring:
		now = s.at
	case slots:
		now = max(now, s.at*p.width)
	case fixed:
		now = max(now, p.periodStart(s.at))
	case gcra:
		now = int64(s.used)
	}
	if s.pastLapse(p, now); s.HasPast() {
		s.pastAdd(now, n)
	}
}

// admissions are n of them at a time, or earlier.
type admissions struct {
	at int64
	n  uint64
}

func total(list []admissions) (n uint64) {
	for _, a := range list {
		n += a.n
	}
	return n
}

// history appends what the state knows of the admissions within its reach, that of the
// past or else the interval: each at the latest time at which it may have been, none
// after now, the oldest first. At most 34, for an empty list.
//
// The past knows all of them. What ring and slots know of the newest is often more
// exact, but moves later at each change from slots: so each counts at the earlier time.
func (p *Plan) history(s *State, now int64, list []admissions) []admissions {
	if !s.HasPast() {
		return p.formHistory(s, now, list)
	}
	var pastRoom, formRoom [subSlots + 1]admissions
	past := s.pastWithin(pastRoom[:0], now)
	if p.form == fixed || p.form == gcra {
		return append(list, past...)
	}
	form := p.formHistory(s, now, formRoom[:0])
	others := now - p.interval
	switch {
	case p.ahead(s, now): // and has forgotten others as of then
		others = now
	case p.form == ring && total(form) == p.limit.Burst:
		others = form[0].at
	}
	return earlier(list, past, form, others)
}

// formHistory is history of what the form holds, at most 17.
func (p *Plan) formHistory(s *State, now int64, list []admissions) []admissions {
	add := func(at int64, n uint64) {
		if at = min(at, now); n > 0 && now-at < p.interval {
			list = append(list, admissions{at, n})
		}
	}
	switch p.form {
	case ring:
		for k := int(min(s.used, p.limit.Burst)); k >= 1; k-- {
			at, _ := s.ringTime(p, k)
			add(at, 1)
		}
	case slots:
		s.slotsAdvance(p, now)
		for _, cell := range s.slotsOpen() {
			add((s.slotOf(cell)+1)*p.width-1, uint64(cell>>slotBits))
		}
	case fixed:
		s.fixedAdvance(p, now)
		add(now, s.used)
	case gcra:
		add(int64(s.used), s.gcraUsed(p, now))
	}
	return list
}

// earlier appends the admissions of the past, the k-th newest at the earlier of its
// times in the past and in the form, the others no later than that time. It uses up
// both lists.
func earlier(list, past, form []admissions, others int64) []admissions {
	began := len(list)
	for len(past) > 0 {
		last := &past[len(past)-1]
		a := *last
		if len(form) > 0 {
			newest := &form[len(form)-1]
			a = admissions{min(a.at, newest.at), min(a.n, newest.n)}
			if newest.n -= a.n; newest.n == 0 {
				form = form[:len(form)-1]
			}
		} else {
			a.at = min(a.at, others)
		}
		if last.n -= a.n; last.n == 0 {
			past = past[:len(past)-1]
		}
		list = append(list, a)
	}
	slices.Reverse(list[began:])
	return list
}
