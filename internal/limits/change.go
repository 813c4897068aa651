package limits

import (
	"time"

	"github.com/weir-counter/weir"
)

// Kind is what somebody does to what a key has used of a limit, beside requests.
type Kind byte

const (
	NoChange Kind = iota
	Refund        // weir.KeyedLimit.Refund
	Reset         // weir.KeyedLimit.Reset
	Grant         // weir.KeyedLimit.Grant
	Reserve       // NoteReserved
	Settle        // weir.KeyedLimit.Settle
	Kinds         // how many there are
)

// Change is one change to a key of a limit.
type Change struct {
	Kind Kind
	At   time.Time // of Refund: taken; of Grant and Reserve: until

	ID      string        // of Reserve and Settle: that of the reservation; of the others that of the change, which is asked again by it
	Ago     time.Duration // of Reserve
	Content uint64        // of Reserve: weir.Reservation.Content
	Flag    bool          // of Reserve: what is not settled is given back; of Settle: more counts as debt
}

// Changed is what came of a Change.
type Changed struct {
	Was   bool         // Reset: there was something; Settle: it is known
	Again bool         // Settle: it had been settled before
	Freed uint64       // by how many more are free for it
	Used  uint64       // Settle: that count as used
	Over  uint64       // Settle: that were used beyond the reservation, and denied
	After weir.Verdict // what the limit says then
}

// Make makes the change to a key, with the n of the method that it stands for; of Settle that is what was used.
func (c Change) Make(l *weir.KeyedLimit, key string, n uint64) (made Changed, err error) {
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
