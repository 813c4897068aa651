package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// BenchmarkTakeOver takes a third of all partitions from a journal in memory, of which all is read.
func BenchmarkTakeOver(b *testing.B) {
	const partitions, flushes, keys = 256, 60, 30_000
	log := &soundLog{}
	n := newTakingOf(b, 1, log, engine.Config{Partitions: partitions})
	for i := range flushes {
		for key := range keys {
			_, err := n.e.HitAt(n.now, fmt.Sprintf("user:%d", i*100+key), 1)
			n.must(err)
		}
		n.now = n.now.Add(time.Second)
		n.flush(nil)
	}
	bytes := int64(0)
	for i := range log.len() {
		data, err := log.Message(i + 1)
		n.must(err)
		bytes += int64(len(data))
	}
	b.SetBytes(bytes)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		for p := range partitions / 3 {
			n.r.Release(p)
		}
		n.now = n.now.Add(100 * time.Millisecond)
		n.flush(nil)
		b.StartTimer()
		for len(n.missing()) > 0 {
			_, err := n.r.TakeOver(n.missing(), &countedReads{takingFrom: takingFrom{n, nil}})
			n.must(err)
		}
	}
}
