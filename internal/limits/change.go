package limits

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/admission"
)

// Kind is what somebody does to what a key has used of a limit, beside requests.
type Kind byte

const (
	NoChange      Kind = iota
	Refund             // weir.KeyedLimit.Refund
	Reset              // weir.KeyedLimit.Reset
	Grant              // weir.KeyedLimit.Grant
	Reserve            // NoteReserved
	Settle             // weir.KeyedLimit.Settle
	TakePermit         // Permit, of a new holder
	RenewPermit        // Permit, a heartbeat
	ReleasePermit      // Permit, given back
	Kinds              // how many there are
)

// Change is one change to a key of a limit.
type Change struct {
	Kind Kind
	At   time.Time // of Refund: taken; of Grant and Reserve: until

	ID      string        // of Reserve and Settle: that of the reservation; of the others that of the change, which is asked again by it
	Ago     time.Duration // of Reserve
	Content uint64        // of Reserve: weir.Reservation.Content; of permits: the number of the holder
	Flag    bool          // of Reserve: what is not settled is given back; of Settle: more counts as debt
}

// Changed is what came of a Change.
type Changed struct {
	Was   bool         // Reset: there was something; Settle: it is known; of permits: it is held, or for ReleasePermit it was
	Again bool         // Settle: it had been settled before
	Freed uint64       // by how many more are free for it
	Used  uint64       // Settle: that count as used; of permits: how many are held
	Over  uint64       // Settle: that were used beyond the reservation, and denied
	After weir.Verdict // what the limit says then; of permits: RetryAfter alone, until the first is free
}

// OfPermit tells whether a change is about a permit. Then the limit is a Concurrency of package policy: max is its N, and ttl its Per.
func (k Kind) OfPermit() bool { return k >= TakePermit && k <= ReleasePermit }

// HasContent tells whether a change has Content.
func (k Kind) HasContent() bool { return k == Reserve || k.OfPermit() }

// Make makes the change to a key, with the n of the method that it stands for; of Settle that is what was used.
func (c Change) Make(l *weir.KeyedLimit, key string, n uint64) (made Changed, err error) {
	if c.Kind.OfPermit() {
		return c.makePermit(of(l), key)
	}
	switch c.Kind {
	case Refund:
		made.Freed, err = l.Refund(key, n, c.At)
	case Reset:
		made.Was, err = l.Reset(key)
	case Grant:
		err = l.Grant(key, n, c.At)
	case Reserve:
		err = NoteReserved(l, key, n, weir.Reservation{ID: c.ID, Until: c.At, GiveBack: c.Flag, Content: c.Content}, c.Ago, false)
	case Settle:
		var done weir.Settled
		done, err = l.Settle(key, c.ID, n, c.Flag)
		made = Changed{Was: done.Known, Again: done.Again, Freed: done.Freed, Used: done.Used, Over: done.Over}
	}
	if err == nil {
		made.After, err = l.Peek(key, 0)
	}
	return made, err
}

func (c Change) makePermit(l side, key string) (made Changed, err error) {
	var p admission.Permitted
	switch c.Kind {
	case TakePermit:
		p, err = l.TakePermit(key, c.Content)
	case RenewPermit:
		p, err = l.RenewPermit(key, c.Content)
	case ReleasePermit:
		p, err = l.ReleasePermit(key, c.Content)
	}
	return Changed{Was: p.OK, Used: uint64(p.Held), After: weir.Verdict{RetryAfter: p.Wait}}, err
}
