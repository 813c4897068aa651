package journal

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
)

func randomDeltas(r *rand.Rand, n int) []weir.Delta {
	var deltas []weir.Delta
	for range n {
		d := weir.Delta{Key: fmt.Sprint("key:", r.IntN(50)), At: 1_700_000_000 - r.Int64N(100)*r.Int64N(2), N: 1 + r.Uint64N(5)}
		if r.IntN(50) == 0 {
			d = weir.Delta{Key: d.Key}
		}
		deltas = append(deltas, d)
	}
	return deltas
}

// What goes in comes out, in order, whatever the number of parts.
func TestFlushRoundTrip(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 0))
		e := newEncoder(life{origin: r.Uint64(), epoch: 1 + r.Uint64N(5)}, 8)
		next := map[int]uint64{}
		totals := map[int]uint64{}
		for flush := range uint64(5) {
			want := map[int][]weir.Delta{}
			e.begin(time.Now())
			for p := range 8 {
				if want[p] = randomDeltas(r, r.IntN(3)*r.IntN(40_000)); len(want[p]) == 0 {
					delete(want, p)
				}
				e.add(p, want[p])
			}
			receipts := [][]byte{[]byte("one"), {}, []byte("three")}[:r.IntN(4)]
			parts := e.end(receipts)
			got := map[int][]weir.Delta{}
			for i, data := range parts {
				if len(data) > 1<<20 {
					t.Fatalf("a part of %d bytes", len(data))
				}
				p, err := decodePart(data)
				if err != nil {
					t.Fatal(err)
				}
				if p.life != e.life || p.flush != flush+1 || p.part != uint64(i) || p.last != (i == len(parts)-1) {
					t.Fatalf("part %d: %+v", i, p)
				}
				for _, b := range p.batches {
					if next[b.partition]++; b.seq != next[b.partition] {
						t.Fatalf("partition %d: seq %d, want %d", b.partition, b.seq, next[b.partition])
					}
					for _, d := range b.deltas() {
						totals[b.partition] += d.N
					}
					if b.total != totals[b.partition] {
						t.Fatalf("partition %d: total %d, want %d", b.partition, b.total, totals[b.partition])
					}
					got[b.partition] = append(got[b.partition], b.deltas()...)
				}
				if p.last && !slices.EqualFunc(p.receipts, receipts, slices.Equal) {
					t.Fatalf("receipts %q, want %q", p.receipts, receipts)
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatal("other deltas came back")
			}
		}
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	e := newEncoder(life{origin: 7, epoch: 3}, 4)
	e.begin(time.Now())
	e.add(2, randomDeltas(rand.New(rand.NewPCG(1, 1)), 30))
	data := e.end([][]byte{[]byte("receipt")})[0]
	for bit := range 8 * len(data) {
		damaged := slices.Clone(data)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := decodePart(damaged); err == nil {
			t.Fatalf("took a part with bit %d flipped", bit)
		}
	}
	for cut := range len(data) {
		if _, err := decodePart(data[:cut]); err == nil {
			t.Fatalf("took a part cut to %d bytes", cut)
		}
	}
}

// FuzzDecodePart repairs the checksum, so that what lies behind it is reached.
func FuzzDecodePart(f *testing.F) {
	e := newEncoder(life{origin: 7, epoch: 3}, 4)
	e.begin(time.Now())
	e.add(2, randomDeltas(rand.New(rand.NewPCG(1, 1)), 30))
	data := e.end([][]byte{[]byte("receipt")})[0]
	f.Add(data[:len(data)-wire.SumBytes])
	f.Fuzz(func(t *testing.T, data []byte) {
		data = wire.Seal(slices.Clone(data), 0)
		p, err := decodePart(data)
		if err != nil {
			return
		}
		for _, b := range p.batches {
			for _, d := range b.deltas() {
				if d.Key == "" || len(d.Key) > weir.MaxKeyBytes || d.At < 0 {
					t.Fatalf("took %+v", d)
				}
			}
		}
	})
}
