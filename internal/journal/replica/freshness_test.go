package replica

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// The short way to the freshness says what the list of origins does, whoever is late,
// has left, was replaced or is forgotten.
func TestFreshnessIsThatOfOrigins(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := manyOrigins(t, 1+random.IntN(20), now)
		for _, l := range r.audit.byOrigin {
			l.at -= random.Int64N(3)
			switch random.IntN(8) {
			case 0:
				l.heard = now.Add(-time.Duration(random.Int64N(int64(2 * ForgetAfter))))
				l.fresh, l.at = l.heard, l.heard.UnixMilli()
			case 1:
				l.left = l.origin != r.audit.Origin
			case 2:
				l.heard, l.fresh = time.Time{}, time.Time{}
			case 3:
				if l.origin != r.audit.Origin {
					l.node = fmt.Sprint("n", 2+random.IntN(20)) // that of another
				}
			case 4:
				l.at += random.Int64N(3000) // its clock is ahead
			}
		}
		wantAsOf, want := now, []OriginStatus(nil)
		for _, o := range r.Origins(now) {
			if o.Left && !o.Self {
				continue
			}
			if o.AsOf.Before(wantAsOf) {
				wantAsOf = o.AsOf
			}
			if o.Late {
				want = append(want, o)
			}
		}
		asOf, late := r.Freshness(now)
		if !asOf.Equal(wantAsOf) || !reflect.DeepEqual(late, want) {
			t.Fatalf("seed %d: freshness is %v, %v; origins say %v, %v", seed, asOf, late, wantAsOf, want)
		}
	}
}

// BenchmarkFreshness is what a read waits for to say how complete it is, and the list of
// all nodes for comparison.
func BenchmarkFreshness(b *testing.B) {
	now := time.UnixMilli(1_800_000_000_000)
	for _, nodes := range []int{3, 100} {
		r := manyOrigins(b, nodes, now)
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Freshness(now)
			}
		})
		b.Run(fmt.Sprintf("list/nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Origins(now)
			}
		})
	}
}

// manyOrigins is a replica that has heard of many nodes, itself included, within a flush
// interval.
func manyOrigins(t testing.TB, nodes int, now time.Time) *Replica {
	t.Helper()
	e, err := engine.New(engine.Config{Partitions: 1, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	r := New(e, 1, "n1", true)
	for i := range nodes {
		l := r.audit.progressOf(uint64(i + 1))
		l.node, l.epoch, l.flush, l.heard, l.fresh, l.at = fmt.Sprint("n", i+1), 1, 1, now, now, now.UnixMilli()-int64(i*37%100)
	}
	return r
}
