package ratelimitfields

import (
	"net/http"
	"time"
)

// A Member is one limit of a request, as clients are told of it.
type Member struct {
	Name      string
	Key       string        // that is counted; only a hash of it is told, and that seldom
	Quota     uint64        // so many
	Window    time.Duration // in this time
	Burst     uint64        // and so many at once; 0: as many as Quota
	Remaining uint64        // now
	Reset     time.Duration // until the whole quota is there again
}

// List is the limits of one request. The zero List is empty; its memory is used again
// after Reset.
type List struct {
	members          []Member
	policies, limits []byte
}

// Reset empties the list.
func (l *List) Reset() {
	clear(l.members) // let go of the keys
	l.members = l.members[:0]
}

// Add adds a limit. Of two with one name and key the later stands: the draft has no
// place for both, and it was decided with what the earlier took.
func (l *List) Add(m Member) {
	if m.Burst == 0 {
		m.Burst = m.Quota
	}
	for i := range l.members {
		if have := &l.members[i]; have.Name == m.Name && have.Key == m.Key {
			*have = m
			return
		}
	}
	l.members = append(l.members, m)
}

// Write adds the members to the fields RateLimit-Policy and RateLimit of h, none for an
// empty list. wait is that of a denial, which Retry-After tells, else 0: the draft asks
// that t does not go beyond it.
func (l *List) Write(h http.Header, wait time.Duration) {
	if len(l.members) == 0 {
		return
	}
	policies, limits := l.Texts(wait)
	add(h, Policy, string(policies))
	add(h, Limit, string(limits))
}

// Texts is the values that Write adds; both are empty for an empty list. They are valid until the next call.
func (l *List) Texts(wait time.Duration) (policies, limits []byte) {
	policies, limits = l.policies[:0], l.limits[:0]
	for i := range l.members {
		m := &l.members[i]
		policies = l.appendKey(appendPolicy(policies, m.Name, m.Quota, m.Burst, m.Window), i)
		t, r := secondsUp(m.Reset), m.Remaining
		if wait > 0 { // Retry-After counts: what there is until then is nobody's business
			t = min(t, secondsUp(wait))
		} else {
			r = available(m, t)
		}
		limits = l.appendKey(appendLimit(limits, m.Name, r, t), i)
	}
	l.policies, l.limits = policies, limits
	return policies, limits
}

// appendKey tells the key of the member at a place if another one has its name.
func (l *List) appendKey(b []byte, at int) []byte {
	for i := range l.members {
		if i != at && l.members[i].Name == l.members[at].Name {
			return appendPartition(b, l.members[at].Key)
		}
	}
	return b
}

// add is h.Add for a name that is canonical.
func add(h http.Header, name, value string) { h[name] = append(h[name], value) }
