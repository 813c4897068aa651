package node

import (
	"context"
	"log/slog"

	weir "github.com/weir-counter/weir"
)

// ephemeral keeps hits in memory only.
type ephemeral struct{ log *slog.Logger }

func (m ephemeral) open(context.Context, *weir.Engine, *sockets, *parts) error {
	m.log.Warn("ephemeral: hits are kept in memory only, and are gone when this process ends")
	return nil
}

func (ephemeral) failed() <-chan struct{} { return nil }

func (ephemeral) err() error { return nil }
