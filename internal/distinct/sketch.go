package distinct

import (
	"math"
	"math/bits"
	"slices"
)

const (
	maxPrecision = 11 // 2^11 registers: a standard error of 2.3 %
	minPrecision = 4
	rankBits     = 5 // of an entry, below its register
	maxRank      = 1<<rankBits - 1

	// slotShare is how many times as old as its width a slot is at least.
	slotShare = 16

	// maxSlots is more than a retention of 31 years has: each doubling takes at most 17.
	maxSlots = 512

	// sketchBytes is what slots and entries may take: the rest is the list's.
	sketchBytes = MaxBytes - setBytes - 12*Few - 720 // what slices have in reserve
	entryBytes  = 2
	slotBytes   = 6
)

// sketch has for each slot of time the registers that no later slot has at the same rank or above, once it is settled.
// Before, slots may be finer and have more.
type sketch struct {
	precision uint8
	aligned   int64    // the newest second to which slots are aligned; later seconds have their own slots
	starts    []uint32 // first second of each slot, in order
	ends      []uint16 // where its entries end
	entries   []uint16 // register << rankBits | rank, in order within a slot
}

func (k *sketch) size() int { return 96 + 4*cap(k.starts) + 2*cap(k.ends) + entryBytes*cap(k.entries) }

func (k *sketch) bytes() int { return entryBytes*len(k.entries) + slotBytes*len(k.starts) }

func (k *sketch) full() bool { return k.bytes() >= sketchBytes || len(k.starts) >= maxSlots }

// entry is the register and the rank of a hash.
func (k *sketch) entry(hash uint64) uint16 {
	rank := min(bits.LeadingZeros64(hash<<k.precision)+1, maxRank)
	return uint16(hash>>(64-k.precision))<<rankBits | uint16(rank)
}

// slotOf returns the first second of the slot that has a second, and its width, when newest is the newest second.
func slotOf(second, newest int64) (start, width int64) {
	width = 1
	for newest-(second|(2*width-1)) >= slotShare*2*width {
		width *= 2
	}
	return second &^ (width - 1), width
}

// slot is where the entries of a slot are.
func (k *sketch) slot(i int) (from, to int) {
	if i > 0 {
		from = int(k.ends[i-1])
	}
	return from, int(k.ends[i])
}

// add adds an id. The sketch is not full.
func (k *sketch) add(second int64, hash uint64) {
	start := second
	if second <= k.aligned {
		start, _ = slotOf(second, k.aligned)
	}
	i, found := slices.BinarySearch(k.starts, uint32(start))
	if !found {
		from := len(k.entries)
		if i < len(k.starts) {
			from, _ = k.slot(i)
		}
		if n := len(k.starts); n == cap(k.starts) {
			k.starts = append(make([]uint32, 0, n+n/16+4), k.starts...)
			k.ends = append(make([]uint16, 0, n+n/16+4), k.ends...)
		}
		k.starts, k.ends = slices.Insert(k.starts, i, uint32(start)), slices.Insert(k.ends, i, uint16(from))
	}
	from, to := k.slot(i)
	entry := k.entry(hash)
	at, _ := slices.BinarySearch(k.entries[from:to], entry&^maxRank)
	if at += from; at < to && k.entries[at]>>rankBits == entry>>rankBits {
		k.entries[at] = max(k.entries[at], entry)
		return
	}
	if n := len(k.entries); n == cap(k.entries) {
		k.entries = append(make([]uint16, 0, max(n+4, min(n+n/4+32, k.most()))), k.entries...)
	}
	k.entries = slices.Insert(k.entries, at, entry)
	for ; i < len(k.ends); i++ {
		k.ends[i]++
	}
}

// most is how many entries there may be with as many slots as now.
func (k *sketch) most() int { return (sketchBytes - slotBytes*len(k.starts)) / entryBytes }

func (k *sketch) has(hash uint64) bool {
	entry := k.entry(hash)
	return slices.ContainsFunc(k.entries, func(e uint16) bool {
		return e>>rankBits == entry>>rankBits && e&maxRank >= entry&maxRank
	})
}

