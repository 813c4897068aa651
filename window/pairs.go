package window

import "slices"

// pairs is the sparse form: a stack of (second, n) pairs, newest on top, packed into bytes that are read from the end.
// So a hit in order is a push, and a short window reads only its own pairs.
//
//	bottom                                                          top
//	[older] | [n-2] gap=0 | ... | [n-2] gap<<1|many | [n-2] gap<<1|many
//	          oldest pair                               newest pair
//
// Each number is a varint whose last byte comes first when reading backwards (see pushUvarint). A gap is the number of
// seconds to the next older pair, and 0 for the oldest one. If many = 1, n is above 1, and n-2 lies beneath. Below the
// oldest pair lies the number of hits that were trimmed away, if any. Ten hits over a day take about 25 bytes.
type pairs []byte

// maxPairBytes bounds the sparse form: some 200 pairs. A longer stack becomes a pyramid. More would save memory for
// keys hit a few hundred times within the retention, and make their long windows slower to read.
const maxPairBytes = 512

type pair struct {
	at int64
	n  uint64
}

// item is one decoded element of the stack, at bytes [start, end).
type item struct {
	start, end int
	gap        int64 // to the next older pair; 0: this is the oldest
	n          uint64
}

// below decodes the item that ends at byte end; end > 0.
func (p pairs) below(end int) item {
	it := item{end: end}
	head, pos := p.popUvarint(end)
	it.gap = int64(head >> 1)
	it.n = 1
	if head&1 != 0 {
		it.n, pos = p.popUvarint(pos)
		it.n = addSat(it.n, 2)
	}
	it.start = pos
	return it
}

// add counts n hits at the second at; newest is the second of the top pair.
func (p pairs) add(newest, at int64, n uint64) pairs {
	var scratch [4 * maxVarint]byte
	if len(p) == 0 {
		return p.splice(0, 0, appendItem(scratch[:0], 0, n))
	}
	if at > newest {
		return p.splice(len(p), len(p), appendItem(scratch[:0], at-newest, n))
	}
	it, second := p.below(len(p)), newest
	for second > at && it.gap != 0 && second-it.gap >= at {
		second -= it.gap
		it = p.below(it.start)
	}
	if second == at {
		return p.splice(it.start, it.end, appendItem(scratch[:0], it.gap, addSat(it.n, n)))
	}
	// at lies between this pair and the next older one, or before the oldest.
	olderGap := int64(0)
	if it.gap != 0 {
		olderGap = at - (second - it.gap)
	}
	repl := appendItem(scratch[:0], olderGap, n)
	return p.splice(it.start, it.end, appendItem(repl, second-at, it.n))
}

// count sums the pairs in (from, to], and returns the trimmed hits if the walk came to the bottom.
func (p pairs) count(newest, from, to int64) (n, older uint64) {
	for end, second := len(p), newest; ; {
		it := p.below(end)
		if second <= from {
			return n, 0
		}
		if second <= to {
			n = addSat(n, it.n)
		}
		if it.gap == 0 {
			return n, p.older(it.start)
		}
		second -= it.gap
		end = it.start
	}
}

// total is the number of all hits, trimmed ones included.
func (p pairs) total(newest int64) uint64 {
	if len(p) == 0 {
		return 0
	}
	n, older := p.count(newest, -1, newest)
	return addSat(n, older)
}

// list decodes the whole stack, newest pair first; the stack is not empty.
func (p pairs) list(newest int64) (list []pair, older uint64) {
	list = make([]pair, 0, len(p)/2+1) // most take two bytes and more
	for end, second := len(p), newest; ; {
		it := p.below(end)
		list = append(list, pair{second, it.n})
		if it.gap == 0 {
			return list, p.older(it.start)
		}
		second -= it.gap
		end = it.start
	}
}

// trim moves the pairs at or before the second limit to the hits that have left. The newest pair stays.
func (p pairs) trim(newest, limit int64) pairs {
	list, older := p.list(newest)
	keep := len(list)
	for keep > 1 && list[keep-1].at <= limit {
		older = addSat(older, list[keep-1].n)
		keep--
	}
	return packPairs(list[:keep], older)
}

// packPairs is the inverse of list.
func packPairs(list []pair, older uint64) pairs {
	var p pairs
	if older > 0 {
		p = pushUvarint(p, older)
	}
	gap := int64(0)
	for i := len(list) - 1; i >= 0; i-- {
		p = appendItem(p, gap, list[i].n)
		if i > 0 {
			gap = list[i-1].at - list[i].at
		}
	}
	return slices.Clip(p)
}

// older reads the number below the oldest pair, which starts at byte end.
func (p pairs) older(end int) uint64 {
	if end == 0 {
		return 0
	}
	older, _ := p.popUvarint(end)
	return older
}

// splice replaces bytes [start, end) by repl. Capacity grows by a quarter, to
// the allocator's next size, rather than doubling: most keys stay small.
func (p pairs) splice(start, end int, repl []byte) pairs {
	if len(repl) == end-start { // nearly always, where a pair grows
		copy(p[start:], repl)
		return p
	}
	size := len(p) - (end - start) + len(repl)
	if size <= cap(p) {
		if start == len(p) { // a push
			return append(p, repl...)
		}
		return slices.Replace(p, start, end, repl...)
	}
	grown := append(pairs(nil), make(pairs, size+size/4)...)[:0]
	grown = append(grown, p[:start]...)
	grown = append(grown, repl...)
	return append(grown, p[end:]...)
}

func appendItem(b []byte, gap int64, n uint64) []byte {
	if n == 1 {
		return pushUvarint(b, uint64(gap)<<1)
	}
	return pushUvarint(pushUvarint(b, n-2), uint64(gap)<<1|1)
}

const maxVarint = 10 // bytes of the longest uint64

// pushUvarint appends v in groups of seven bits, the highest group first. All bytes but the first carry the
// continuation bit: popUvarint meets them last to first.
func pushUvarint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	var tmp [maxVarint]byte
	i := maxVarint - 1
	for ; v >= 0x80; i-- {
		tmp[i] = byte(v) | 0x80
		v >>= 7
	}
	tmp[i] = byte(v)
	return append(b, tmp[i:]...)
}

// popUvarint reads the number that ends at byte end and returns where it starts.
func (p pairs) popUvarint(end int) (v uint64, start int) {
	for shift := uint(0); ; shift += 7 {
		end--
		b := p[end]
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, end
		}
	}
}
