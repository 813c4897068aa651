package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
)

func TestOnce(t *testing.T) {
	now := unix(1_700_000_000)
	e := newTestEngine(t, Config{Now: func() time.Time { return now }})
	applied := 0
	ask := func(key string, fingerprint uint64, answer []byte) (string, bool, error) {
		got, repeated, err := e.OnceFrom(t.Context(), "", key, fingerprint, func() []byte {
			applied++
			return answer
		})

		return string(got), repeated, err
	}
	for i, s := range []struct {
		wait        time.Duration
		key         string
		fingerprint uint64
		answer      []byte
		want        string
		repeated    bool
		code        api.Code
		applied     int
	}{
		{0, "a", 1, []byte("first"), "first", false, "", 1},
		{0, "a", 1, []byte("second"), "first", true, "", 1},
		{0, "a", 2, []byte("third"), "", false, api.CodeKeyReused, 1},
		{0, "b", 1, nil, "", false, "", 2}, // counted nothing: not remembered
		{0, "b", 2, []byte("now"), "now", false, "", 3},
		{599 * time.Second, "a", 1, []byte("late"), "first", true, "", 3},
		{time.Second, "a", 1, []byte("too late"), "too late", false, "", 4},
		{0, "", 1, nil, "", false, api.CodeInvalidKey, 4},
	} {
		now = now.Add(s.wait)
		got, repeated, err := ask(s.key, s.fingerprint, s.answer)
		if s.code != "" {
			wantCode(t, err, s.code)
		} else if err != nil || got != s.want || repeated != s.repeated {
			t.Errorf("step %d: %q, %v, %v", i, got, repeated, err)
		}
		if applied != s.applied {
			t.Errorf("step %d: applied %d times, want %d", i, applied, s.applied)
		}
	}
}

// Repeats that come while the first is applied wait for it; cuts wait for both
// the hits and the receipt.
func TestOnceConcurrent(t *testing.T) {
	e := newTestEngine(t, Config{Gather: true})
	var applied atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				answer, _, err := e.OnceFrom(context.Background(), "", fmt.Sprint(i), 0, func() []byte {
					applied.Add(1)
					e.Hit("a")
					return fmt.Append(nil, "answer ", i)
				})

				if err != nil || string(answer) != fmt.Sprint("answer ", i) {
					t.Errorf("%d: %q, %v", g, answer, err)
				}
			}
		})
	}
	var c replication.Cut
	receipts, hits := 0, uint64(0)
	for receipts < 500 {
		cut, _ := e.Receipts().Cut(func() {
			for i := range e.cfg.Partitions {
				e.Cut(i, &c, false)
				for _, d := range c.Deltas {
					hits += d.N
				}
			}
		})
		receipts += len(cut)
		if int(hits) != receipts {
			t.Errorf("a cut with %d hits and %d receipts", hits, receipts)
		}
	}
	wg.Wait()
	if applied.Load() != 500 {
		t.Errorf("applied %d times, want 500", applied.Load())
	}
}

func TestReceiptsLoad(t *testing.T) {
	now := unix(1_700_000_000)
	cfg := Config{Gather: true, Now: func() time.Time { return now }}
	e := newTestEngine(t, cfg)
	for i := range 10 {
		e.OnceFrom(t.Context(), "", fmt.Sprint(i), uint64(i), func() []byte { return fmt.Append(nil, i) })
		now = now.Add(time.Minute)
	}
	restarted := newTestEngine(t, cfg)
	if err := restarted.Receipts().Load(e.Receipts().All(), false, 0); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 10; i++ { // the first is ten minutes old
		got, repeated, err := restarted.OnceFrom(t.Context(), "", fmt.Sprint(i), uint64(i), func() []byte { return nil })
		if err != nil || !repeated || string(got) != fmt.Sprint(i) {
			t.Errorf("%d: %q, %v, %v", i, got, repeated, err)
		}
	}
	if _, repeated, _ := restarted.OnceFrom(t.Context(), "", "0", 0, func() []byte { return nil }); repeated {
		t.Error("a receipt of ten minutes ago is still there")
	}
	if err := restarted.Receipts().Load([][]byte{{0xff}}, false, 0); err == nil {
		t.Error("took a receipt that is none")
	}
}

// Receipts of other nodes take nothing from an engine's own, one client leaves a quarter to
// the others, and all of it is bounded.
func TestOnceMemory(t *testing.T) {
	now := unix(1_700_000_000)
	cfg := Config{Gather: true, OnceMemory: 64 << 10, Now: func() time.Time { return now }}
	e := newTestEngine(t, cfg)
	answer := make([]byte, 100)
	ask := func(e *Engine, client, key string) error {
		_, _, err := e.OnceFrom(t.Context(), client, key, 0, func() []byte { return answer })
		return err
	}
	fill := func(e *Engine, client string) (n int) {
		for ; ; n++ {
			if err := ask(e, client, fmt.Sprint(client, n)); err != nil {
				wantCode(t, err, api.CodeOnceFull)
				return n
			}
		}
	}
	const each = 160 + 100 + 5
	one, two := fill(e, "one"), fill(e, "two")
	if most := 64 << 10 / each; one < most*2/3 || one > most*4/5 || two < most/6 || one+two > most+most/10 {
		t.Errorf("one client has %d, the other %d, of some %d", one, two, most)
	}
	if err := ask(e, "one", "one0"); err != nil {
		t.Errorf("a repeat, while it is full: %v", err)
	}
	for life := range 4 { // lives of another node
		other := newTestEngine(t, cfg)
		fill(other, fmt.Sprint("node", life))
		if err := e.Receipts().Load(other.Receipts().All(), false, 0); err != nil {
			t.Fatal(err)
		}
	}
	s := e.Stats()
	if s.OnceBytes > s.OnceBudget+1<<10 || s.OnceOthersBytes > 2*s.OnceBudget || s.OnceDropped == 0 || !s.OnceDropping || s.OnceRefused != 2 {
		t.Errorf("%+v", s)
	}
	if now = now.Add(keyspace.ReceiptSeconds * time.Second); ask(e, "one", "again") != nil {
		t.Error("after ten minutes it is still full")
	}
	if s := e.Stats(); s.OnceKeys != 1 || s.OnceBytes > each || s.OnceOthersBytes != 0 || s.OnceDropping {
		t.Errorf("after ten minutes: %+v", s)
	}
	// What is taken back after a restart is not the new life's own.
	restarted := newTestEngine(t, cfg)
	fill(e, "before")
	if err := restarted.Receipts().Load(e.Receipts().All(), false, 0); err != nil {
		t.Fatal(err)
	}
	if err := ask(restarted, "before", "new"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}
