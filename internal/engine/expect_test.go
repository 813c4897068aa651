package engine

import (
	"fmt"
	"testing"

	"github.com/weir-counter/weir/window"
)

// Expect of keys that are there, are new, come twice or can't be keys counts nothing.
func TestExpect(t *testing.T) {
	t.Parallel()
	e := newTestEngine(t, Config{Clock: EventClock})
	var keys []string
	for i := range 20_000 { // enough for it to look
		keys = append(keys, fmt.Sprint("k", i), fmt.Sprint("k", i/2))
	}
	keys = append(keys, "", AllKeys)
	for range 2 {
		expected := e.keys.Expect(nil, keys)
		for _, key := range expected[:40_000] {
			if outcome, err := e.HitExpected(unix(1_700_000_000), key, 1); err != nil || outcome != Counted {
				t.Fatalf("%s: %v, %v", key.Key(), outcome, err)
			}
		}
		for _, key := range append(expected[40_000:], Expected{}) {
			if _, err := e.HitExpected(unix(1_700_000_000), key, 1); err == nil {
				t.Errorf("%q is counted", key.Key())
			}
		}
	}
	if expected := e.keys.Expect(nil, nil); len(expected) > 0 {
		t.Errorf("of no keys: %v", expected)
	}
	for i := range 20_000 {
		want := uint64(2)
		if i < 10_000 {
			want = 6
		}
		if c, err := e.Count(fmt.Sprint("k", i), 1e9); err != nil || c != window.Exactly(want) {
			t.Errorf("k%d: %v, %v", i, c, err)
		}
	}
	if got := e.Stats().Keys; got != 20_000 {
		t.Errorf("%d keys", got)
	}
}
