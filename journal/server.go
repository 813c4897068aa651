package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/cluster/join/ondisk"
	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/stream"
)

const (
	readyTimeout = 30 * time.Second // of a server that is alone
	askTimeout   = 10 * time.Second // of one request to the server

	// clusterAskTimeout is that of a flush among other nodes: a leader that was
	// lost never answers, and the next is there within seconds. A flush that is
	// there twice is dropped by its number.
	clusterAskTimeout = 2 * time.Second
)

// startServer joins, or starts the server of one node alone, and waits until
// JetStream answers: in a cluster for as long as ctx allows.
func startServer(ctx context.Context, cfg Config) (*join.Node, error) {
	as := cfg.Join
	as.Dir, as.MaxBytes, as.Logger = filepath.Join(cfg.Dir, datadir.ServerDir), cfg.MaxBytes+cfg.OtherBytes, cfg.Logger
	as.Unbroken, as.Unchecked = stream.FlushStream, cfg.AcceptDamage
	if !cfg.clustered() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readyTimeout)
		defer cancel()
	}
	server, err := join.Open(ctx, as)
	if errors.Is(err, ondisk.ErrSequence) {
		return nil, fmt.Errorf("%w: %w: nothing was changed; restore a backup of it, or start with another directory", record.ErrDamaged, err)
	}
	return server, err
}

// identityOf is what the streams of a directory must say.
func identityOf(m datadir.Manifest) stream.Identity {
	return stream.Identity{Journal: m.Journal, Partitions: m.Partitions, RetentionS: m.RetentionS}
}