// settle makes slots as wide as they may be, drops those that end at left or before, and the registers that later slots
// have. If too many are left, half of the registers go.
func (k *sketch) settle(newest, left int64) {
	k.aligned = max(k.aligned, newest)
	k.rewrite(func(start int64) int64 {
		start, width := slotOf(start, k.aligned)
		if start+width-1 <= left {
			return -1
		}
		return start
	})
	k.prune()
}

// setBack moves what is after a second to it.
func (k *sketch) setBack(second int64) {
	k.aligned = second
	k.rewrite(func(start int64) int64 {
		start, _ = slotOf(min(start, second), second)
		return start
	})
	k.prune()
}

// rewrite moves each slot to where to says, in order: equal ones become one, and -1 drops it.
func (k *sketch) rewrite(to func(start int64) int64) {
	same := true
	last := int64(-1)
	for _, start := range k.starts {
		now := to(int64(start))
		same = same && now == int64(start) && now != last
		last = now
	}
	if same {
		return
	}
	made := sketch{entries: make([]uint16, 0, len(k.entries)), starts: make([]uint32, 0, len(k.starts)), ends: make([]uint16, 0, len(k.starts))}
	for i, start := range k.starts {
		if now := to(int64(start)); now >= 0 {
			from, end := k.slot(i)
			made.append(uint32(now), k.entries[from:end])
		}
	}
	k.starts, k.ends, k.entries = made.starts, made.ends, made.entries
}

// append adds entries, in order, to the last slot or to one after it.
func (k *sketch) append(start uint32, entries []uint16) {
	last := len(k.starts) - 1
	if last < 0 || k.starts[last] != start {
		k.entries = append(k.entries, entries...)
		k.starts, k.ends = append(k.starts, start), append(k.ends, uint16(len(k.entries)))
		return
	}
	from, _ := k.slot(last)
	var space [256]uint16
	k.entries = append(k.entries[:from], union(space[:0], k.entries[from:], entries)...)
	k.ends[last] = uint16(len(k.entries))
}

// union appends the entries of a and b, of two equal registers the one with the greater rank.
func union(to, a, b []uint16) []uint16 {
	for len(a) > 0 && len(b) > 0 {
		switch x, y := a[0]>>rankBits, b[0]>>rankBits; {
		case x < y:
			to, a = append(to, a[0]), a[1:]
		case x > y:
			to, b = append(to, b[0]), b[1:]
		default:
			to, a, b = append(to, max(a[0], b[0])), a[1:], b[1:]
		}
	}
	return append(append(to, a...), b...)
}

// prune drops registers that a later slot has, and halves the registers as long as too many are left.
func (k *sketch) prune() {
	for {
		var best [1 << maxPrecision]uint8
		kept := len(k.entries) // from here on, entries are kept
		for i := len(k.starts) - 1; i >= 0; i-- {
			from, to := k.slot(i)
			k.ends[i] = uint16(kept) // for now, from the other end
			for at := to - 1; at >= from; at-- {
				e := k.entries[at]
				if rank := uint8(e & maxRank); rank > best[e>>rankBits] {
					best[e>>rankBits] = rank
					kept--
					k.entries[kept] = e
				}
			}
		}
		n := copy(k.entries, k.entries[kept:])
		k.entries = k.entries[:n]
		slots := 0
		for i, end := range k.ends {
			if end := int(end) - kept; slots == 0 && end > 0 || slots > 0 && end > int(k.ends[slots-1]) {
				k.starts[slots], k.ends[slots] = k.starts[i], uint16(end)
				slots++
			}
		}
		k.starts, k.ends = k.starts[:slots], k.ends[:slots]
		if k.bytes() <= sketchBytes*31/32 || k.precision == minPrecision {
			break
		}
		k.halve()
	}
	if n := len(k.entries); cap(k.entries) > n+n/4+32 || cap(k.entries) > k.most() {
		k.entries = append(make([]uint16, 0, min(n+n/8+8, k.most())), k.entries...)
	}
	if n := len(k.starts); cap(k.starts) > n+n/8+8 {
		k.starts = append(make([]uint32, 0, n+n/16+4), k.starts...)
		k.ends = append(make([]uint16, 0, n+n/16+4), k.ends...)
	}
}

