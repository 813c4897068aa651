// Package activity shows what happens on a node. This part keeps the newest denials, each under an ID. A person who was
// denied can ask which limits denied the request, and which admissions filled them. It also lists who is denied most.
//
// Invariant: memory is bounded, and a key that is denied all the time pushes out few denials of other keys. The ring
// has Sets parts, each of which keeps its newest PerSet denials; all denials of a key are in one part. Denials that
// differ only in their time share one ID for up to SameFor. An ID that was pushed out is distinguished from one that
// never existed. Time is an argument.
package activity

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
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

	// SameFor is for how long equal denials share an ID, counted from the first of them. Equal denials have the same
	// limit, key and cost, and the same admissions filled them.
	SameFor = time.Second
)

// Denials keeps denials. It is safe for many goroutines.
type Denials struct {
	ids   codec
	clock Clock
	seed  maphash.Seed
	sets  [Sets]set
}

type set struct {
	mu    sync.Mutex // guards all below
	noted uint64     // denials so far
	kept  []record   // by number modulo PerSet; grows with them
	who   *who       // nil before the first denial
	over  uint64     // of who: those that left for others though they were denied lately

	// When the clock was asked: by the clock of limits, and the time of day in ns.
	askedAt, asked int64
	_              [64]byte
}

// record is a denial; its memory is reused. Most denials have one limit, which is in the record itself: memory that was
// not touched for 8,192 denials is no longer in the processor's cache.
type record struct {
	at    time.Time
	about api.DenialKnowledge

	times   uint64 // denials of the same
	last    int64  // the last of them, ns since 1970
	decided int64  // the first of them, by the clock of limits
	same    same

	first rule
	rest  []rule
	more  int
}

// same has what equal denials have in common in addition to limit and key. Times are by the clock of limits, in ns.
type same struct {
	retry, reset int64
	n, remaining uint64
}

// rule is a Rule whose Asked, Key and Known are in memory that is used again.
type rule struct {
	Rule
	key   []byte
	asked []byte // empty: it is key
	known []limit.Admitted
}

// Clock says when it is and what is known then. It is asked seldom: of denials of the same once.
type Clock func() (Moment, api.DenialKnowledge)

// reading asks a clock once.
type reading struct {
	clock  Clock
	asked  bool
	moment Moment
	about  api.DenialKnowledge
}

func (r *reading) now() (Moment, api.DenialKnowledge) {
	if !r.asked {
		r.asked = true
		r.moment, r.about = r.clock()
	}
	return r.moment, r.about
}

// Moment is one reading of a clock: the time of day as the engine corrects it, and as the clock returned it. They are
// Time and Raw of engine.Engine.Wall.
type Moment struct{ Wall, Raw time.Time }

// Rule is a limit that said no.
type Rule struct {
	Name       string
	Asked, Key string // the key of the request, and the one that is counted
	Limit      limit.Limit
	Where      limit.Where
	Away       string // as admit.Result has it
	Inline     bool   // the request brought it along
	NoPart     bool   // as admit.Result has it
	Banned     bool   // as admit.Result has it
	Elsewhere  bool   // another node decided: Known is what this one knew
	N          uint64
	Remaining  uint64
	RetryAfter time.Duration
	Reset      time.Duration

	Known []limit.Admitted // the admissions that filled it, the oldest first; At is ns since 1970
	Doubt time.Duration    // by how much earlier they may have been
}

// Denial is one that was kept, or several of the same.
type Denial struct {
	At    time.Time           // the first of them
	Times uint64              // how many, 1 or more
	Last  time.Time           // the last of them
	About api.DenialKnowledge // what was known of other nodes then
	Rules []Rule
	More  int // further limits that denied the request
}

// NewDenials returns an empty ring of a node; name is "" of a server alone.
func NewDenials(name string, clock Clock) *Denials {
	return &Denials{ids: newCodec(name), clock: clock, seed: maphash.MakeSeed()}
}

// Node returns the name that was given to NewDenials.
func (r *Denials) Node() string { return r.ids.node }

