package service_test

import (
	"context"
	"log/slog"
)

// notes is a log that tells a channel of its messages.
type notes struct {
	slog.Handler
	to chan<- string
}

func (notes) Enabled(context.Context, slog.Level) bool { return true }

func (n notes) Handle(_ context.Context, r slog.Record) error {
	select {
	case n.to <- r.Message:
	default: // nobody looks any more
	}
	return nil
}
