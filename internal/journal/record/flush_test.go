package record

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

func randomDeltas(r *rand.Rand, n int) []replication.Delta {
	var deltas []replication.Delta
	for range n {
		d := replication.Delta{Key: fmt.Sprint("key:", r.IntN(50)), At: 1_700_000_000 - r.Int64N(100)*r.Int64N(2), N: 1 + r.Uint64N(5)}
		if r.IntN(50) == 0 {
			d = replication.Delta{Key: d.Key}
		}
		deltas = append(deltas, d)
	}
	return deltas
}

// What goes in comes out, in order, whatever the number of parts.
func TestFlushRoundTrip(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 0))
		e := NewEncoder(Incarnation{Origin: r.Uint64(), Epoch: 1 + r.Uint64N(5)}, 8)
		next := map[int]uint64{}
		totals := map[int]uint64{}
		for flush := range uint64(5) {
			want := map[int][]replication.Delta{}
			e.Begin(time.Now())
			for p := range 8 {
				if want[p] = randomDeltas(r, r.IntN(3)*r.IntN(40_000)); len(want[p]) == 0 {
					delete(want, p)
				}
				e.Add(p, want[p])
			}
			receipts := [][]byte{[]byte("one"), {}, []byte("three")}[:r.IntN(4)]
			parts := e.End(receipts)
			got := map[int][]replication.Delta{}
			for i, data := range parts {
				if len(data) > 1<<20 {
					t.Fatalf("a part of %d bytes", len(data))
				}
				p, err := DecodePart(data)
				if err != nil {
					t.Fatal(err)
				}
				if p.Incarnation != e.Incarnation || p.Flush != flush+1 || p.Number != uint64(i) || p.Last != (i == len(parts)-1) {
					t.Fatalf("part %d: %+v", i, p)
				}
				for _, b := range p.Batches {
					if next[b.Partition]++; b.Seq != next[b.Partition] {
						t.Fatalf("partition %d: seq %d, want %d", b.Partition, b.Seq, next[b.Partition])
					}
					for _, d := range b.Deltas() {
						totals[b.Partition] += d.N
					}
					if b.Total != totals[b.Partition] {
						t.Fatalf("partition %d: total %d, want %d", b.Partition, b.Total, totals[b.Partition])
					}
					got[b.Partition] = append(got[b.Partition], b.Deltas()...)
				}
				if p.Last && !slices.EqualFunc(p.Receipts, receipts, slices.Equal) {
					t.Fatalf("receipts %q, want %q", p.Receipts, receipts)
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatal("other deltas came back")
			}
		}
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	e := NewEncoder(Incarnation{Origin: 7, Epoch: 3}, 4)
	e.Begin(time.Now())
	e.Add(2, randomDeltas(rand.New(rand.NewPCG(1, 1)), 30))
	data := e.End([][]byte{[]byte("receipt")})[0]
	for bit := range 8 * len(data) {
		damaged := slices.Clone(data)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := DecodePart(damaged); err == nil {
			t.Fatalf("took a part with bit %d flipped", bit)
		}
	}
	for cut := range len(data) {
		if _, err := DecodePart(data[:cut]); err == nil {
			t.Fatalf("took a part cut to %d bytes", cut)
		}
	}
}

// someChanges has one of each kind.
func someChanges() []replication.Change {
	change := replication.ChangeOf{Name: "a/limit", Key: "user:1", At: 1_700_000_000_123}
	return []replication.Change{
		&replication.Admission{Limit: "bytes", Key: "k", At: 5, N: 7}, &replication.Refund{ChangeOf: change, N: 1}, &replication.Reset{ChangeOf: change},
		&replication.ForgetKeys{ChangeOf: change}, &replication.ForgetInline{ChangeOf: change}, &replication.Grant{ChangeOf: change, N: 3, Until: 9},
		&replication.Spend{ChangeOf: change, N: 1}, &replication.Ban{ChangeOf: change, Until: 17}, &replication.Permit{ChangeOf: change, Holder: math.MaxUint64, For: 8},
		&replication.Reservation{ChangeOf: change, ID: "r", N: 5, Until: 9, Back: true, Content: 3, Parts: 2},
		&replication.Reservation{ChangeOf: change, ID: "s", N: 5, Until: 9, Parts: 1, Settled: true, Lapsed: true, Used: 3, Over: 1},
		&replication.Settlement{ChangeOf: change, ID: "r", Used: 1, Back: 4, Over: 2, Forget: true}, &replication.Outstanding{ChangeOf: change, Holder: "n1", N: 5, For: 9},
	}
}

// Changes are read as they were written, in several batches too, and cut or with an unknown kind they are no batch.
func TestChangesRoundTrip(t *testing.T) {
	e := NewEncoder(Incarnation{Origin: 7, Epoch: 3}, 4)
	e.BatchBytes = 64
	e.Begin(time.Now())
	e.AddChanges(2, someChanges())
	p, err := DecodePart(e.End(nil)[0])
	if err != nil || len(p.Batches) < 3 {
		t.Fatal(p, err)
	}
	var got []replication.Change
	for i := range p.Batches {
		b := &p.Batches[i]
		list := b.Changes()
		if !b.OfLimits() || b.N != uint64(len(list)) {
			t.Errorf("%d of %d changes", len(list), b.N)
		}
		got = append(got, list...)
		if cut := (Batch{Kind: KindChanges, Entries: b.Entries[:len(b.Entries)-1]}); cut.check() {
			t.Errorf("%x is taken", cut.Entries)
		}
	}
	if want := someChanges(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if unknown := (Batch{Kind: KindChanges, Entries: []byte{99}}); unknown.check() {
		t.Error("an unknown kind of change is taken")
	}
}

// FuzzDecodePart repairs the checksum, so that what lies behind it is reached.
func FuzzDecodePart(f *testing.F) {
	e := NewEncoder(Incarnation{Origin: 7, Epoch: 3}, 4)
	e.Begin(time.Now())
	e.Add(2, randomDeltas(rand.New(rand.NewPCG(1, 1)), 30))
	e.AddChanges(2, someChanges())
	data := e.End([][]byte{[]byte("receipt")})[0]
	f.Add(data[:len(data)-wire.SumBytes])
	f.Fuzz(func(t *testing.T, data []byte) {
		data = wire.Seal(slices.Clone(data), 0)
		p, err := DecodePart(data)
		if err != nil {
			return
		}
		for _, b := range p.Batches {
			if list := b.Changes(); b.Kind == KindChanges && uint64(len(list)) != b.N {
				t.Fatalf("%d changes of %d", len(list), b.N)
			}
			for _, d := range b.Deltas() {
				if d.Key == "" || len(d.Key) > engine.MaxKeyBytes || d.At < 0 {
					t.Fatalf("took %+v", d)
				}
			}
		}
	})
}
