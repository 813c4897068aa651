package record

import (
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
	var less Less
	for _, h := range []replication.RequestHit{{Key: replication.KeySum("a"), At: 10, N: 2}, {Key: replication.KeySum("a"), At: 11, N: 4}, {Key: replication.KeySum("b"), At: 10, N: 4}, {Key: replication.KeySum("b"), At: 10, N: 2}} {
		less.Add(h)
	}
	b := batches[0].Without(&less)
	if want := []replication.Delta{{Key: "a", At: 10, N: 1}, {Key: "a"}, {Key: "b", At: 10, N: 1}}; !reflect.DeepEqual(b.Deltas(), want) || b.N != 2 || !b.Removes {
		t.Errorf("left %+v, %d hits, want %+v", b.Deltas(), b.N, want)
	}
	if want := []replication.Delta{{Key: "a", At: 10, N: 2}, {Key: "a", At: 11, N: 1}, {Key: "b", At: 10, N: 2}, {Key: "a"}, {Key: "b", At: 10, N: 4}}; !reflect.DeepEqual(b.Less, want) {
		t.Errorf("took %+v, want %+v", b.Less, want)
	}
	if all := batches[0].Without(&Less{}); !reflect.DeepEqual(all.Deltas(), deltas) {
		t.Errorf("%+v, want %+v", all.Deltas(), deltas)
	}

	snap := Snapshot{Partition: 0, Requests: []SeenRequest{{ID: want.ID, Incarnation: Incarnation{7, 1}, Flush: 3, At: 5}}}
	if read, err := DecodeSnapshot(snap.Encode()); err != nil || !reflect.DeepEqual(read.Requests, snap.Requests) {
		t.Errorf("%+v, %v", read.Requests, err)
	}
}

// What a request counted after a removal is left out after it, also in a later batch of the flush. What the request says by mistake of
// before a removal, as that came while it counted, is left out after it too.
func TestRequestsAfterRemovals(t *testing.T) {
	e := NewEncoder(Incarnation{Origin: 7, Epoch: 1}, 4)
	e.BatchBytes = 8
	e.Begin(time.UnixMilli(1))
	e.Add(1, []replication.Delta{{Key: "a", At: 10, N: 5}, {Key: "a"}, {Key: "b", At: 10, N: 2}, {Key: "b"}, {Key: "a", At: 10, N: 3}, {Key: "b", At: 10, N: 4}, {Key: "a"}, {Key: "a", At: 10, N: 6}})
	p, err := DecodePart(e.End(nil)[0])
	if err != nil || len(p.Batches) < 3 {
		t.Fatal(p, err)
	}
	a, b := replication.KeySum("a"), replication.KeySum("b")
	var less Less
	for _, h := range []replication.RequestHit{{Key: replication.After(a, 1), At: 10, N: 2}, {Key: replication.After(a, 2), At: 10, N: 1}, {Key: b, At: 10, N: 3}} {
		less.Add(h)
	}
	var left []replication.Delta
	for _, one := range p.Batches {
		one = one.Without(&less)
		left = append(left, one.Deltas()...)
	}
	if want := []replication.Delta{{Key: "a", At: 10, N: 5}, {Key: "a"}, {Key: "b"}, {Key: "a", At: 10, N: 1}, {Key: "b", At: 10, N: 3}, {Key: "a"}, {Key: "a", At: 10, N: 5}}; !reflect.DeepEqual(left, want) {
		t.Errorf("left %+v, want %+v", left, want)
	}
}
