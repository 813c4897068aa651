package query

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
)

// What a count costs: of the engine, of the router where the node holds the key,
// where another one does, and where an equal question was answered just before.
func BenchmarkCount(b *testing.B) {
	f := newFleet(b, 3, 1, nil)
	f.fill(1000)
	n, ctx := f.nodes[0], b.Context()
	near, far := f.keyOf(0, 0), f.keyOf(1, 0)
	b.Run("engine", func(b *testing.B) {
		for b.Loop() {
			if _, err := n.engine.CountAt(now, near, time.Hour); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, key := range map[string]string{"local": near, "cached": far} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := n.Counts(ctx, 0, []api.CountQuestion{{Key: key, At: now, Window: time.Hour}}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	at := now // another for each question: no two are equal
	b.Run("routed, one caller", func(b *testing.B) {
		for b.Loop() {
			at = at.Add(1)
			if _, _, err := n.Counts(ctx, 0, []api.CountQuestion{{Key: far, At: at, Window: time.Hour}}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("routed, 1000 keys at once", func(b *testing.B) {
		questions := make([]api.CountQuestion, 0, 1000)
		for i := 0; len(questions) < cap(questions); i++ {
			if key := fmt.Sprint("k", i); !n.engine.Keyspace().Holds(n.engine.Keyspace().PartitionOf(key)) {
				questions = append(questions, api.CountQuestion{Key: key, At: now, Window: time.Hour})
			}
		}
		for b.Loop() {
			at = at.Add(1)
			for i := range questions {
				questions[i].At = at
			}
			if _, _, err := n.Counts(ctx, 0, questions, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/key")
	})
	b.Run("routed, 256 callers", func(b *testing.B) {
		before := n.Stats()
		b.SetParallelism(128)
		b.RunParallel(func(pb *testing.PB) {
			for i := int64(0); pb.Next(); i++ {
				at := time.Now().Add(time.Duration(i)) // equal ones are rare
				if _, _, err := n.Counts(ctx, 0, []api.CountQuestion{{Key: far, At: at, Window: time.Hour}}, nil); err != nil {
					b.Error(err)
				}
			}
		})
		after := n.Stats()
		b.ReportMetric(float64(after.Asked-before.Asked)/float64(after.Requests-before.Requests), "questions/request")
	})
	b.Run("routed, top 10", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, _, err := n.Top(ctx, 0, now.Add(time.Duration(i)*time.Second), time.Hour, 10, ""); err != nil {
				b.Fatal(err)
			}
		}
	})
}
