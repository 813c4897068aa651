package weir

import (
	"sync/atomic"

	"github.com/weir-counter/weir/window"
)

// cell is a live cell: one second and the hits counted in it so far, in one
// atomic word, so that a hit in the current second is one compare-and-swap.
//
//	bit 63     62 .. 29   28     27 .. 0
//	special    second     late   hits
//
// The late bit says that the key had seen a newer second when the cell was
// started: every hit in the cell is late. A cell with no hits is empty; cellIdle
// is an empty one whose second no hit has. A special word is no second at all: either the cell is
// dead (its entry has left the table, look the key up again), or the low bits
// are the number of the hot key that took its place (hot.go). Since a special
// word's second is beyond any valid one, the hot path needs no test for it.
type cell struct{ word atomic.Uint64 }

const (
	cellSecondShift = 29
	cellLate        = 1 << 28
	cellMaxHits     = 1<<28 - 1
	cellSpecial     = 1 << 63
	cellDead        = 1<<64 - 1
	cellIdle        = (window.MaxTime + 1) << cellSecondShift
)

func packCell(second int64, late bool, hits uint64) uint64 {
	word := uint64(second)<<cellSecondShift | hits
	if late {
		word |= cellLate
	}
	return word
}

func cellSecond(word uint64) int64 { return int64(word >> cellSecondShift) }
func cellHits(word uint64) uint64  { return word & cellMaxHits }

func cellOutcome(word uint64) Outcome {
	if word&cellLate != 0 {
		return Late
	}
	return Counted
}

// fits tells whether n hits at a valid second can be added to the word; n = 0
// never fits.
func fits(word uint64, second int64, n uint64) bool {
	return word>>cellSecondShift == uint64(second) && n-1 < cellMaxHits-cellHits(word)
}

// live sums the hits of a cell in the window (from, to].
func (c *cell) live(from, to int64) uint64 {
	word := c.word.Load()
	if second := cellSecond(word); word >= cellSpecial || second <= from || second > to {
		return 0
	}
	return cellHits(word)
}
