package shadow

import "encoding/binary"

// demand is when one key asked, whether it was let through or not: how many requests in
// which second, two or three bytes for each.
//
// While the key asks for no more than the burst in any two intervals, its limit denies
// nothing, whatever the algorithm, and remembers nothing older than these: a window looks
// back one interval and a sub-slot, a fixed one less, and a bucket that gets no more than
// it holds in two intervals, in which it fills twice, has been full in their time. So
// only they are kept. From the moment on when the key asks for more, all is kept: larger
// limits of the same interval denied nothing until then either, so this series tells
// exactly what they would have denied at all.
type demand struct {
	at      int64  // Unix s of the newest entry, which is not in series yet
	n       uint64 // of the newest entry; 0 before the first
	encoded int64  // Unix s of the newest entry in series; 0 before the first
	series  []byte // varints: s since the entry before, n
	recent  cursor // begins an interval before at
	kept    cursor // begins what is kept

	peak   uint64 // the most requests in an interval
	peakAt int64  // the end of the first one that had as many, Unix s
	whole  bool   // the key asked for more than its limit: kept does not move
}

// cursor is a place in a series, and how much there is from it to the newest entry.
type cursor struct {
	off int
	at  int64 // Unix s of the entry before off; 0 before the first
	sum uint64
}

// pass moves the cursor to the first entry that is not before a time.
func (c *cursor) pass(series []byte, from int64) {
	for c.off < len(series) {
		at, n, size := entryAt(series[c.off:], c.at)
		if at >= from {
			return
		}
		c.off, c.at, c.sum = c.off+size, at, c.sum-n
	}
}

func entryAt(b []byte, before int64) (at int64, n uint64, size int) {
	delta, size := binary.Uvarint(b)
	n, more := binary.Uvarint(b[size:])
	return before + int64(delta), n, size + more
}

// reach is which seconds matter to a limit.
type reach struct {
	recent int64  // an interval that ends in second t begins with t-recent
	memory int64  // two intervals that end in second t begin with t-memory
	most   uint64 // the burst
}

// add notes n requests at a time that is not before the newest.
func (d *demand) add(at int64, n uint64, r *reach) {
	if d.n > 0 && at != d.at {
		d.encode()
		d.recent.pass(d.series, at-r.recent)
		d.forget(at, r)
		d.n = 0
	}
	d.at = at
	d.n += n
	d.recent.sum += n
	d.kept.sum += n
	if d.recent.sum > d.peak {
		d.peak, d.peakAt = d.recent.sum, at
	}
	d.whole = d.whole || d.kept.sum > r.most
}

func (d *demand) encode() {
	d.series = binary.AppendUvarint(d.series, uint64(d.at-d.encoded))
	d.series = binary.AppendUvarint(d.series, d.n)
	d.encoded = d.at
}

// forget drops what no limit remembers any more at a time, while nothing else is needed.
func (d *demand) forget(at int64, r *reach) {
	if d.whole {
		return
	}
	d.kept.pass(d.series, at-r.memory)
	if d.kept.off > len(d.series)/2 {
		d.compact()
	}
}

func (d *demand) compact() {
	d.series = d.series[:copy(d.series, d.series[d.kept.off:])]
	d.recent.off -= d.kept.off
	d.kept.off = 0
}

// drop forgets all but the newest interval: too little to tell what another limit would
// have denied.
func (d *demand) drop() {
	d.whole = false
	d.kept = d.recent
	d.series = append([]byte(nil), d.series[d.kept.off:]...)
	d.recent.off, d.kept.off = 0, 0
}

// each tells what is kept, in order of time, until f returns false.
func (d *demand) each(f func(at int64, n uint64) bool) {
	for off, before := d.kept.off, d.kept.at; off < len(d.series); {
		at, n, size := entryAt(d.series[off:], before)
		if !f(at, n) {
			return
		}
		off, before = off+size, at
	}
	if d.n > 0 {
		f(d.at, d.n)
	}
}
