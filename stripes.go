package weir

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/weir-counter/weir/window"
)

// stripes spread one key's live cell over several cache lines, so that cores
// which hit the same key at the same time do not wait for each other. A
// goroutine finds its stripe by the address of its stack; a token in a sync.Pool
// and a random number, the usual ways to the same end, cost some five and two
// times as much (BenchmarkStripePick). Where two goroutines
// meet on a stripe, the one that lost changes the salt, which deals all of them
// new stripes.
//
// Hits that leave the cells go to a settle function, which puts them into the
// window; hits that were accepted are settled however old they are by then.
type stripes struct {
	salt  atomic.Uint64
	shift uint // 64 - log2(len(cells))
	cells []paddedCell
}

type paddedCell struct {
	cell
	_ [120]byte // two cache lines, because processors fetch them in pairs
}

func newStripes() *stripes {
	n := 1 << bits.Len(uint(2*min(runtime.GOMAXPROCS(0), 64)-1)) // 2 to 128
	s := &stripes{shift: uint(64 - bits.TrailingZeros(uint(n))), cells: make([]paddedCell, n)}
	for i := range s.cells {
		s.cells[i].word.Store(cellIdle)
	}
	return s
}

// mine is the calling goroutine's cell.
func (s *stripes) mine() *cell {
	var here byte
	stack := uint64(uintptr(unsafe.Pointer(&here))) >> 11 // the smallest stack has 2 KiB
	return &s.cells[(stack^s.salt.Load())*0x9E3779B97F4A7C15>>s.shift].cell
}

// add counts n hits at the second if the goroutine's cell stands there; if not,
// ok is false and the caller folds. It may deal the goroutine another cell.
func (s *stripes) add(mine **cell, second int64, n uint64) (outcome Outcome, ok bool) {
	for {
		c := *mine
		word := c.word.Load()
		if !fits(word, second, n) {
			return Refused, false
		}
		if c.word.CompareAndSwap(word, word+n) {
			return cellOutcome(word), true
		}
		s.salt.Add(1)
		*mine = s.mine()
	}
}

// fold counts n hits at a second where the goroutine's cell does not stand. The
// caller holds the lock that guards w.
func (s *stripes) fold(mine *cell, w *window.Window, second int64, n uint64, settle func(second int64, n uint64)) Outcome {
	newest, seen := s.newest(w)
	if seen && second <= newest-w.Retention() {
		return TooLate
	}
	late := seen && second < newest
	if second > newest { // once a second, for keys that are hit now
		s.foldAll(cellIdle, settle)
	}
	if n > cellMaxHits {
		settle(second, n)
	} else {
		settleWord(mine.word.Swap(packCell(second, late, n)), settle)
	}
	if late {
		return Late
	}
	return Counted
}

// foldAll settles the hits of all cells and leaves the word in their place.
func (s *stripes) foldAll(leave uint64, settle func(second int64, n uint64)) {
	for i := range s.cells {
		settleWord(s.cells[i].word.Swap(leave), settle)
	}
}

// settleWord settles the hits of a word that was taken out of a cell.
func settleWord(word uint64, settle func(second int64, n uint64)) {
	if word < cellSpecial && cellHits(word) > 0 {
		settle(cellSecond(word), cellHits(word))
	}
}

// newest is the latest second of the window and all cells.
func (s *stripes) newest(w *window.Window) (second int64, seen bool) {
	second, seen = w.Newest()
	for i := range s.cells {
		if word := s.cells[i].word.Load(); word < cellSpecial && cellHits(word) > 0 {
			second, seen = max(second, cellSecond(word)), true
		}
	}
	return second, seen
}

// live sums the hits of all cells in the window (from, to].
func (s *stripes) live(from, to int64) (sum uint64) {
	for i := range s.cells {
		sum += s.cells[i].live(from, to)
	}
	return sum
}
