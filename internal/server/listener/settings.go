package listener

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/weir-counter/weir/internal/settings"
)

// Settings are the settings of any listener. The zero value of each field stands for its default.
type Settings struct {
	// Addr is the TCP address to listen on, host:port; port 0 picks a free one. Default: the protocol's own port on 127.0.0.1.
	Addr string
	// TLS of connections; nil: none.
	TLS *tls.Config

	// MaxConns bounds open connections. One more takes the place of the one that waits longest for its client, of the client
	// address with most. Default 4096, 1 to 1,000,000.
	MaxConns int
	// IdleTimeout is how long a connection may wait for its next request. Default 1 h: clients
	// keep connections in pools. 1 s to 24 h.
	IdleTimeout time.Duration
	// RequestTimeout bounds the handshake of TLS, the time from the first byte of a request to its last, and the
	// time to send a reply. Default 10 s, 1 ms to 24 h.
	RequestTimeout time.Duration
	// DrainDelay is how long the server goes on before it begins to stop. Default 0, at most 24 h.
	DrainDelay time.Duration
	// StopTimeout bounds how long requests under way may take to finish after that; then their
	// connections are cut. Default 15 s, 1 ms to 24 h.
	StopTimeout time.Duration

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
}

// WithDefaults returns the Settings with the defaults that its zeros stand for. The default of Addr is addr.
func (s Settings) WithDefaults(addr string) Settings {
	s.Addr = cmp.Or(s.Addr, addr)
	s.MaxConns = cmp.Or(s.MaxConns, 4096)
	s.IdleTimeout = cmp.Or(s.IdleTimeout, time.Hour)
	s.RequestTimeout = cmp.Or(s.RequestTimeout, 10*time.Second)
	s.StopTimeout = cmp.Or(s.StopTimeout, 15*time.Second)
	s.Logger = cmp.Or(s.Logger, slog.Default())
	return s
}

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field outside what it may be. Defaults are in.
func (s *Settings) Validate() error {
	if err := settings.CheckAddr(s.Addr); err != nil {
		return err
	}
	if err := settings.CheckNumbers(settings.Number{Field: "MaxConns", Value: int64(s.MaxConns), Low: 1, High: 1_000_000}); err != nil {
		return err
	}
	const longest = 24 * time.Hour
	return settings.CheckDurations(
		settings.Duration{Field: "IdleTimeout", Value: s.IdleTimeout, Low: time.Second, High: longest},
		settings.Duration{Field: "RequestTimeout", Value: s.RequestTimeout, Low: time.Millisecond, High: longest},
		settings.Duration{Field: "DrainDelay", Value: s.DrainDelay, Low: 0, High: longest},
		settings.Duration{Field: "StopTimeout", Value: s.StopTimeout, Low: time.Millisecond, High: longest},
	)
}
