package keyspace

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/weir-counter/weir/window"
)

// This file counts the newest second of one key without a lock, in a Cell. If several cores hit the key at once, it
// uses Stripes. The user folds the hits that leave them into the key's window, under its own lock.

// Cell is a live cell: one second and the hits counted in it so far, in one
// atomic word, so that a hit in the current second is one compare-and-swap.
//
//	bit 63     62 .. 29   28     27 .. 0
//	special    second     late   hits
//
// The late bit says that the key had seen a newer second when the cell was started: every hit in the cell is late. A
// cell with no hits is empty; Idle is an empty one whose second no hit has. A special word has no second. Either the
// cell is dead: its entry has left the table, and the key must be looked up again. Or the low bits are the number of
// the hot key that took its place (internal/engine/keyspace). A special word's second is beyond any valid one, so the
// hot path needs no test for it.
type Cell struct{ Word atomic.Uint64 }

const (
	secondShift = 29
	lateBit     = 1 << 28

	MaxCellHits = 1<<28 - 1                           // that a cell can hold
	Special     = 1 << 63                             // this word and all above are no second
	Dead        = 1<<64 - 1                           // of an entry that has left the table
	Idle        = (window.MaxTime + 1) << secondShift // empty, at a second that no hit has
)

// PackCell is the word of a cell.
func PackCell(second int64, late bool, hits uint64) uint64 {
	word := uint64(second)<<secondShift | hits
	if late {
		word |= lateBit
	}
	return word
}

// CellSecond and CellHits return the second and the hits of a word that is not special. An empty cell has 0 hits.
func CellSecond(word uint64) int64 { return int64(word >> secondShift) }
func CellHits(word uint64) uint64  { return word & MaxCellHits }

// EmptiedCell is a word that is not special, without its hits.
func EmptiedCell(word uint64) uint64 { return word &^ MaxCellHits }

// CellOutcome is the outcome of a hit that was added to the word.
func CellOutcome(word uint64) window.Outcome {
	if word&lateBit != 0 {
		return window.Late
	}
	return window.Counted
}

// CellFits reports whether n hits at a valid second can be added to the word; n = 0 never fits.
func CellFits(word uint64, second int64, n uint64) bool {
	return word>>secondShift == uint64(second) && n-1 < MaxCellHits-CellHits(word)
}

// Live sums the hits of a cell in the window (from, to].
func (c *Cell) Live(from, to int64) uint64 {
	word := c.Word.Load()
	if second := CellSecond(word); word >= Special || second <= from || second > to {
		return 0
	}
	return CellHits(word)
}

// Stripes spread one key's live cell over several cache lines, so that cores which hit the same key at the same time do
// not wait for each other. A goroutine finds its stripe by the address of its stack. The usual alternatives are a token
// in a sync.Pool and a random number. They cost some five and two times as much (BenchmarkStripePick). The runtime's
// processor number is as fast, but only an internal function has it. If two goroutines meet on a stripe, the one that
// lost changes the salt, which deals all of them new stripes.
//
// Hits that leave the cells go to a settle function, which puts them into the
// window; hits that were accepted are settled however old they are by then.
type Stripes struct {
	salt  atomic.Uint64
	shift uint // 64 - log2(len(cells))
	cells []paddedCell
}

type paddedCell struct {
	Cell
	_ [120]byte // two cache lines, because processors fetch them in pairs
}

// NewStripes returns empty ones, two for each core.
func NewStripes() *Stripes {
	n := 1 << bits.Len(uint(2*min(runtime.GOMAXPROCS(0), 64)-1)) // 2 to 128
	s := &Stripes{shift: uint(64 - bits.TrailingZeros(uint(n))), cells: make([]paddedCell, n)}
	for i := range s.cells {
		s.cells[i].Word.Store(Idle)
	}
	return s
}

