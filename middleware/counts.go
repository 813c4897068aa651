package middleware

import (
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// Stats are what became of the requests since New. Each is in one of the numbers.
type Stats struct {
	Allowed       uint64 // decided, and went on
	Denied        uint64 // decided, and answered by Config.Denied
	Skipped       uint64 // went on without a limit: by Skip, a cost of 0, or no optional key
	FailedOpen    uint64 // not decided, and went on by FailOpen
	Refused       uint64 // not decided, and answered by Config.Refused
	Misconfigured uint64 // the same, because of ErrMisconfigured
	Gone          uint64 // the client went away, or a deadline of the request passed, before a decision
}

type counts struct {
	allowed, denied, skipped, failedOpen, refused, misconfigured, gone atomic.Uint64
}

// Stats returns what became of the requests.
func (m *Middleware) Stats() Stats {
	c := &m.counts
	return Stats{
		Allowed: c.allowed.Load(), Denied: c.denied.Load(), Skipped: c.skipped.Load(),
		FailedOpen: c.failedOpen.Load(), Refused: c.refused.Load(), Misconfigured: c.misconfigured.Load(), Gone: c.gone.Load(),
	}
}

// warnEvery is the pause between two warnings: a Weir that is away must not fill a log.
const warnEvery = 10 * time.Second

// warner is the OnError of a limiter that was given none. Requests without limits must not go unseen.
type warner struct {
	last atomic.Pointer[time.Time]
	more atomic.Uint64 // errors since, that were not told
}

func (w *warner) warn(r *http.Request, err error) {
	now, last := time.Now(), w.last.Load()
	if last != nil && now.Sub(*last) < warnEvery || !w.last.CompareAndSwap(last, &now) {
		w.more.Add(1)
		return
	}
	level, message := slog.LevelWarn, "weir: a request was not decided"
	if errors.Is(err, ErrMisconfigured) {
		level, message = slog.LevelError, "weir: requests are refused: a rule names a limit that the server does not have"
	}
	slog.Log(r.Context(), level, message, "error", err, "more_since_the_last_warning", w.more.Swap(0))
}
