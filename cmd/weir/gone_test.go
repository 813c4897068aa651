package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// A server whose data directory was removed answers no durable hit, and ends with an error that
// says what to do.
func TestServeDataGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var log strings.Builder
	w := &cli.World{Stdout: io.Discard, Stderr: &log, Env: lookup(nil), Serving: func(server string) {
		if err := transporttest.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if code, _, stderr := weirOf(t, nil, "", "hit", "--durable", "a", "--server", server); code != exitFailure {
			t.Errorf("a durable hit: exit %d, %s", code, stderr)
		}
	}}
	code := run(context.WithoutCancel(t.Context()), w, []string{"serve", "--http", "127.0.0.1:0", "--data", dir})
	if code != exitFailure || !strings.Contains(log.String(), "weir restore FILE --data DIR") || strings.Contains(log.String(), "all hits are on disk") {
		t.Errorf("exit %d\n%s", code, log.String())
	}
}