// halve halves the number of registers: the last bit of a register's number becomes the first one of what ranks count.
func (k *sketch) halve() {
	k.precision--
	entries := k.entries
	k.entries = make([]uint16, 0, len(entries))
	from := 0
	for i, end := range k.ends {
		first := len(k.entries)
		for _, e := range entries[from:end] {
			register, rank := e>>rankBits, e&maxRank
			if register&1 == 1 {
				rank = 1
			} else {
				rank = min(rank+1, maxRank)
			}
			folded := register>>1<<rankBits | rank
			if last := len(k.entries) - 1; last >= first && k.entries[last]>>rankBits == folded>>rankBits {
				k.entries[last] = max(k.entries[last], folded)
			} else {
				k.entries = append(k.entries, folded)
			}
		}
		from = int(end)
		k.ends[i] = uint16(len(k.entries))
	}
}

// merge adds another sketch, where newest is the newest second of both.
func (k *sketch) merge(o *sketch, newest int64) {
	if k.precision != o.precision {
		copied := *o
		copied.ends = slices.Clone(o.ends)
		for k.precision > o.precision {
			k.halve()
		}
		for copied.precision > k.precision {
			copied.halve()
		}
		o = &copied
	}
	k.settle(newest, -1)
	var made sketch
	for i, j := 0, 0; i < len(k.starts) || j < len(o.starts); {
		theirs := int64(math.MaxInt64)
		if j < len(o.starts) {
			theirs, _ = slotOf(int64(o.starts[j]), k.aligned)
		}
		if i < len(k.starts) && int64(k.starts[i]) <= theirs {
			from, to := k.slot(i)
			made.append(k.starts[i], k.entries[from:to])
			i++
		} else {
			from, to := o.slot(j)
			made.append(uint32(theirs), o.entries[from:to])
			j++
		}
	}
	k.starts, k.ends, k.entries = made.starts, made.ends, made.entries
	k.prune()
}

// count estimates the ids seen after a second: without the slot in which it lies, with it, and how much of the slot is
// after it.
func (k *sketch) count(from int64) (lower, upper, share float64) {
	var ranks [1 << maxPrecision]uint8
	i := len(k.starts) - 1
	for ; i >= 0 && int64(k.starts[i]) > from; i-- {
		k.raise(&ranks, i)
	}
	lower = estimate(ranks[:1<<k.precision])
	if i < 0 {
		return lower, lower, 0
	}
	start, width := int64(k.starts[i]), int64(1)
	if start <= k.aligned {
		_, width = slotOf(start, k.aligned)
	}
	last := start + width - 1
	if last <= from {
		return lower, lower, 0
	}
	k.raise(&ranks, i)
	return lower, estimate(ranks[:1<<k.precision]), float64(last-from) / float64(width)
}

func (k *sketch) raise(ranks *[1 << maxPrecision]uint8, slot int) {
	from, to := k.slot(slot)
	for _, e := range k.entries[from:to] {
		ranks[e>>rankBits] = max(ranks[e>>rankBits], uint8(e&maxRank))
	}
}

// error is the relative standard error.
func (k *sketch) error() float64 {
	return math.Round(1.04/math.Sqrt(float64(int(1)<<k.precision))*1e4) / 1e4
}

// estimate is the improved raw estimator of Ertl, algorithm 6.
func estimate(ranks []uint8) float64 {
	var number [maxRank + 1]float64
	for _, rank := range ranks {
		number[rank]++
	}
	m := float64(len(ranks))
	z := m * tau(1-number[maxRank]/m)
	for rank := maxRank - 1; rank >= 1; rank-- {
		z = 0.5 * (z + number[rank])
	}
	z += m * sigma(number[0]/m)
	return m * m / (2 * math.Ln2 * z)
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	z, y := x, 1.0
	for before := math.NaN(); z != before; {
		before = z
		x *= x
		z += x * y
		y *= 2
	}
	return z
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	z, y := 1-x, 1.0
	for before := math.NaN(); z != before; {
		before = z
		x = math.Sqrt(x)
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
	}
	return z / 3
}
