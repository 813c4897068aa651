package offline

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/stream"
)

// directory is one whose streams are read, by a server of a node alone.
type directory struct {
	server *join.Node
	store  *stream.Store // nil: streams are missing
}

// readyTimeout bounds the start of the server.
const readyTimeout = 30 * time.Second

// open starts a server on the files of a directory. Without all streams the directory has no store,
// and missing says which.
func open(ctx context.Context, dir string, m datadir.Manifest, log *slog.Logger) (d *directory, missing []record.Finding, err error) {
	starting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	server, err := join.Open(starting, join.Config{Dir: filepath.Join(dir, datadir.ServerDir), MaxBytes: backup.Unbounded, Logger: log, Unbroken: stream.FlushStream})
	if err != nil {
		return nil, nil, err
	}
	store, missing, err := stream.Open(ctx, server.JetStream(), stream.Identity{Journal: m.Journal, Partitions: m.Partitions, RetentionS: m.RetentionS}, server.Replicas, false)
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return &directory{server, store}, missing, nil
}

func (d *directory) close() { d.server.Close() }
