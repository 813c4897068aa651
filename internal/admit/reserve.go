package admit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// transit is how much time a message between two nodes may need. Another node may have taken admissions that much
// before it was asked to reserve them.
const transit = 500 * time.Millisecond

// Reserve is TakeNow for requests whose need is known only later: Settle then says how much they used. It reserves nothing
// that was admitted without a decision (a strict limit with away: open). If another node has reserved a part under the same ID,
// Reserve gives back what it took of that part, and sets d.Repeats. After an error nothing is reserved, and everything is given
// back. Exceptions are nodes that do not answer, and parts that two nodes asked for.
func (l *Live) Reserve(reqs []Request, r engine.Reservation, d *Decision) error {
	if err := l.engine.Limits().RefusesReservation(r.ID); err != nil {
		return err
	}
	began := time.Now()
	d.reserving = true
	err := l.TakeNow(reqs, d)
	d.reserving = false
	if err != nil || !d.Allowed {
		return err
	}
	return l.noteParts(d.reservedParts(), r, began, d)
}

// TakeForOutcome is Take that also reserves what policies with a CountIf took. Settle says later, by the status of the answer,
// whether it counts. reserved is false if no policy has a CountIf.
func (l *Live) TakeForOutcome(reqs []Request, r engine.Reservation, d *Decision) (reserved bool, err error) {
	began := time.Now()
	d.reserving = true
	err = l.Take(reqs, d)
	d.reserving = false
	if err != nil || !d.Allowed {
		return false, err
	}
	for i := range d.Results {
		if r := &d.Results[i]; r.costs && r.Allowed && !r.outcome {
			l.spend(r.Name, r.Key, r.N)
		}
	}
	var conditional, others []reservedPart
	for _, p := range d.reservedParts() {
		if slices.ContainsFunc(d.Results, func(r Result) bool { return r.outcome && r.Name == p.limit.Name() && r.Key == p.key }) {
			conditional = append(conditional, p)
		} else {
			others = append(others, p)
		}
	}
	if err := l.noteParts(conditional, r, began.Add(d.Waited), d); err != nil {
		for _, p := range others {
			l.refund(&p)
		}
		return false, err
	}
	return len(conditional) > 0, nil
}

// noteParts records all parts of a reservation, or gives all of them back.
func (l *Live) noteParts(parts []reservedPart, r engine.Reservation, began time.Time, d *Decision) error {
	r.Parts = uint64(len(parts))
	for i := range parts {
		p := &parts[i]
		again, err := l.reserve(p, r, time.Since(began))
		if err != nil {
			l.unreserve(parts[:i+1], r.ID)
			for _, p := range parts[i+1:] {
				l.refund(&p)
			}
			return err
		}
		if again {
			l.refund(p)
			d.Repeats, p.n = true, 0
		}
	}
	return nil
}

// refund gives back a part that is not reserved.
func (l *Live) refund(p *reservedPart) {
	_, _ = l.change(engine.Change{Kind: engine.ChangeRefund}, p.boundLimit, p.key, p.n)
}

// reservedPart is what was taken of one key of a limit.
type reservedPart struct {
	boundLimit // without elsewhere if it was decided here
	key        string
	n          uint64 // 0: another node reserved it, and what was taken here is given back
}

// reservedParts returns what a decision took and Settle may give back, once for each limit and key.
func (d *Decision) reservedParts() (parts []reservedPart) {
	for i, c := range d.checks {
		result := &d.Results[i]
		if c.N == 0 || !result.Allowed || result.Away == policy.AwayOpen.String() || result.Away == policy.AwayClosed.String() {
			continue
		}
		made := reservedPart{boundLimit{limit: c.Limit}, c.Key, c.N}
		if result.Away == "" {
			made.elsewhere = d.elsewhere[i]
		}
		same := func(p reservedPart) bool { return p.key == c.Key && p.limit.Name() == c.Limit.Name() }
		if at := slices.IndexFunc(parts, same); at >= 0 {
			parts[at].n += c.N
			continue
		}
		parts = append(parts, made)
	}
	return parts
}

