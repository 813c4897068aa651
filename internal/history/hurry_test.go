package history_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/history"
)

// Who waits at a node that does not write the database has the node that does write at once: not after its interval.
func TestAwaitAtANodeThatDoesNotWrite(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	s := openStore(t, filepath.Join(t.TempDir(), "history.db"))
	begin := func(holder string, hurry func()) *history.Writer {
		w := history.NewWriter(history.WriterConfig{Store: s, Journal: j, Holder: holder, Every: time.Hour, Retention: retention, Hurry: hurry})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx, 0)
		}()
		t.Cleanup(func() { cancel(); <-ended })
		return w
	}
	j.hit(t, "a", 1_700_000_000, 1)
	j.flush(false)
	writer := begin("n1", nil)
	await(t, writer, j)
	other := begin("n2", writer.Kick)
	for range 3 {
		j.hit(t, "a", 1_700_000_000, 1)
		j.flush(false)
		await(t, other, j)
	}
}
