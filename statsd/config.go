package statsd

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/service"
)

// Config is everything a Server can be told. The zero value of each field stands for its default.
type Config struct {
	// Addr is the address to listen on by UDP and TCP, host:port; port 0 picks a free one. Default 127.0.0.1:8125.
	Addr string
	// Identity is the identity of the tokens file that all hits are of. "": none, on a server without tokens.
	Identity string
	// Key is the template of keys: text, {name}, {tag:NAME} for a tag's value or -, and {tags} for all tags in
	// order. Default {name}. It has {name}.
	Key string

	// MaxLineBytes bounds a line. Default 8 KiB, 64 B to 64 KiB.
	MaxLineBytes int
	// MaxConns bounds open connections of TCP. One more takes the place of the one that is silent longest, of
	// the address with most. Default 1024, 1 to 1,000,000.
	MaxConns int
	// ReadBuffer is the size of the kernel's buffer of datagrams that wait, in bytes. The kernel may have less
	// (net.core.rmem_max). Default 4 MiB, 4 KiB to 1 GiB.
	ReadBuffer int
	// IdleTimeout is how long a connection may be silent. Default 1 h, 1 s to 24 h.
	IdleTimeout time.Duration
	// Seed is of the random numbers that round sampled counters. 0: another one at each start.
	Seed uint64

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
}

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:8125")
	c.Key = cmp.Or(c.Key, "{name}")
	c.MaxLineBytes = cmp.Or(c.MaxLineBytes, 8<<10)
	c.MaxConns = cmp.Or(c.MaxConns, 1024)
	c.ReadBuffer = cmp.Or(c.ReadBuffer, 4<<20)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, time.Hour)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate returns a *weir.Error of CodeInvalidConfig that names the first field outside what it may be. New
// does the same.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		return settings.Invalid("Addr", c.Addr+" is not an address: write host:port")
	}
	if _, err := parseTemplate(c.Key); err != nil {
		return settings.Invalid("Key", "the template of keys "+err.Error())
	}
	if bad := service.CheckHitKey(c.Key); bad != nil && bad.Code == api.CodeReservedKey {
		return settings.Invalid("Key", fmt.Sprintf("the template of keys %q: no key begins with limit: but those that limits count, so no line would be counted: write another", c.Key))
	}
	if len(c.Key) > weir.MaxKeyBytes {
		return settings.Invalid("Key", "the template of keys is longer than a key may be")
	}
	if err := settings.CheckNumbers(
		settings.Number{Field: "MaxLineBytes", Value: int64(c.MaxLineBytes), Low: 64, High: maxDatagram},
		settings.Number{Field: "MaxConns", Value: int64(c.MaxConns), Low: 1, High: 1_000_000},
		settings.Number{Field: "ReadBuffer", Value: int64(c.ReadBuffer), Low: 4 << 10, High: 1 << 30},
	); err != nil {
		return err
	}
	return settings.CheckDurations(settings.Duration{Field: "IdleTimeout", Value: c.IdleTimeout, Low: time.Second, High: 24 * time.Hour})
}