// reserve records a part at the node that decided it. again is true if another node did so before.
func (l *Live) reserve(p *reservedPart, r engine.Reservation, ago time.Duration) (again bool, err error) {
	if p.elsewhere == nil {
		return p.limit.NoteReserved(p.key, p.n, r, ago, false)
	}
	order := engine.Change{Kind: engine.ChangeReserve, At: r.Until, ID: r.ID, Ago: ago + transit, Flag: r.GiveBack, Content: r.Content, Parts: r.Parts}
	made, err := l.change(order, p.boundLimit, p.key, p.n)
	if err != nil || made.Again {
		return made.Again, err
	}
	return p.limit.NoteReserved(p.key, p.n, r, ago+transit, true)
}

// unreserve gives back parts that were recorded; the last one may not have been. Nodes that only know of a part learn from
// the journal that it is gone.
func (l *Live) unreserve(parts []reservedPart, id string) {
	order := engine.Change{Kind: engine.ChangeUnreserve, ID: id}
	for i, p := range parts {
		if p.n == 0 {
			continue
		}
		made, err := l.change(order, p.boundLimit, p.key, 0)
		if err == nil && !made.Was && i == len(parts)-1 {
			l.refund(&p)
		}
	}
}

// Used is what a request really used: N of every limit, or with Costs, for each policy, the cost that it takes. If Costs has
// api.Outcome, a policy with a CountIf has used all or nothing.
type Used struct {
	N     uint64
	Costs []Cost
}

// forPolicy returns how many of the reserved admissions of a policy were used; p is nil for a limit that the request brought
// along. A policy without a cost used all of them, unless Costs has "requests".
func (u Used) forPolicy(p *policy.Policy, reserved uint64) (uint64, error) {
	if len(u.Costs) == 0 {
		return u.N, nil
	}
	cost := Requests
	if p != nil && p.CountIf != nil {
		switch status, said := costNamed(u.Costs, api.Outcome); {
		case said && (status < 100 || status > 599):
			return 0, &engine.Error{Code: api.CodeInvalidCount, Field: "used", Message: "status is the status of the answer, 100 to 599"}
		case said && !p.CountIf.Holds(status):
			return 0, nil
		case said && p.Cost == "":
			return reserved, nil
		}
	}
	if p != nil {
		cost = cmp.Or(p.Cost, Requests)
	}
	if n, found := costNamed(u.Costs, cost); found {
		return n, nil
	}
	if cost == Requests {
		return reserved, nil
	}
	return 0, policy.Failure(api.CodeInvalidCount, "used", "limit %s counts %s, and used does not say how many: send for example \"used\":{%q:1}", p.Name, cost, cost)
}

// Settle says how many of each of a reservation's admissions were used, and appends the result of each part to made. It
// gives the rest back where it was taken. With debt, what was used beyond them counts whatever the limits say; else it
// counts only if it fits the limits. Settle may be repeated: a part that was settled reports so, or is CodeKeyReused if used differs.
// Other errors are CodeNotHeld, CodeOverloaded, or CodeInvalidCount if used lacks a cost; then nothing was settled.
func (l *Live) Settle(id string, used Used, debt bool, made []Changed) ([]Changed, error) {
	order := engine.Change{Kind: engine.ChangeSettle, ID: strings.Clone(id), Flag: debt}
	parts := l.engine.Limits().Reserved(id)
	numbers, costs := make([]uint64, len(parts)), make([]bool, len(parts))
	set := l.Set()
	for i, part := range parts {
		var p *policy.Policy
		if at, ok := set.Place(part.Name); ok {
			p = set.At(at)
			costs[i] = p.Cost != ""
		}
		var err error
		if numbers[i], err = used.forPolicy(p, part.N); err != nil {
			return made, err
		}
	}
	for i, part := range parts {
		one, known, err := l.changeNamed(order, part.Name, part.Key, numbers[i])
		if err != nil {
			return made, err
		}
		if known && !one.Was && part.Settled { // at another node, which alone decides its part
			was, err := part.Repeat(numbers[i])
			if err != nil {
				return made, err
			}
			one.Was, one.Again, one.Used, one.Over = was.Known, was.Again, was.Used, was.Over
		}
		if costs[i] && one.Was && !one.Again {
			l.spend(part.Name, part.Key, one.Used)
		}
		one.Reserved = part.N
		made = append(made, one)
	}
	return made, nil
}

