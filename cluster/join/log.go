package join

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// serverLog passes the server's messages on. A fatal one does not end the
// process: Open returns it.
type serverLog struct {
	logger *slog.Logger
	fatal  atomic.Pointer[string] // the first one
	// Of connections: whoever reaches the cluster port makes a line with each.
	throttle throttle
}

func (l *serverLog) Noticef(format string, v ...any) { l.log(slog.LevelDebug, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log(slog.LevelWarn, format, v) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log(slog.LevelError, format, v) }

func (l *serverLog) Fatalf(format string, v ...any) {
	message := strings.TrimSpace(fmt.Sprintf(format, v...))
	l.fatal.CompareAndSwap(nil, &message)
	l.log(slog.LevelError, format, v)
}

func (l *serverLog) log(level slog.Level, format string, v []any) {
	if !l.logger.Enabled(context.Background(), level) {
		return
	}
	message := strings.TrimSpace(fmt.Sprintf(format, v...))
	var attrs []any
	if level >= slog.LevelWarn {
		unsaid, ok := l.throttle.pass(message, time.Now())
		if !ok {
			return
		}
		if unsaid > 0 {
			attrs = []any{"more_like_it_since", unsaid}
		}
	}
	l.logger.Log(context.Background(), level, "embedded NATS: "+message, attrs...)
}
