package httpapi

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/settings"
)

// Config is what a Server needs to know of HTTP; the service.Config holds for all listeners. The zero value of each
// field stands for its default.
type Config struct {
	// Addr is the TCP address to listen on, host:port; port 0 picks a free one.
	// Default 127.0.0.1:8080.
	Addr string
	// TLS of connections; nil: none. It must not offer HTTP/2, for the bounds here are per connection.
	TLS *tls.Config

	// AllowHosts are names that clients reach this server by: a name, *.example.com, or * for all, which takes the
	// protection of browsers' users away. Requests for other names are refused. Always allowed are names that no
	// stranger can own: IP addresses, names without a dot, .localhost, .internal, this machine's name and the host of
	// Addr.
	AllowHosts []string
	// AllowOrigins are sites whose pages may ask this server from a browser,
	// scheme://host[:port]. Default none: only its own pages.
	AllowOrigins []string

	// MetricsKeys are prefixes of keys: those keys with most hits have series of their own among the
	// metrics, 1,000 at most in all. Default none; 16 prefixes of at most 512 bytes, none of them empty.
	MetricsKeys []string

	// MaxLineBytes bounds one line, or one element of a JSON array. A longer
	// one is rejected alone. Default 8 KiB, 1 KiB to 1 MiB.
	MaxLineBytes int
	// MaxConns bounds open connections. One more takes the place of the one that
	// waits longest for its client, of the client address with most. Default 4096,
	// 1 to 1,000,000.
	MaxConns int

	// ReadHeaderTimeout bounds the time a client takes to send a request's
	// header. Default 5 s.
	ReadHeaderTimeout time.Duration
	// ReadTimeout bounds the time a client takes to send a request, or to take an
	// answer. There is a second more for each MinRate bytes of a large one. Default 10 s.
	ReadTimeout time.Duration
	// MinRate is how fast a client must send large bodies, and take large answers and
	// backups, in bytes per second, after ReadTimeout. Default 64 KiB, 1 KiB to 1 GiB.
	MinRate int64
	// WriteTimeout bounds a request from its header to the end of its answer,
	// so it must be longer than ReadTimeout and the service's DurableTimeout together. What MinRate adds
	// for large bodies and answers comes on top.
	// Default 60 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a kept connection may wait for its next request.
	// Default 2 min.
	IdleTimeout time.Duration
	// DrainDelay is how long /readyz says 503 before the listener closes, for
	// load balancers that need to see it. Default 0: close at once.
	DrainDelay time.Duration
	// StopTimeout bounds how long requests in flight may take to finish after
	// that; then their connections are cut. Default 15 s.
	StopTimeout time.Duration

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
}

// maxHeaderBytes bounds a request's header. A question names up to MaxAnswers
// keys in its URL, hence more than a browser would need.
const maxHeaderBytes = 256 << 10

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:8080")
	c.MaxLineBytes = cmp.Or(c.MaxLineBytes, 8<<10)
	c.MinRate = cmp.Or(c.MinRate, 64<<10)
	c.MaxConns = cmp.Or(c.MaxConns, 4096)
	c.ReadHeaderTimeout = cmp.Or(c.ReadHeaderTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 60*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 2*time.Minute)
	c.StopTimeout = cmp.Or(c.StopTimeout, 15*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field
// outside what it may be, for a Server of a service with DurableTimeout durable. New does the
// same: this is for code that opens other things before it.
func (c Config) Validate(durable time.Duration) error {
	c = c.WithDefaults()
	if err := settings.CheckAddr(c.Addr); err != nil {
		return err
	}
	if err := c.origins().Validate(); err != nil {
		return err
	}
	if err := checkMetricsKeys(c.MetricsKeys); err != nil {
		return err
	}
	if err := settings.CheckNumbers(
		settings.Number{Field: "MaxLineBytes", Value: int64(c.MaxLineBytes), Low: 1 << 10, High: 1 << 20},
		settings.Number{Field: "MinRate", Value: c.MinRate, Low: 1 << 10, High: 1 << 30},
		settings.Number{Field: "MaxConns", Value: int64(c.MaxConns), Low: 1, High: 1_000_000},
	); err != nil {
		return err
	}
	return settings.CheckDurations(
		settings.Duration{Field: "ReadHeaderTimeout", Value: c.ReadHeaderTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
		settings.Duration{Field: "ReadTimeout", Value: c.ReadTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
		settings.Duration{Field: "WriteTimeout", Value: c.WriteTimeout, Low: c.ReadTimeout + durable + 1, High: settings.MaxTimeout},
		settings.Duration{Field: "IdleTimeout", Value: c.IdleTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
		settings.Duration{Field: "DrainDelay", Value: c.DrainDelay, Low: 0, High: settings.MaxTimeout},
		settings.Duration{Field: "StopTimeout", Value: c.StopTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
	)
}

// maxMetricsKeys is how many prefixes MetricsKeys has at most: keys are searched for each.
const maxMetricsKeys = 16

func checkMetricsKeys(prefixes []string) error {
	if len(prefixes) > maxMetricsKeys {
		return settings.Invalid("MetricsKeys", fmt.Sprintf("%d prefixes: %d at most", len(prefixes), maxMetricsKeys))
	}
	for _, prefix := range prefixes {
		if prefix == "" || len(prefix) > engine.MaxKeyBytes || !utf8.ValidString(prefix) {
			return settings.Invalid("MetricsKeys", fmt.Sprintf("%q is no beginning of keys: write 1 to %d bytes of UTF-8, such as url:", request.Clip(prefix), engine.MaxKeyBytes))
		}
	}
	return nil
}

func (c Config) origins() GuardConfig {
	return GuardConfig{Addr: c.Addr, Hosts: c.AllowHosts, Origins: c.AllowOrigins}
}