// Permitted is the outcome of a request about a permit, which a key may need from several concurrency limits.
type Permitted struct {
	OK     bool
	Denied *policy.AtOnce // the limit that denied; nil if OK
	Held   int            // permits that are held of Denied, or if OK of the last limit
	Wait   time.Duration  // until the first permit of Denied expires, unless it is renewed or released
}

// Together reports whether the nodes of a cluster keep permits together: the journal then tells all nodes who holds one.
func (l *Live) Together() bool { return l.cluster.Owners != nil }

// TakePermit gives a holder a permit of all limits, or of none. It asks each limit at the node that decides for its
// key, one after the other. A permit that it gives back in the end may have made others denied. The error is
// CodeOverloaded, or CodeNotHeld if a node that decides does not answer. Permits may then have been taken, and are free
// after their ttl.
func (l *Live) TakePermit(holder uint64, limits []policy.AtOnce) (p Permitted, err error) {
	for i := range limits {
		made, err := l.permit(engine.ChangeTakePermit, holder, &limits[i])
		p.Held = int(made.Used)
		if err != nil || !made.Was {
			_, undone := l.ReleasePermit(holder, limits[:i])
			if err == nil {
				err = undone
			}
			p.Denied, p.Wait = &limits[i], made.RetryAfter
			return p, err
		}
	}
	p.OK = true
	return p, nil
}

// RenewPermit is a heartbeat of a holder. It is not OK if the holder has lost its permit of any of the limits: then it
// has none. For a limit that is newer than its permit the holder gets a permit, if one is free. The error is
// CodeNotHeld if a node that decides does not answer: then it may be sent again.
func (l *Live) RenewPermit(holder uint64, limits []policy.AtOnce) (p Permitted, err error) {
	var lost []*policy.AtOnce
	for i := range limits {
		switch made, err := l.permit(engine.ChangeRenewPermit, holder, &limits[i]); {
		case err != nil:
			return p, err
		case !made.Was:
			lost = append(lost, &limits[i])
		}
	}
	for _, a := range lost {
		taken := engine.Changed{}
		if len(lost) < len(limits) {
			if taken, err = l.permit(engine.ChangeTakePermit, holder, a); err != nil {
				return p, err
			}
		}
		if !taken.Was {
			_, err := l.ReleasePermit(holder, limits)
			return Permitted{Denied: a}, err
		}
	}
	return Permitted{OK: true}, nil
}

// ReleasePermit gives back a permit of all limits. had is false if the holder had none. It may be repeated, also after an error;
// errors are as for RenewPermit.
func (l *Live) ReleasePermit(holder uint64, limits []policy.AtOnce) (had bool, err error) {
	for i := range limits {
		made, one := l.permit(engine.ChangeReleasePermit, holder, &limits[i])
		had = had || made.Was
		if err == nil {
			err = one
		}
	}
	return had, err
}

// permit makes a change of a holder's permit at the node that decides for the limit's key.
func (l *Live) permit(do engine.ChangeKind, holder uint64, a *policy.AtOnce) (made engine.Changed, err error) {
	keyed, err := l.limit(limit.WhereStrict, a.Name, engine.Limit{N: uint64(a.Most), Per: a.TTL})
	if err != nil {
		return made, err
	}
	defer keyed.Release()
	change := engine.Change{Kind: do, Content: holder}
	if l.cluster.Owners == nil {
		return change.Make(keyed, a.Key, 0)
	}
	made, answered, err := l.cluster.Owners.Change(change, engine.Check{Limit: keyed, Key: a.Key})
	if err == nil && !answered {
		err = policy.Failure(api.CodeNotHeld, "key", "the node that decides limit %s for this key did not answer; ask again", a.Name)
	}
	return made, err
}

// Permits calls f with each key that has permits which are held.
func (l *Live) Permits(f func(name, key string, held int)) { l.engine.Limits().Permits(f) }
