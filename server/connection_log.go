package server

import (
	"bytes"
	"context"
	"log/slog"
)

// connectionLog takes what net/http has to say of connections. Of those that do not begin with
// TLS as they should, any stranger can make as many as they like: they are for debugging.
type connectionLog struct{ to *slog.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.to.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}
