package replica

import (
	"testing"

	"github.com/weir-counter/weir/internal/journal/record"
)

// What a partition's journal has before a clear need not be kept to take it.
func TestGatheredForgetsWhatWasCleared(t *testing.T) {
	var g gathered
	for range 3 {
		g.add(record.Batch{Kind: record.KindEvicted, Entries: []byte{1, 2, 3}})
		g.add(record.Batch{Kind: record.KindClear, Entries: []byte{1}})
	}
	if list := g.followed(); len(list) != 1 || !list[0].Clear || g.entries != 1 {
		t.Errorf("%d entries, %+v", g.entries, list)
	}
}
