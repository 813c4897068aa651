package journal

import (
	"context"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/journal/join"
)

const (
	readyTimeout = 30 * time.Second // of a server that is alone
	askTimeout   = 10 * time.Second // of one request to the server
)

// startServer joins, or starts the server of one node alone, and waits until
// JetStream answers: in a cluster for as long as ctx allows.
func startServer(ctx context.Context, cfg Config) (*join.Node, error) {
	as := cfg.Join
	as.Dir, as.MaxBytes, as.Logger = filepath.Join(cfg.Dir, serverDir), cfg.MaxBytes, cfg.Logger
	if !cfg.clustered() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readyTimeout)
		defer cancel()
	}
	return join.Open(ctx, as)
}
