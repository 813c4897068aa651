package admit

import (
	"strings"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/policy"
)

// transit is how much longer ago admissions of another node's may have been taken than it was asked to
// reserve them: what a message may need.
const transit = 500 * time.Millisecond

// Reserve is TakeNow of requests whose need is known later: Settle says then how much of it was used. What is
// admitted without a decision (a strict limit with away: open) is not reserved. An error after they were admitted, of
// a table that other requests have filled since, or a node that does not answer, leaves what was taken used.
func (l *Live) Reserve(reqs []Request, r weir.Reservation, d *Decision) error {
	if err := limits.Of(l.engine).RefusesReservations(); err != nil {
		return err
	}
	if err := l.refusesReserving(reqs, d); err != nil {
		return err
	}
	for i := range reqs {
		if len(reqs[i].Costs) > 0 && reqs[i].Limit == "" {
			return policy.Failure(weir.CodeInvalidLimit, "limit", "a reservation with costs is of one limit, since it is settled by one number: name it")
		}
	}
	began := time.Now()
	if err := l.TakeNow(reqs, d); err != nil || !d.Allowed {
		return err
	}
	for i, c := range d.checks {
		result := &d.Results[i]
		if c.N == 0 || !result.Allowed || result.Away == policy.AwayOpen.String() || result.Away == policy.AwayClosed.String() {
			continue
		}
		if err := l.reserve(c, d.elsewhere[i], result.Away == "", r, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// reserve notes what a check took where that was decided.
func (l *Live) reserve(c weir.Check, e *elsewhere, decided bool, r weir.Reservation, ago time.Duration) error {
	if e == nil || !decided {
		return limits.NoteReserved(c.Limit, c.Key, c.N, r, ago, false)
	}
	order := limits.Change{Kind: limits.Reserve, At: r.Until, ID: r.ID, Ago: ago + transit, Flag: r.GiveBack, Content: r.Content}
	if _, err := l.change(order, boundLimit{limit: c.Limit, elsewhere: e}, c.Key, c.N); err != nil {
		return err
	}
	return limits.NoteReserved(c.Limit, c.Key, c.N, r, ago+transit, true)
}

// Reserved lists the parts of a reservation that is known here, and not over.
func (l *Live) Reserved(id string) []weir.ReservedPart { return limits.Of(l.engine).Reserved(id) }

// Settle says how many of each of a reservation's admissions were used, and appends what came of each part to made: the
// rest is given back, where it was taken. With debt what was used beyond them counts, whatever the limits say; else
// only if they have room for it. It may be sent again: what was settled says so. An error is CodeNotHeld, or
// CodeOverloaded.
func (l *Live) Settle(id string, used uint64, debt bool, made []Changed) ([]Changed, error) {
	order := limits.Change{Kind: limits.Settle, ID: strings.Clone(id), Flag: debt}
	for _, part := range l.Reserved(id) {
		one, _, err := l.changeNamed(order, part.Name, part.Key, used)
		if err != nil {
			return made, err
		}
		one.Reserved = part.N
		made = append(made, one)
	}
	return made, nil
}
