package shadow

// timelineMost is how many buckets a timeline has at most: a line of a terminal.
const timelineMost = 72

// bucketWidths are the widths that a timeline's buckets take one after the other, in
// seconds, each a multiple of the one before; beyond a week they double.
var bucketWidths = []int64{1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800}

// timeline counts denials in buckets that are as narrow as the span of the log lets them
// be. Buckets are aligned to the Unix epoch: days begin at midnight UTC.
type timeline struct {
	width   int64 // s
	first   int64 // the number of the first bucket: its time over the width
	buckets []uint64
}

func newTimeline(at int64) timeline {
	return timeline{width: 1, first: at, buckets: make([]uint64, 1, timelineMost)}
}

// reach makes room up to a time that is not before the first.
func (t *timeline) reach(at int64) {
	for at/t.width-t.first >= timelineMost {
		t.widen()
	}
	for int64(len(t.buckets)) <= at/t.width-t.first {
		t.buckets = append(t.buckets, 0)
	}
}

func (t *timeline) add(at int64, n uint64) {
	t.reach(at)
	t.buckets[at/t.width-t.first] += n
}

func (t *timeline) widen() {
	to := 2 * t.width
	for _, w := range bucketWidths {
		if w > t.width {
			to = w
			break
		}
	}
	factor := to / t.width
	first := t.first / factor
	last := (t.first + int64(len(t.buckets)) - 1) / factor
	for i, n := range t.buckets {
		t.buckets[i] = 0
		t.buckets[(t.first+int64(i))/factor-first] += n
	}
	t.width, t.first, t.buckets = to, first, t.buckets[:last-first+1]
}
