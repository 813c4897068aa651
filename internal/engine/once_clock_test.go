package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
)

// Receipts of a clock that was a year ahead, of another node or of this one before its
// clock was set, do not keep all others for a year.
func TestReceiptsOfAClockAhead(t *testing.T) {
	now := unix(1_700_000_000)
	e := newTestEngine(t, Config{Now: func() time.Time { return now }})
	once := func(key string) (repeated bool) {
		t.Helper()
		_, repeated, err := e.OnceFrom(context.Background(), "", key, 1, func() []byte { return []byte("x") })
		if err != nil {
			t.Fatal(err)
		}
		return repeated
	}
	ahead := newTestEngine(t, Config{Now: func() time.Time { return now.Add(year * time.Second) }})
	if _, _, err := ahead.OnceFrom(context.Background(), "", "other", 1, func() []byte { return []byte("x") }); err != nil {
		t.Fatal(err)
	}
	if err := e.Receipts().Load(ahead.Receipts().All(), false, 0); err != nil {
		t.Fatal(err)
	}
	now = now.Add(year * time.Second)
	for i := range 100 {
		once(fmt.Sprint("ahead", i))
	}
	now = now.Add(-year * time.Second)
	if !once("ahead7") {
		t.Error("a repeat after the clock ran back was counted")
	}
	once("now")
	now = now.Add((keyspace.ReceiptSeconds + 1) * time.Second)
	once("later")
	if got := len(e.Receipts().All()); got != 1 {
		t.Errorf("%d receipts are kept after ten minutes, want 1", got)
	}
}

// Who looks at the figures while the time of day is wrong forgets no receipt early.
func TestStatsOfReceiptsWhenTheClockIsSet(t *testing.T) {
	clocks := &twoClocks{}
	e := clocks.engine(t)
	once := func() (repeated bool) {
		t.Helper()
		_, repeated, err := e.OnceFrom(t.Context(), "", "order", 1, func() []byte { return []byte("x") })
		if err != nil {
			t.Fatal(err)
		}
		return repeated
	}
	once()
	clocks.wrong = time.Hour
	if got := e.Stats().OnceKeys; got != 1 {
		t.Errorf("%d receipts, want 1", got)
	}
	if !once() {
		t.Error("a repeat was counted")
	}
}
