// Package denials keeps the newest denials of a node, each under an ID, with what a person asks who was
// denied: which limits said no, and which admissions filled them. And it lists who is denied
// most.
//
// Invariant: memory is bounded, and one key that is denied all the time pushes out few others': the ring has Sets
// parts, a key's denials are in one of them, and each keeps its newest PerSet. An ID that was pushed out is
// told apart from one that never was. Time is an argument.
package denials

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

const (
	// Sets is how many parts the ring has, each with a lock of its own.
	Sets = 128

	// PerSet is how many denials each keeps.
	PerSet = 64

	// Kept is how many denials are kept at most.
	Kept = Sets * PerSet

	// MostRules is how many limits of one denial are kept: of those that said no, the first.
	MostRules = 4
)

// Ring keeps denials. It is safe for many goroutines.
type Ring struct {
	ids  codec
	seed maphash.Seed
	sets [Sets]set
}

// set is one part.
type set struct {
	mu    sync.Mutex // guards all below
	noted uint64     // denials so far
	kept  []record   // by number modulo PerSet; grows with them
	who   []limited
	over  uint64 // of who: those that left for others though they were denied lately
	_     [64]byte
}

// record is a denial in memory that the one after next uses again.
type record struct {
	at    time.Time
	about About
	rules []rule
	more  int
}

type rule struct {
	Rule
	asked, key []byte // Rule.Asked, Rule.Key
	known      []limit.Admitted
}

// About is what is said of all limits of a denial.
type About struct {
	AsOf time.Time // admissions of all nodes until then were known
	Late []string  // nodes of whom some may be missing
}

// Rule is a limit that said no.
type Rule struct {
	Name       string
	Asked, Key string // the key of the request, and the one that is counted
	Limit      limit.Limit
	Where      limit.Where
	Away       string // as policy.Result has it
	Inline     bool   // the request brought it along
	Elsewhere  bool   // another node decided: Known is what this one knew
	N          uint64
	Remaining  uint64
	RetryAfter time.Duration
	Reset      time.Duration

	Known []limit.Admitted // the admissions that filled it, the oldest first; At is ns since 1970
	Doubt time.Duration    // by how much earlier they may have been
}

// Denial is one that was kept.
type Denial struct {
	At time.Time
	About
	Rules []Rule
	More  int // limits that said no beside Rules
}

// New returns an empty ring of a node; name is "" of a server alone.
func New(name string) *Ring { return &Ring{ids: newCodec(name), seed: maphash.MakeSeed()} }

// Node is the name that New was told.
func (r *Ring) Node() string { return r.ids.node }

// Note keeps a decision that is a denial, and puts its ID into d.Denial, unless d.NoID; whose keys are limited it knows in any case. It is for right after the
// decision of requests, of which it keeps nothing.
//
// Cost: half a microsecond with one limit; no allocation once the ring is full.
func (r *Ring) Note(now time.Time, about About, requests []policy.Request, d *policy.Decision) {
	if d.Denied == nil {
		return
	}
	if !d.NoID {
		r.keep(now, about, requests, d)
	}
	for i := range d.Results {
		if said := &d.Results[i]; !said.Allowed && said.Mode == policy.Enforce {
			r.limited(now, said, requests[said.Asked].Inline != nil)
		}
	}
}

// keep keeps a denial under an ID.
func (r *Ring) keep(now time.Time, about About, requests []policy.Request, d *policy.Decision) {
	at := r.hash(d.Denied.Name, d.Denied.Key)
	s := &r.sets[at%Sets]
	s.mu.Lock()
	defer s.mu.Unlock()
	number := s.noted
	s.noted++
	if len(s.kept) < PerSet {
		s.kept = append(s.kept, record{})
	}
	s.kept[number%PerSet].note(now, about, requests, d)
	d.Denial = r.ids.append(d.Denial[:0], number*Sets+at%Sets)
}

func (r *Ring) hash(name, key string) uint64 {
	return maphash.String(r.seed, key) ^ maphash.String(r.seed, name)<<1
}

func (k *record) note(now time.Time, about About, requests []policy.Request, d *policy.Decision) {
	k.at, k.about, k.rules, k.more = now, about, k.rules[:0], 0
	for i := range d.Results {
		said := &d.Results[i]
		if said.Allowed || said.Mode != policy.Enforce {
			continue
		}
		if len(k.rules) == MostRules {
			k.more++
			continue
		}
		if len(k.rules) == cap(k.rules) {
			k.rules = append(k.rules, rule{})
		} else {
			k.rules = k.rules[:len(k.rules)+1]
		}
		to, asked := &k.rules[len(k.rules)-1], &requests[said.Asked]
		to.asked, to.key = append(to.asked[:0], asked.Key...), append(to.key[:0], said.Key...)
		to.Rule = Rule{
			Name: said.Name, Limit: said.Limit, Where: d.Where(i), Away: said.Away, Inline: asked.Inline != nil,
			N: said.N, Remaining: said.Remaining, RetryAfter: said.RetryAfter, Reset: said.Reset,
		}
		to.known, to.Doubt, to.Elsewhere = d.Known(i, to.known[:0])
	}
}

// Found is what became of an ID.
type Found int

// What may have become of an ID.
const (
	Here    Found = iota
	Gone          // newer denials took its place
	Unknown       // no denial of this node's process had it
)

// Find returns the denial of the digits of an ID.
func (r *Ring) Find(number string) (d Denial, found Found) {
	place, ok := r.ids.place(number)
	if !ok {
		return d, Unknown
	}
	s := &r.sets[place%Sets]
	place /= Sets
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case place >= s.noted:
		return d, Unknown
	case s.noted-place > PerSet:
		return d, Gone
	}
	return s.kept[place%PerSet].copied(), Here
}

func (k *record) copied() Denial {
	d := Denial{At: k.at, About: k.about, More: k.more, Rules: make([]Rule, len(k.rules))}
	for i := range k.rules {
		from := &k.rules[i]
		d.Rules[i] = from.Rule
		d.Rules[i].Asked, d.Rules[i].Key = string(from.asked), string(from.key)
		d.Rules[i].Known = append([]limit.Admitted(nil), from.known...)
	}
	return d
}

// Noted is how many denials there were.
func (r *Ring) Noted() (n uint64) {
	for i := range r.sets {
		s := &r.sets[i]
		s.mu.Lock()
		n += s.noted
		s.mu.Unlock()
	}
	return n
}
