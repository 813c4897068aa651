package durable

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// Who asks after the end gets an error that says so, at once.
func TestSyncAfterClose(t *testing.T) {
	t.Parallel()
	run := start(t, testConfig(t, t.TempDir()))
	run.close()
	for range 2 {
		if err := run.j.Sync(t.Context()); !errors.Is(err, errClosing) {
			t.Errorf("got %v", err)
		}
	}
}

// Close on a full disk ends with its context, and says what is lost.
func TestCloseOnFullDisk(t *testing.T) {
	t.Parallel()
	if !inOwnProcess(t) {
		return
	}
	run := start(t, testConfig(t, t.TempDir()))
	fullDisk(t, 0)
	run.hit("a", 1_000_000, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := run.j.Close(ctx)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > transporttest.Patience {
		t.Errorf("took %v", took)
	}
}

// The receipts of one flush may be more than a message takes.
func TestManyReceipts(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	run := start(t, cfg)
	answer := bytes.Repeat([]byte("x"), 100_000)
	run.e.Receipts().Cut(func() { // keeps the flusher out
		for i := range 40 {
			key := string(rune('a' + i))
			go func() {
				_, _, _ = run.e.OnceFrom(t.Context(), "", key, 1, func() []byte { return answer })
			}()
		}
	})
	for len(run.e.Receipts().All()) < 40 {
		run.sync()
	}
	run.sync()
	run.crash()
	run = start(t, cfg)
	if n := len(run.e.Receipts().All()); n != 40 {
		t.Errorf("%d receipts", n)
	}
}
