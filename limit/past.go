package limit

import (
	"cmp"
	"slices"
)

// The past of a state that knows more than its plan's own form can hold, because
// a wider limit was narrowed, or another one came in its place: what was admitted
// lately, for the limits that adopt the state later. Decisions do not look at it.
//
// It is the last pastCells of State.cells, behind those of the form: for each of
// 17 sub-slots a time and a count, sub-slot k at place k%17. Counts of one sub-slot
// stand together at the latest of their times. That is the time of an admission, and
// so stays what it is however often the state is adopted: times that were rounded
// up each time would never leave while two limits take turns.
const pastCells = 2 * (subSlots + 1)

// hasPast tells it from the cells of the forms, of which there are at most 17.
func (s *State) hasPast() bool { return len(s.cells) >= pastCells }

// pastBegin makes room for the past behind all cells that the plan's form may need.
func (s *State) pastBegin(p *Plan) {
	own := 0
	switch p.form {
	case ring:
		own = int(p.limit.Burst) - 1
	case slots:
		own = subSlots + 1
	}
	cells := make([]int64, own+pastCells)
	copy(cells, s.cells)
	s.cells = cells
}

// pastAdd remembers n admissions; there must be a past.
func (s *State) pastAdd(p *Plan, at int64, n uint64) {
	width := (p.interval + subSlots - 1) / subSlots
	slot := at / width
	place := 2 * int(slot%(subSlots+1))
	past := s.cells[len(s.cells)-pastCells:]
	latest, count := &past[place], &past[place+1]
	switch had := *latest / width; {
	case *count == 0 || had < slot: // more than an interval ago
		*latest, *count = at, int64(min(n, MaxBurst))
	case had == slot:
		*latest, *count = max(*latest, at), int64(min(uint64(*count)+n, MaxBurst))
	}
}

// pastList appends the past, the oldest first.
func (s *State) pastList(list []admissions) []admissions {
	began := len(list)
	for past := s.cells[len(s.cells)-pastCells:]; len(past) > 0; past = past[2:] {
		if past[1] > 0 {
			list = append(list, admissions{past[0], uint64(past[1])})
		}
	}
	slices.SortFunc(list[began:], func(a, b admissions) int { return cmp.Compare(a.at, b.at) })
	return list
}

// pastNewest is the newest time of the past, -1 without one.
func (s *State) pastNewest() int64 {
	newest := int64(-1)
	if !s.hasPast() {
		return newest
	}
	for past := s.cells[len(s.cells)-pastCells:]; len(past) > 0; past = past[2:] {
		if past[1] > 0 {
			newest = max(newest, past[0])
		}
	}
	return newest
}

// remember adds n admissions, just decided at the time now, to a past.
func (p *Plan) remember(s *State, now int64, n uint64) {
	switch p.form { // a time before the newest seen counts as that one
	case ring:
		now = s.at
	case slots:
		now = max(now, s.at*p.width)
	case fixed:
		now = max(now, s.at*p.interval)
	case gcra:
		now = int64(s.used)
	}
	s.pastAdd(p, now, n)
}
