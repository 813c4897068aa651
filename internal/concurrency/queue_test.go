package concurrency

import (
	"errors"
	"testing"
)

// Who joins before a flush begins shares it; who joins after waits for the next.
func TestAGroupIsOfOneFlush(t *testing.T) {
	q := NewQueue()
	if q.Take() != nil {
		t.Fatal("a group of nobody")
	}
	first := q.Join()
	if q.JoinSpeaking() != first {
		t.Error("two groups before the flush began")
	}
	select {
	case <-q.Kicked():
	default:
		t.Error("nothing begins the flush that is waited for")
	}
	if !q.Speaks() || q.Speaks() {
		t.Error("the flush is to be written even if empty, and no other")
	}
	if q.Take() != first {
		t.Fatal("another group was taken")
	}
	second := q.Join()
	if second == first {
		t.Fatal("joined a flush that has begun")
	}
	first.Last = 7
	first.End(nil)
	<-first.Done
	if first.Err != nil || first.Last != 7 {
		t.Errorf("%+v", first)
	}

	ending := errors.New("closing")
	q.Finish(ending)
	for _, g := range []*Group{second, q.Join()} {
		<-g.Done
		if !errors.Is(g.Err, ending) {
			t.Errorf("after the end: %v", g.Err)
		}
	}
}
