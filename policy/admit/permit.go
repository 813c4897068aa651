package admit

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// Permitted is what became of a request about permits of all limits of how many at once that are for a key.
type Permitted struct {
	OK     bool
	Denied *policy.AtOnce // of a denial: the limit
	Held   int            // of that, or of the last one: how many are held
	Wait   time.Duration  // of that: until the first is free, if nobody renews or releases
}

// Together tells whether the nodes of a cluster keep permits together: TakePermit, RenewPermit and ReleasePermit. Who holds one is in
// the journal, so that all nodes know. It is for those that have a journal of many.
func (l *Live) Together() bool { return l.cluster.Strict != nil }

// TakePermit gives a holder a permit of all limits, or of none. Each limit is asked at the node that decides for its key: while one
// after the other is, a permit that is given back in the end may have others denied. The error is CodeOverloaded, or
// CodeNotHeld if a node that decides does not answer: then permits may have been taken, and are free after their ttl.
func (l *Live) TakePermit(holder uint64, of []policy.AtOnce) (p Permitted, err error) {
	for i := range of {
		made, err := l.permit(limits.TakePermit, holder, &of[i])
		p.Held = int(made.Used)
		if err != nil || !made.Was {
			_, undone := l.ReleasePermit(holder, of[:i])
			if err == nil {
				err = undone
			}
			p.Denied, p.Wait = &of[i], made.After.RetryAfter
			return p, err
		}
	}
	p.OK = true
	return p, nil
}

// RenewPermit is a heartbeat of a holder. It is not OK for one that has lost its permit, of any of the limits: then it has none.
// Of a limit that is newer than its permit it gets one, if there is room. The error is CodeNotHeld if a node that decides does not answer:
// then it may be sent again.
func (l *Live) RenewPermit(holder uint64, of []policy.AtOnce) (p Permitted, err error) {
	var lost []*policy.AtOnce
	for i := range of {
		switch made, err := l.permit(limits.RenewPermit, holder, &of[i]); {
		case err != nil:
			return p, err
		case !made.Was:
			lost = append(lost, &of[i])
		}
	}
	for _, a := range lost {
		taken := limits.Changed{}
		if len(lost) < len(of) {
			if taken, err = l.permit(limits.TakePermit, holder, a); err != nil {
				return p, err
			}
		}
		if !taken.Was {
			_, err := l.ReleasePermit(holder, of)
			return Permitted{Denied: a}, err
		}
	}
	return Permitted{OK: true}, nil
}

// ReleasePermit gives a permit back, of all limits; false: it was of none. It may be sent again, also after an error, which is as of RenewPermit.
func (l *Live) ReleasePermit(holder uint64, of []policy.AtOnce) (had bool, err error) {
	for i := range of {
		made, failed := l.permit(limits.ReleasePermit, holder, &of[i])
		had = had || made.Was
		if err == nil {
			err = failed
		}
	}
	return had, err
}

// permit asks the node that decides for a limit's key.
func (l *Live) permit(do limits.Kind, holder uint64, a *policy.AtOnce) (made limits.Changed, err error) {
	of, err := l.limit(limit.WhereStrict, a.Name, weir.Limit{N: uint64(a.Most), Per: a.TTL})
	if err != nil {
		return made, err
	}
	defer of.Release()
	made, answered, err := l.cluster.Strict.Change(limits.Change{Kind: do, Content: holder}, weir.Check{Limit: of, Key: a.Key})
	if err == nil && !answered {
		err = policy.Failure(weir.CodeNotHeld, "key", "the node that decides limit %s for this key did not answer; ask again", a.Name)
	}
	return made, err
}

// Permits calls f with each key of which permits are held, as far as this node knows, by the limit's name. f must not call l.
func (l *Live) Permits(f func(name, key string, held int)) { limits.Of(l.engine).Permits(f) }
