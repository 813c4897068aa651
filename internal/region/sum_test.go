package region

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// model is what one who applies batches has: hits by key and second, and all hits by second, which a removal leaves.
type model struct {
	keys map[string]map[int64]uint64
	all  map[int64]uint64
}

func newModel() model { return model{map[string]map[int64]uint64{}, map[int64]uint64{}} }

func (m model) apply(list []replication.Delta) {
	for _, d := range list {
		if d.N == 0 {
			delete(m.keys, d.Key)
			continue
		}
		if m.keys[d.Key] == nil {
			m.keys[d.Key] = map[int64]uint64{}
		}
		m.keys[d.Key][d.At] += d.N
		m.all[d.At] += d.N
	}
}

func (m model) text() string { return fmt.Sprint(m.keys, m.all) }

// Whoever applies digests has what one has who applies all flushes of all nodes, however they are cut; and has fewer entries.
func TestDigestsAreTheFlushes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		const partitions = 4
		want, got := make([]model, partitions), make([]model, partitions)
		for p := range partitions {
			want[p], got[p] = newModel(), newModel()
		}
		nodes := make([]*record.Encoder, 1+rng.IntN(4))
		for i := range nodes {
			nodes[i] = record.NewEncoder(record.Incarnation{Origin: uint64(i + 1), Epoch: 1}, partitions)
			nodes[i].BatchBytes, nodes[i].PartBytes = 64, 200
		}
		sum := NewSum(partitions)
		region := record.NewEncoder(record.Incarnation{Origin: OriginOf("eu"), Epoch: 7}, partitions)
		region.Node, region.PartBytes = "eu", 200
		var entries, digested int
		for range 60 {
			e := nodes[rng.IntN(len(nodes))]
			e.Begin(time.Unix(0, 0))
			for range rng.IntN(3) {
				p := rng.IntN(partitions)
				var list []replication.Delta
				for range 1 + rng.IntN(8) {
					d := replication.Delta{Key: fmt.Sprintf("%d:%d", p, rng.IntN(5)), At: 1000 + int64(rng.IntN(4)), N: uint64(rng.IntN(6))}
					if d.N == 0 {
						d.At = 0
					}
					list = append(list, d)
				}
				e.Add(p, list)
				want[p].apply(list)
				entries += len(list)
			}
			for _, part := range e.End(nil) {
				p, err := record.DecodePart(part)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range p.Batches {
					sum.Add(b)
				}
			}
			if rng.IntN(8) > 0 {
				continue
			}
			digested += cut(t, sum, region, got)
		}
		digested += cut(t, sum, region, got)
		for p := range partitions {
			if got[p].text() != want[p].text() {
				t.Fatalf("seed %d, partition %d:\n got %s\nwant %s", seed, p, got[p].text(), want[p].text())
			}
		}
		if digested > entries {
			t.Errorf("seed %d: %d entries of digests, of %d of nodes", seed, digested, entries)
		}
	}
}

// cut cuts a digest, and applies it; it returns how many entries it had.
func cut(t *testing.T, sum *Sum, e *record.Encoder, to []model) (entries int) {
	t.Helper()
	e.Begin(time.UnixMilli(123))
	sum.Cut(e)
	note := Note{Journal: 5, Partitions: len(to), Retention: time.Hour, Every: time.Second, At: replica.FlushPosition{After: 9}}
	parts := e.End([][]byte{note.Encode()})
	for i, part := range parts {
		m, err := Decode(part)
		if err != nil {
			t.Fatal(err)
		}
		if m.Region != "eu" || m.ID != (ID{7, e.Flush}) || m.Last != (i == len(parts)-1) || m.Last != (m.Note != nil) || m.At != 123 {
			t.Fatalf("%+v", m)
		}
		for _, b := range m.Part.Batches {
			list := b.Deltas()
			to[b.Partition].apply(list)
			entries += len(list)
		}
	}
	if len(sum.touched) != 0 {
		t.Errorf("%d partitions are left", len(sum.touched))
	}
	return entries
}

func TestNotesAndPieces(t *testing.T) {
	t.Parallel()
	note := Note{
		Journal: 1 << 60, Partitions: 256, Retention: 30 * 24 * time.Hour, Every: time.Second, Late: []api.Late{{Node: "n2", Since: api.Time{Time: time.UnixMilli(1234)}}},
		At: replica.FlushPosition{After: 77, Heads: map[uint64]record.Head{3: {Epoch: 2, Flush: 9}, 1 << 63: {Epoch: 1, Flush: 1}}},
	}
	back, err := DecodeNote(note.Encode())
	if err != nil || fmt.Sprint(back) != fmt.Sprint(note) {
		t.Errorf("%v, %v", back, err)
	}
	state := make([]byte, 2*PieceBytes+5)
	pieces := Pieces(3, 7, 70, state, PieceBytes)
	size := 0
	for i, p := range pieces {
		m := Message{Region: "eu", ID: ID{1, 2}, Number: uint64(i), At: 5, Piece: &p}
		got, err := Decode(m.Encode())
		if err != nil || got.Piece.Partition != 3 || got.Piece.Seq != 7 || got.Piece.Total != 70 || got.Piece.Whole != (i == 2) || got.ID != m.ID || got.Number != uint64(i) {
			t.Fatalf("%+v, %v", got, err)
		}
		size += len(got.Piece.Bytes)
	}
	if size != len(state) || len(pieces) != 3 {
		t.Errorf("%d bytes in %d pieces", size, len(pieces))
	}
	last := Message{Region: "eu", ID: ID{1, 2}, Number: 3, Last: true, Piece: &Piece{Bytes: note.Encode()}}
	if got, err := Decode(last.Encode()); err != nil || got.Note == nil || got.Note.Partitions != 256 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Decode(Gone("eu", 9, 5)); err != nil || !got.Gone || got.Epoch != 9 || got.At != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range []string{"", "a b", "a:b", "ä"} {
		if CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// No bytes make Decode panic, or take what it refuses.
func FuzzDecode(f *testing.F) {
	note := Note{Journal: 1, Partitions: 4, Retention: time.Hour, Every: time.Second}
	piece := Message{Region: "eu", ID: ID{1, 2}, Piece: &Piece{Partition: 1, Whole: true, Bytes: []byte("state")}}
	last := Message{Region: "eu", ID: ID{1, 2}, Number: 1, Last: true, Piece: &Piece{Bytes: note.Encode()}}
	f.Add(piece.Encode())
	f.Add(last.Encode())
	f.Add(Gone("eu", 3, 4))
	e := record.NewEncoder(record.Incarnation{Origin: OriginOf("eu"), Epoch: 1}, 4)
	e.Node = "eu"
	e.Begin(time.UnixMilli(5))
	e.Add(1, []replication.Delta{{Key: "a", At: 7, N: 8}})
	f.Add(e.End([][]byte{note.Encode()})[0])
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		if err != nil {
			return
		}
		if CheckName(m.Region) != nil || m.Last && !m.Gone && m.Note == nil {
			t.Errorf("%+v", m)
		}
	})
}