// Mine is the calling goroutine's cell.
func (s *Stripes) Mine() *Cell {
	var here byte
	stack := uint64(uintptr(unsafe.Pointer(&here))) >> 11 // the smallest stack has 2 KiB
	return &s.cells[(stack^s.salt.Load())*0x9E3779B97F4A7C15>>s.shift].Cell
}

// Add counts n hits at the second if the goroutine's cell stands there; if not,
// ok is false and the caller folds. It may deal the goroutine another cell.
func (s *Stripes) Add(mine **Cell, second int64, n uint64) (outcome window.Outcome, ok bool) {
	for {
		c := *mine
		word := c.Word.Load()
		if !CellFits(word, second, n) {
			return window.Refused, false
		}
		if c.Word.CompareAndSwap(word, word+n) {
			return CellOutcome(word), true
		}
		s.salt.Add(1)
		*mine = s.Mine()
	}
}

// Fold counts n hits at a second where the goroutine's cell does not stand. The caller holds the lock that guards w.
func (s *Stripes) Fold(mine *Cell, w *window.Window, second int64, n uint64, settle func(second int64, n uint64)) window.Outcome {
	newest, seen := s.Newest(w)
	if seen && second <= newest-w.Retention() {
		return window.TooLate
	}
	late := seen && second < newest
	if second > newest { // once a second, for keys that are hit now
		s.foldAllBut(mine, Idle, settle)
	}
	if n > MaxCellHits {
		SettleCell(mine.Word.Swap(Idle), settle)
		settle(second, n)
	} else {
		SettleCell(mine.Word.Swap(PackCell(second, late, n)), settle)
	}
	if late {
		return window.Late
	}
	return window.Counted
}

// FoldAll settles the hits of all cells and leaves the word, Idle or Dead, in their place. The
// caller holds the lock that guards the window.
func (s *Stripes) FoldAll(leave uint64, settle func(second int64, n uint64)) {
	s.foldAllBut(nil, leave, settle)
}

// foldAllBut is FoldAll of all cells but one. A swap costs several loads, and most cells have nothing.
func (s *Stripes) foldAllBut(mine *Cell, leave uint64, settle func(second int64, n uint64)) {
	for i := range s.cells {
		if c := &s.cells[i].Cell; c != mine && c.Word.Load() != leave {
			SettleCell(c.Word.Swap(leave), settle)
		}
	}
}

// SettleCell settles the hits of a word that was taken out of a cell.
func SettleCell(word uint64, settle func(second int64, n uint64)) {
	if word < Special && CellHits(word) > 0 {
		settle(CellSecond(word), CellHits(word))
	}
}

// Newest is the latest second of the window and all cells.
func (s *Stripes) Newest(w *window.Window) (second int64, seen bool) {
	second, seen = w.Newest()
	if _, newest := s.Read(0, 0); newest >= 0 {
		return max(second, newest), true
	}
	return second, seen
}

// Live sums the hits of all cells in the window (from, to].
func (s *Stripes) Live(from, to int64) (sum uint64) {
	sum, _ = s.Read(from, to)
	return sum
}

// Read is Live, with the latest second of all cells that have hits, -1 where none has. It is never
// inlined: as a part of a longer function its loop would keep its numbers in memory.
//
//go:noinline
func (s *Stripes) Read(from, to int64) (sum uint64, newest int64) {
	newest = -1
	cells := s.cells
	for i := range cells {
		word := cells[i].Word.Load()
		if word >= Special || CellHits(word) == 0 {
			continue
		}
		second := CellSecond(word)
		newest = max(newest, second)
		if second > from && second <= to {
			sum += CellHits(word)
		}
	}
	return sum, newest
}

// Busy is how many cells have hits of a second at or after lately.
func (s *Stripes) Busy(lately int64) (busy int) {
	for i := range s.cells {
		if word := s.cells[i].Word.Load(); word < Special && CellHits(word) > 0 && CellSecond(word) >= lately {
			busy++
		}
	}
	return busy
}
