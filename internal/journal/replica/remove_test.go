package replica

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
)

// An origin that was removed is not waited for, unless something newer of it is here or
// comes later.
func TestARemovedOriginIsNotWaitedFor(t *testing.T) {
	e, err := engine.New(engine.Config{Partitions: 16, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	now := time.Now()
	r := New(e, 1, "n1", true)
	said := now.Add(-time.Minute)
	hear := func(at time.Time) {
		l := r.audit.progressOf(2)
		l.flush++
		l.pending = []record.Part{{Incarnation: record.Incarnation{Origin: 2, Epoch: 1}, Flush: l.flush, Node: "n2", At: at.UnixMilli(), Last: true}}
		l.whole()
	}
	late := func() bool {
		_, late := r.Freshness(now)
		return len(late) == 1 && late[0].Node == "n2"
	}
	hear(said)
	if !late() {
		t.Fatal("an origin that is silent for a minute is not late")
	}
	const origin = "0000000000000002"
	if r.Removed(origin, said.UnixMilli()-1) || !late() {
		t.Error("a removal from before its last flush counts")
	}
	if r.Removed("0000000000000003", now.UnixMilli()) {
		t.Error("an origin that nobody heard of was removed")
	}
	if !r.Removed(origin, said.UnixMilli()) || late() {
		t.Error("a removed origin is late")
	}
	hear(said.Add(time.Second))
	if !late() {
		t.Error("it came back, and is not waited for")
	}
	if r.Removed(origin, said.UnixMilli()) {
		t.Error("the removal from before counts again")
	}
}
