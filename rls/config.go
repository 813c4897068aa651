package rls

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/rls/xds"
)

// Config is everything a Server can be told. The zero value of each field stands for its default.
type Config struct {
	// Addr is the TCP address to listen on, host:port; port 0 picks a free one. Default
	// 127.0.0.1:8081.
	Addr string
	// TLS of connections; nil: none.
	TLS *tls.Config

	// Limits is the file or folder with the configuration, as envoyproxy/ratelimit has it. It is read at the start,
	// again when it changes, and at Reload. Default "": the policies decide, by the key of each descriptor.
	Limits string
	// XDS is the management server that the limits come from, in place of Limits. Until it has answered, requests fail
	// as unavailable.
	XDS xds.Config
	// MergeDomains lets several files, or resources, have one domain.
	MergeDomains bool
	// Algorithm is how its limits are kept. Default Window.
	Algorithm admit.Algorithm
	// Headers says which header fields answers ask Envoy to add to responses: HeadersDraft, HeadersPlain or HeadersNone.
	// Default HeadersDraft.
	Headers string

	// Metadata has answers carry dynamic metadata for Envoy: the request, and the metadata of the limits that let it
	// pass. Default false.
	Metadata bool

	// MaxConns bounds open connections. One more takes the place of the one without a request for the longest
	// time, of the client address with most. Default 4096, 1 to 1,000,000.
	MaxConns int
	// IdleTimeout is how long a connection may be without a request. Default 1 h: Envoy keeps its
	// connections. 1 s to 24 h.
	IdleTimeout time.Duration
	// RequestTimeout bounds the time of TLS's handshake and the time to send a request of /json. Default 10 s,
	// 1 ms to 24 h.
	RequestTimeout time.Duration
	// DrainDelay is how long the server goes on before it begins to stop, with a health of NOT_SERVING. Default 0.
	DrainDelay time.Duration
	// StopTimeout bounds how long requests under way may take to finish after that; then their
	// connections are cut. Default 15 s, 1 ms to 24 h.
	StopTimeout time.Duration

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
}

// What Config.Headers may be.
const (
	HeadersDraft = "draft" // RateLimit-Policy, RateLimit and Retry-After, as the HTTP door writes them
	HeadersPlain = "plain" // RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, as envoyproxy/ratelimit can
	HeadersNone  = "none"
)

var headersWords = []string{HeadersDraft, HeadersPlain, HeadersNone}

const longestTimeout = 24 * time.Hour

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:8081")
	c.Headers = cmp.Or(c.Headers, HeadersDraft)
	c.MaxConns = cmp.Or(c.MaxConns, 4096)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, time.Hour)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 10*time.Second)
	c.StopTimeout = cmp.Or(c.StopTimeout, 15*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate returns a *weir.Error of CodeInvalidConfig that names the first field outside what
// it may be. New does the same, and reads Limits.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		return settings.Invalid("Addr", c.Addr+" is not an address: write host:port")
	}
	if c.XDS.Addr != "" {
		if c.Limits != "" {
			return settings.Invalid("XDS.Addr", "limits come from files or from a management server: give --rls-config or --rls-xds")
		}
		if err := c.XDS.Validate(); err != nil {
			return settings.Invalid("XDS.Addr", err.Error())
		}
	}
	if !slices.Contains(headersWords, c.Headers) {
		return settings.Invalid("Headers", fmt.Sprintf("%q: must be draft, plain or none", c.Headers))
	}
	if c.Algorithm > admit.GCRA {
		return settings.Invalid("Algorithm", fmt.Sprintf("%v: must be window, fixed or gcra", c.Algorithm))
	}
	if err := settings.CheckNumbers(
		settings.Number{Field: "MaxConns", Value: int64(c.MaxConns), Low: 1, High: 1_000_000},
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