// Note keeps a decision that is a denial, and puts its ID into d.Denial, unless d.NoID; whose keys are limited it knows in any case. It is for right after the
// decision of requests, of which it keeps nothing.
//
// Cost: a third of a microsecond with one limit, a tenth for one more of the same; no allocation once the ring is full.
func (r *Denials) Note(requests []admit.Request, d *admit.Decision) {
	if d.Denied == nil {
		return
	}
	now := reading{clock: r.clock}
	r.noteFirst(&now, requests, d)
	for i := range d.Results {
		if said := &d.Results[i]; said != d.Denied && denies(said) {
			hash := r.hash(said.Key)
			s := &r.sets[hash%Sets]
			s.mu.Lock()
			s.limited(hash, s.now(&now, d.At()), said)
			s.mu.Unlock()
		}
	}
}

// noteFirst keeps a denial under an ID, and knows the first limit that said no.
func (r *Denials) noteFirst(clock *reading, requests []admit.Request, d *admit.Decision) {
	hash := r.hash(d.Denied.Key)
	s := &r.sets[hash%Sets]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now(clock, d.At())
	place := s.limited(hash, now, d.Denied)
	if d.NoID {
		return
	}
	number, alike := s.who.record[place], sameOf(d)
	if k := s.recordOf(number); k != nil && k.takesIn(alike, requests, d) {
		k.times++
		k.last = max(k.last, now)
		d.Denial = r.ids.append(d.Denial[:0], number*Sets+hash%Sets)
		return
	}
	number = s.noted
	s.who.record[place] = number
	s.noted++
	if len(s.kept) < PerSet {
		s.kept = append(s.kept, record{})
	}
	k := &s.kept[number%PerSet]
	k.note(clock, requests, d)
	k.same, k.decided = alike, d.At()
	d.Denial = r.ids.append(d.Denial[:0], number*Sets+hash%Sets)
}

// now returns the time of day, in ns since 1970, of a decision. The argument decided is its time by the clock of
// limits, 0 if not known. For up to SameFor the last reading of the time of day is advanced by that clock. The caller
// holds the lock.
func (s *set) now(clock *reading, decided int64) int64 {
	if since := decided - s.askedAt; decided != 0 && s.askedAt != 0 && since >= 0 && since < int64(SameFor) {
		return s.asked + since
	}
	now, _ := clock.now()
	s.askedAt, s.asked = decided, now.Wall.UnixNano()
	return s.asked
}

// recordOf is the record of a number, if it is there still. The caller holds the lock.
func (s *set) recordOf(number uint64) *record {
	if number >= s.noted || s.noted-number > PerSet {
		return nil
	}
	return &s.kept[number%PerSet]
}

// sameOf is the zero same for a decision that is like no other: of several limits, or in which other nodes had a part.
func sameOf(d *admit.Decision) same {
	if d.At() == 0 || len(d.Results) != 1 {
		return same{}
	}
	denied := d.Denied
	return same{d.At() + int64(denied.RetryAfter), d.At() + int64(denied.Reset), denied.N, denied.Remaining}
}

// takesIn reports whether a denial equals the record's denials. The record is the newest with the limit's name and key.
func (k *record) takesIn(alike same, requests []admit.Request, d *admit.Decision) bool {
	since := d.At() - k.decided
	return k.same == alike && alike != same{} && since >= 0 && since < int64(SameFor) &&
		k.first.Limit == d.Denied.Limit && k.first.NoPart == d.Denied.NoPart && k.first.askedFor(requests[d.Denied.Asked].Key)
}

// askedFor reports whether the request was for a key.
func (r *rule) askedFor(key string) bool {
	if len(r.asked) == 0 {
		return string(r.key) == key
	}
	return string(r.asked) == key
}

func denies(r *admit.Result) bool { return !r.Allowed && r.Mode == policy.Enforce }

func (r *Denials) hash(key string) uint64 { return maphash.String(r.seed, key) }

func (k *record) note(clock *reading, requests []admit.Request, d *admit.Decision) {
	now, about := clock.now()
	k.at, k.times, k.last, k.about, k.rest, k.more = now.Wall, 1, now.Wall.UnixNano(), about, k.rest[:0], 0
	rules := 0
	for i := range d.Results {
		said := &d.Results[i]
		if !denies(said) {
			continue
		}
		if rules == MostRules {
			k.more++
			continue
		}
		k.place(rules).note(now.Raw, &requests[said.Asked], d, i)
		rules++
	}
}

