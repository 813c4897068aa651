package resp

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/resp/protocol"
)

// Config is everything a Server can be told. The zero value of each field stands for its
// default.
type Config struct {
	// Addr is the TCP address to listen on, host:port; port 0 picks a free one. Default
	// 127.0.0.1:6379.
	Addr string
	// TLS of connections; nil: none.
	TLS *tls.Config
	// MaxConns bounds open connections. One more takes the place of the one that
	// waits longest for its client, of the client address with most. Default 4096,
	// 1 to 1,000,000.
	MaxConns int
	// CounterMemory bounds the memory of counters that expire (INCR, SET). Default 64 MiB,
	// 64 KiB to 1 TiB.
	CounterMemory int64

	// IdleTimeout is how long a connection may wait for its next request. Default 1 h: clients
	// keep connections in pools. 1 s to 24 h.
	IdleTimeout time.Duration
	// RequestTimeout bounds the time from the first byte of a request to its last, and the
	// time that replies wait to be taken. Default 10 s, 1 ms to 24 h.
	RequestTimeout time.Duration
	// DrainDelay is how long the server goes on before it begins to stop. Default 0.
	DrainDelay time.Duration
	// StopTimeout bounds how long requests under way may take to finish after that; then their
	// connections are cut. Default 15 s, 1 ms to 24 h.
	StopTimeout time.Duration

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
}

const longestTimeout = 24 * time.Hour

// limits bound what one client may send.
var limits = protocol.Limits{Buffer: 8 << 10, Request: 1 << 20, Args: 1 << 16, Bulk: 64 << 10, Inline: 8 << 10}

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:6379")
	c.MaxConns = cmp.Or(c.MaxConns, 4096)
	c.CounterMemory = cmp.Or(c.CounterMemory, 64<<20)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, time.Hour)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 10*time.Second)
	c.StopTimeout = cmp.Or(c.StopTimeout, 15*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate returns a *weir.Error of CodeInvalidConfig that names the first field outside what
// it may be. New does the same.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		return settings.Invalid("Addr", c.Addr+" is not an address: write host:port")
	}
	if err := settings.CheckNumbers(
		settings.Number{Field: "MaxConns", Value: int64(c.MaxConns), Low: 1, High: 1_000_000},
		settings.Number{Field: "CounterMemory", Value: c.CounterMemory, Low: 64 << 10, High: 1 << 40},
	); err != nil {
		return err
	}
	return settings.CheckDurations(
		settings.Duration{Field: "IdleTimeout", Value: c.IdleTimeout, Low: time.Second, High: longestTimeout},
		settings.Duration{Field: "RequestTimeout", Value: c.RequestTimeout, Low: time.Millisecond, High: longestTimeout},
		settings.Duration{Field: "DrainDelay", Value: c.DrainDelay, Low: 0, High: longestTimeout},
		settings.Duration{Field: "StopTimeout", Value: c.StopTimeout, Low: time.Millisecond, High: longestTimeout},
	)
}
