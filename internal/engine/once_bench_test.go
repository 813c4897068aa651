package engine

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// BenchmarkOnce measures a request with an idempotency key at a node alone, and at a node of a cluster, which also records the hits for
// the journal. There is a cut every thousand requests, as a journal makes them.
func BenchmarkOnce(b *testing.B) {
	for _, hits := range []int{1, 100} {
		for _, shared := range []bool{false, true} {
			b.Run(fmt.Sprintf("hits=%d/cluster=%v", hits, shared), func(b *testing.B) {
				e, err := New(Config{Gather: true, OnceMemory: 1 << 40})
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				if shared {
					e.Receipts().Share()
				}
				keys := make([]string, hits)
				for i := range keys {
					keys[i] = "url:/page/" + strconv.Itoa(i)
				}
				var cut replication.Cut
				b.ReportAllocs()
				for i := range b.N {
					at := time.Now()
					if _, _, err := e.Receipts().Once(context.Background(), "client", strconv.Itoa(i), 1, func(recorded *replication.RequestRecorder) []byte {
						for _, key := range keys {
							removals := uint64(0)
							if recorded != nil { // as the service does
								removals = e.Keyspace().Removals(key)
							}
							if _, err := e.HitAt(at, key, 1); err != nil {
								b.Fatal(err)
							}
							recorded.Add(at.Unix(), key, removals, 1)
						}
						return []byte("answer")
					}); err != nil {
						b.Fatal(err)
					}
					if i%1000 == 999 {
						e.Receipts().Cut(func() {
							for partition := range e.cfg.Partitions {
								e.Cut(partition, &cut, false)
							}
						})
					}
				}
			})
		}
	}
}
