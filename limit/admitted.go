package limit

import "time"

// Admitted is admissions that a state knows of: N of them, the last at the time At.
type Admitted struct {
	At int64 // ns, by the state's clock
	N  uint64
}

// AppendKnown appends what Known calls its function with.
func (p *Plan) AppendKnown(list []Admitted, s *State, now int64) []Admitted {
	now = clamp(now)
	s.pastLapse(p, now)
	if s.HasPast() {
		p.Known(s, now, func(at int64, n uint64) { list = append(list, Admitted{at, n}) })
		return list
	}
	var room [subSlots + 1]admissions // half of what Known needs
	for _, a := range p.formHistory(s, now, room[:0]) {
		list = append(list, Admitted{a.at, a.n})
	}
	return list
}

// Doubt is by how much earlier than Known says an admission may have been: nothing of a
// Window up to a burst of 16, a sub-slot of a larger one, T of others, and of a state that
// has lived through a change of its limit.
func (p *Plan) Doubt(s *State) time.Duration {
	switch {
	case s.HasPast() || p.form == fixed || p.form == gcra:
		return time.Duration(p.interval)
	case p.form == slots:
		return time.Duration(p.width)
	}
	return 0
}
