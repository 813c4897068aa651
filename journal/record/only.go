package record

import (
	"strings"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
)

// Only is the batch with the entries of those keys alone that keep tells: of a batch of windows, what they come to stands in place of
// the window of all hits. A batch of another kind than hits or windows stays as it is.
func (b Batch) Only(keep func(key string) bool) Batch {
	switch b.Kind {
	case KindHits:
		b.Entries, b.N, b.Removes = onlyHits(b, keep)
	case KindWindows:
		list, _ := b.Windows() // it was checked
		b.Entries, b.N = nil, 0
		for _, one := range OnlyWindows(list, keep) {
			b.Entries = AppendWindowEntry(b.Entries, one.Key, &one.Window)
			b.N++
		}
	}
	return b
}

func onlyHits(b Batch, keep func(key string) bool) (entries []byte, n uint64, removes bool) {
	key, at := "", int64(0)
	for _, d := range b.Deltas() {
		if d.Key != key && !keep(d.Key) {
			continue
		}
		entries = appendEntry(entries, d, key, at)
		if key = d.Key; d.N > 0 {
			at = d.At
		}
		n, removes = n+d.N, removes || d.N == 0
	}
	return entries, n, removes
}

// OnlyWindows are the windows of those keys, each once more for all hits if it is among these.
func OnlyWindows(list []replication.KeyWindow, keep func(key string) bool) (only []replication.KeyWindow) {
	for _, one := range list {
		if one.Key != "" && keep(one.Key) {
			only = append(only, one)
			if !strings.HasPrefix(one.Key, weir.SeparatePrefix) {
				only = append(only, replication.KeyWindow{Window: one.Window})
			}
		}
	}
	return only
}