// place is where the next rule goes, after so many before.
func (k *record) place(rules int) *rule {
	if rules == 0 {
		return &k.first
	}
	if len(k.rest) == cap(k.rest) {
		k.rest = append(k.rest, rule{})
	} else {
		k.rest = k.rest[:len(k.rest)+1]
	}
	return &k.rest[rules-1]
}

// note notes the result at a place of a decision. It writes each field where it is: a Rule made apart would be written twice.
func (r *rule) note(raw time.Time, asked *admit.Request, d *admit.Decision, place int) {
	said := &d.Results[place]
	r.key, r.asked = append(r.key[:0], said.Key...), r.asked[:0]
	if asked.Key != said.Key {
		r.asked = append(r.asked, asked.Key...)
	}
	r.Name, r.Limit, r.Where, r.Away, r.NoPart, r.Banned, r.Inline = said.Name, said.Limit, d.Where(place), said.Away, said.NoPart, said.Banned, said.Inline
	r.N, r.Remaining, r.RetryAfter, r.Reset = said.N, said.Remaining, said.RetryAfter, said.Reset
	r.known, r.Doubt, r.Elsewhere = d.Known(place, raw, r.known[:0])
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
func (r *Denials) Find(number string) (d Denial, found Found) {
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
	d := Denial{At: k.at, Times: k.times, Last: time.Unix(0, k.last), About: k.about, More: k.more, Rules: []Rule{k.first.copied()}}
	for i := range k.rest {
		d.Rules = append(d.Rules, k.rest[i].copied())
	}
	return d
}

func (r *rule) copied() Rule {
	made := r.Rule
	made.Key = string(r.key)
	if made.Asked = made.Key; len(r.asked) > 0 {
		made.Asked = string(r.asked)
	}
	made.Known = append([]limit.Admitted(nil), r.known...)
	return made
}

// digits are the digits of IDs, without letters that look like digits (Crockford's base 32).
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

// idDigits are as many as 64 bits take.
const idDigits = 13

// codec converts places, which are numbers that go up from 0, to IDs and back. Its random numbers are made for one run
// of the process; another run's IDs decode to places far out of range. So an ID of an earlier run is not taken for a
// current one. Also, nobody can compute from two of their own IDs how many denials others had.
type codec struct {
	node          string // "" of a server alone
	times, undone uint64 // times*undone = 1, modulo 2^64
	with          uint64
}

func newCodec(node string) codec {
	c := codec{node: node, times: rand.Uint64() | 1, with: rand.Uint64()}
	c.undone = c.times
	for range 6 { // Newton's method: each step doubles the digits that are right, from 3
		c.undone *= 2 - c.times*c.undone
	}
	return c
}

// append appends the ID of a place: the node's name, a dash, and 13 digits.
func (c *codec) append(b []byte, place uint64) []byte {
	if c.node != "" {
		b = append(append(b, c.node...), '-')
	}
	n := bits.RotateLeft64(place*c.times, 32) ^ c.with
	for shift := 60; shift >= 0; shift -= 5 {
		b = append(b, digits[n>>shift&31])
	}
	return b
}

// place reads the digits of an ID.
func (c *codec) place(number string) (place uint64, ok bool) {
	if len(number) != idDigits {
		return 0, false
	}
	var n uint64
	for i := range len(number) {
		digit := strings.IndexByte(digits, number[i]|0x20)
		if number[i] <= '9' {
			digit = strings.IndexByte(digits, number[i])
		}
		if digit < 0 || n>>59 != 0 {
			return 0, false
		}
		n = n<<5 | uint64(digit)
	}
	return bits.RotateLeft64(n^c.with, -32) * c.undone, true
}

// Cut parts an ID into the name of the node that keeps the denial, "" of a server alone, and its digits.
func Cut(id string) (node, number string) {
	at := strings.LastIndexByte(id, '-')
	return id[:max(at, 0)], id[at+1:]
}
