package limit

import (
	"cmp"
	"math/bits"
	"slices"
)

// past is what a state knows that its plan's own form can't hold, because its limit was narrowed or replaced. It has
// what was admitted lately, for the limits that adopt the state later. Decisions do not look at it.
//
// Sub-slot k has place k%17. Counts of one sub-slot are joined at the latest of their times. That is the time of an
// admission, so it does not change however often the state is adopted. Times that were rounded up each time would never
// leave while two limits take turns.
//
// Sub-slots are 2^k ns wide, with the smallest k for which they have at least a 16th of the reach. The sub-slots of a
// short reach lie within the sub-slots of a long one. However the reach changes, a count moves at most to the end of
// its longest sub-slot.
type past struct {
	reach
	places [pastPlaces]admissions
}

const (
	pastSlots  = 16
	pastPlaces = pastSlots + 1
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

// lapsed is the reach at the time now under a limit with the interval present, the zero one if nothing matters. When
// the next was last in use is not known: not later than now.
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

// HasPast reports whether s knows more than its present limit lets it use. Limits with longer intervals or larger
// bursts may adopt that (see Adopt). It may matter for longer than the present limit's interval: Idle reports that.
// O(1).
func (s *State) HasPast() bool { return s.past != nil }

// pastBegin gives s a past of what is listed, the oldest first, in place of any that it had.
func (s *State) pastBegin(r reach, list []admissions) {
	s.past = &past{reach: r}
	for _, a := range list {
		s.past.add(a.at, a.n)
	}
}

// pastLapse forgets what no longer matters at the time now, with the whole past if nothing of it does.
func (s *State) pastLapse(p *Plan, now int64) {
	if s.past == nil {
		return
	}
	switch r := s.past.lapsed(now, p.interval); {
	case r == s.past.reach:
	case r.interval == 0:
		s.past = nil
	default:
		s.pastBegin(r, s.past.list())
	}
}

// add remembers n admissions.
func (b *past) add(at int64, n uint64) {
	shift := bits.Len64(uint64((b.interval+pastSlots-1)/pastSlots - 1))
	slot := at >> shift
	place := &b.places[slot%pastPlaces]
	switch had := place.at >> shift; {
	case place.n == 0 || had < slot: // longer ago than the reach
		*place = admissions{at, min(n, MaxBurst)}
	case had == slot:
		*place = admissions{max(place.at, at), min(place.n+n, MaxBurst)}
	}
}

// list is all of the past, the oldest first.
func (b *past) list() (list []admissions) {
	for _, a := range b.places {
		if a.n > 0 {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b admissions) int { return cmp.Compare(a.at, b.at) })
	return list
}

// within is what of list is within the reach, none later than now.
func (b *past) within(now int64) []admissions {
	list := b.list()
	for i := range list {
		list[i].at = min(list[i].at, now)
	}
	return slices.DeleteFunc(list, func(a admissions) bool { return now-a.at >= b.interval })
}

// newest is the newest time, -1 without one.
func (b *past) newest() int64 {
	newest := int64(-1)
	for _, a := range b.places {
		if a.n > 0 {
			newest = max(newest, a.at)
		}
	}
	return newest
}

// pastIdle reports whether nothing of a past matters.
func (s *State) pastIdle(p *Plan, now int64) bool {
	return s.past == nil || now-s.past.newest() >= s.past.lapsed(now, p.interval).interval
}

// remember adds n admissions, just decided at the time now, to a past.
func (p *Plan) remember(s *State, now int64, n uint64) {
	now = max(now, p.newest(s)) // a time before the newest seen counts as that one
	if s.pastLapse(p, now); s.past != nil {
		s.past.add(now, n)
	}
}

// newest is the newest time that the form has seen.
func (p *Plan) newest(s *State) int64 {
	switch p.form {
	case log:
		return p.logTime(s.at)
	case fixed:
		return p.periodStart(s.at)
	default:
		return int64(s.used)
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

// history appends what the state knows of the admissions within the reach of the past, or else within the interval.
// Each has the latest time at which it may have been, none after now, the oldest first. It appends at most 273 to an
// empty list.
//
// The past knows all of them. The log is more exact about the newest ones, so each admission counts at the earlier of
// its two times.
func (p *Plan) history(s *State, now int64, list []admissions) []admissions {
	if s.past == nil {
		return p.formHistory(s, now, list)
	}
	past := s.past.within(now)
	if p.form != log {
		return append(list, past...)
	}
	form := newest(p.formHistory(s, now, nil), p.limit.Burst)
	others := now - p.interval
	switch {
	case p.ahead(s, now): // and it has forgotten other times up to then
		others = now
	case total(form) == p.limit.Burst:
		others = form[0].at
	}
	return earlier(list, past, form, others)
}

// newest is the newest n admissions of a list, which it uses up.
func newest(list []admissions, n uint64) []admissions {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].n = min(list[i].n, n); list[i].n == 0 {
			return list[i+1:]
		}
		n -= list[i].n
	}
	return list
}

// formHistory is history of what the form holds, at most 256.
func (p *Plan) formHistory(s *State, now int64, list []admissions) []admissions {
	began := len(list)
	switch p.form {
	case log:
		list = s.logList(p, list)
	case fixed:
		s.fixedAdvance(p, now)
		list = append(list, admissions{now, s.used})
	case gcra:
		list = append(list, admissions{int64(s.used), s.gcraUsed(p, now)})
	}
	kept := list[:began]
	for _, a := range list[began:] {
		if a.at = min(a.at, now); a.n > 0 && now-a.at < p.interval {
			kept = append(kept, a)
		}
	}
	return kept
}

// earlier appends the admissions of the past. The k-th newest gets the earlier of its times in the past and in the
// form; admissions that the form lacks are no later than others. It uses up both lists.
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
