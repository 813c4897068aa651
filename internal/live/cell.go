// Package live is the newest second of one key and its hits so far, counted without a lock: a
// Cell, or the Stripes of a key that several cores hit at once. Who uses it folds what leaves
// them into the key's window, under a lock of its own.
package live

import (
	"sync/atomic"

	"github.com/weir-counter/weir/window"
)

// Cell is a live cell: one second and the hits counted in it so far, in one
// atomic word, so that a hit in the current second is one compare-and-swap.
//
//	bit 63     62 .. 29   28     27 .. 0
//	special    second     late   hits
//
// The late bit says that the key had seen a newer second when the cell was
// started: every hit in the cell is late. A cell with no hits is empty; Idle
// is an empty one whose second no hit has. A special word is no second at all: either the cell is
// dead (its entry has left the table, look the key up again), or the low bits
// are the number of the hot key that took its place (internal/keyspace). Since a special
// word's second is beyond any valid one, the hot path needs no test for it.
type Cell struct{ Word atomic.Uint64 }

const (
	secondShift = 29
	lateBit     = 1 << 28

	MaxHits = 1<<28 - 1                           // that a cell can hold
	Special = 1 << 63                             // this word and all above are no second
	Dead    = 1<<64 - 1                           // of an entry that has left the table
	Idle    = (window.MaxTime + 1) << secondShift // empty, at a second that no hit has
)

// Pack is the word of a cell.
func Pack(second int64, late bool, hits uint64) uint64 {
	word := uint64(second)<<secondShift | hits
	if late {
		word |= lateBit
	}
	return word
}

// Second and Hits are those of a word that is not special; the hits are 0 of an empty one.
func Second(word uint64) int64 { return int64(word >> secondShift) }
func Hits(word uint64) uint64  { return word & MaxHits }

// Emptied is a word that is not special, without its hits.
func Emptied(word uint64) uint64 { return word &^ MaxHits }

// OutcomeOf is that of a hit which was added to the word.
func OutcomeOf(word uint64) window.Outcome {
	if word&lateBit != 0 {
		return window.Late
	}
	return window.Counted
}

// Fits tells whether n hits at a valid second can be added to the word; n = 0
// never fits.
func Fits(word uint64, second int64, n uint64) bool {
	return word>>secondShift == uint64(second) && n-1 < MaxHits-Hits(word)
}

// Live sums the hits of a cell in the window (from, to].
func (c *Cell) Live(from, to int64) uint64 {
	word := c.Word.Load()
	if second := Second(word); word >= Special || second <= from || second > to {
		return 0
	}
	return Hits(word)
}
