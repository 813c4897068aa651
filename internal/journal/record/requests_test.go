package record

import (
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// Requests are read as they were written, also where one takes several parts, and their hits are left out of a batch.
func TestRequests(t *testing.T) {
	e := NewEncoder(Incarnation{Origin: 7, Epoch: 1}, 4)
	e.BatchBytes, e.PartBytes = 60, 100
	e.Begin(time.UnixMilli(1))
	deltas := []replication.Delta{{Key: "a", At: 10, N: 3}, {Key: "a", At: 11, N: 1}, {Key: "b", At: 10, N: 2}, {Key: "a"}, {Key: "b", At: 10, N: 5}}
	e.Add(1, deltas)
	want := replication.Request{ID: replication.RequestID{1, 2, 3}}
	for i := range 40 {
		want.Hits = append(want.Hits, replication.RequestHit{Key: uint64(i) << 40, At: int64(20 - i), N: uint64(i + 1)})
	}
	var got replication.Request
	var batches []Batch
	for _, data := range e.End([][]byte{make([]byte, 90), make([]byte, 90)}, want) {
		p, err := DecodePart(data)
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, p.Batches...)
		for _, r := range p.Requests {
			got.ID, got.Hits = r.ID, append(got.Hits, r.Hits...)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	less := map[KeySecond]uint64{{replication.KeySum("a"), 10}: 2, {replication.KeySum("a"), 11}: 4, {replication.KeySum("b"), 10}: 6}
	b := batches[0].Without(maps.Clone(less))
	if want := []replication.Delta{{Key: "a", At: 10, N: 1}, {Key: "a"}, {Key: "b", At: 10, N: 1}}; !reflect.DeepEqual(b.Deltas(), want) || b.N != 2 || !b.Removes {
		t.Errorf("left %+v, %d hits, want %+v", b.Deltas(), b.N, want)
	}
	if want := []replication.Delta{{Key: "a", At: 10, N: 2}, {Key: "a", At: 11, N: 1}, {Key: "b", At: 10, N: 2}, {Key: "a"}, {Key: "b", At: 10, N: 4}}; !reflect.DeepEqual(b.Less, want) {
		t.Errorf("took %+v, want %+v", b.Less, want)
	}
	if all := batches[0].Without(map[KeySecond]uint64{}); !reflect.DeepEqual(all.Deltas(), deltas) {
		t.Errorf("%+v, want %+v", all.Deltas(), deltas)
	}

	snap := Snapshot{Partition: 0, Requests: []SeenRequest{{ID: want.ID, Incarnation: Incarnation{7, 1}, Flush: 3, At: 5}}}
	if read, err := DecodeSnapshot(snap.Encode()); err != nil || !reflect.DeepEqual(read.Requests, snap.Requests) {
		t.Errorf("%+v, %v", read.Requests, err)
	}
}
