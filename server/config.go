package server

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// Config is everything a Server can be told. The zero value of each field
// stands for its default.
type Config struct {
	// Addr is the TCP address to listen on, host:port; port 0 picks a free one.
	// Default 127.0.0.1:8080: there is no authentication yet, so a server is
	// opened to the network only on request.
	Addr string

	// AllowHosts are names that clients reach this server by, beside those that no
	// stranger can own (IP addresses, names without a dot, .localhost, .internal, this
	// machine's name and the host of Addr): a name, *.example.com, or * for all, which
	// takes the protection of browsers' users away. Requests for others are refused.
	AllowHosts []string
	// AllowOrigins are sites whose pages may ask this server from a browser,
	// scheme://host[:port]. Default none: only its own pages.
	AllowOrigins []string

	// MaxBodyBytes bounds one body of hits, before and after it is
	// decompressed. Default 16 MiB, 1 KiB to 1 GiB.
	MaxBodyBytes int64
	// MaxLineBytes bounds one line, or one element of a JSON array. A longer
	// one is rejected alone. Default 8 KiB, 1 KiB to 1 MiB.
	MaxLineBytes int
	// MaxBatch bounds the lines of one body; of one with more, none is counted (413).
	// Default 100,000, 1 to 10,000,000.
	MaxBatch int
	// MaxAnswers bounds keys times windows of one question. Default 1000,
	// 1 to 100,000.
	MaxAnswers int
	// MaxInFlight bounds the requests handled at the same time, at each door by
	// itself: bodies of hits that are counted, large ones that arrive, decisions, and
	// questions; those beyond it are answered 503 at once. /healthz, /readyz and
	// /metrics are not counted. Default 256, 1 to 100,000.
	MaxInFlight int
	// MaxDurable bounds the requests that wait for the disk at the same time. Those beyond
	// it are answered 503, and not counted. Default 1024, 1 to 100,000.
	MaxDurable int
	// MaxBufferedBytes bounds the memory of all large bodies of hits that are being
	// read: they are counted once they are whole. Bodies beyond
	// it are answered 503. Default 128 MiB, or twice MaxBodyBytes if that is
	// more; twice MaxBodyBytes to 1 TiB.
	MaxBufferedBytes int64
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
	// DurableTimeout bounds the time that the answer to a durable hit waits for
	// the disk. Default 10 s.
	DurableTimeout time.Duration
	// WriteTimeout bounds a request from its header to the end of its answer,
	// so it must be longer than ReadTimeout and DurableTimeout together. What MinRate adds
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

	// Opening is where this server is expected already. Default nil: it opens Addr
	// itself.
	Opening *Opening

	// Journal keeps the engine's hits on disk. Default nil: the server is
	// ephemeral.
	Journal Journal

	// Cluster is the nodes that count together with this one. Default nil: it is
	// alone.
	Cluster Cluster

	// Answers answers questions about keys. Default nil: the engine does, which holds
	// them all.
	Answers Answers
	// Route is called for each scrape, if Answers asks other nodes. Default nil: it
	// does not.
	Route func() RouteStats

	// Strict is called for each scrape, if nodes decide strict limits for each other.
	// Default nil: they do not.
	Strict func() StrictStats

	// Policies are the limits that POST /v1/allow asks. Default: none, so that only
	// requests that bring a limit along have one.
	Policies *policy.Live
	// PolicyFile is what is known of the file that Policies come from. Default nil:
	// they come from no file.
	PolicyFile *PolicyFile

	// MaxInlinePer is the longest period of a limit that a request brings along, and the
	// longest per * burst / n. Default 24 h, 1 ms to limit.MaxPer.
	MaxInlinePer time.Duration

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
	// Version is what /v1/stats and the OpenAPI document report. Default "dev".
	Version string
}

// maxHeaderBytes bounds a request's header. A question names up to MaxAnswers
// keys in its URL, hence more than a browser would need.
const maxHeaderBytes = 256 << 10

const maxTimeout = 24 * time.Hour

// DefaultConfig returns what the zero Config stands for, for flags to show.
func DefaultConfig() Config { return Config{}.withDefaults() }

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config { return c.withDefaults() }

func (c Config) withDefaults() Config {
	orDefault(&c.Addr, "127.0.0.1:8080")
	orDefault(&c.MaxBodyBytes, 16<<20)
	orDefault(&c.MaxLineBytes, 8<<10)
	orDefault(&c.MaxBatch, 100_000)
	orDefault(&c.MaxAnswers, 1000)
	orDefault(&c.MaxInFlight, 256)
	orDefault(&c.MaxDurable, 1024)
	orDefault(&c.MinRate, 64<<10)
	orDefault(&c.MaxBufferedBytes, max(128<<20, 2*c.MaxBodyBytes))
	orDefault(&c.MaxConns, 4096)
	orDefault(&c.ReadHeaderTimeout, 5*time.Second)
	orDefault(&c.ReadTimeout, 10*time.Second)
	orDefault(&c.DurableTimeout, 10*time.Second)
	orDefault(&c.WriteTimeout, 60*time.Second)
	orDefault(&c.IdleTimeout, 2*time.Minute)
	orDefault(&c.StopTimeout, 15*time.Second)
	orDefault(&c.MaxInlinePer, 24*time.Hour)
	orDefault(&c.Logger, slog.Default())
	orDefault(&c.Version, "dev")
	return c
}

// Validate returns a *weir.Error of CodeInvalidConfig that names the first field
// outside what it may be. New does the same: this is for code that opens other things
// before it.
func (c Config) Validate() error { return c.withDefaults().validate() }

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate returns a *weir.Error that names the first field outside what it
// may be.
func (c Config) validate() error {
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		return invalidConfig("Addr", fmt.Sprintf("%q is not an address: write host:port", c.Addr))
	}
	if err := c.validOrigins(); err != nil {
		return err
	}
	for _, f := range []struct {
		name             string
		value, low, high int64
	}{
		{"MaxBodyBytes", c.MaxBodyBytes, 1 << 10, 1 << 30},
		{"MaxLineBytes", int64(c.MaxLineBytes), 1 << 10, 1 << 20},
		{"MaxBatch", int64(c.MaxBatch), 1, 10_000_000},
		{"MaxAnswers", int64(c.MaxAnswers), 1, 100_000},
		{"MaxInFlight", int64(c.MaxInFlight), 1, 100_000},
		{"MaxDurable", int64(c.MaxDurable), 1, 100_000},
		{"MinRate", c.MinRate, 1 << 10, 1 << 30},
		{"MaxBufferedBytes", c.MaxBufferedBytes, 2 * c.MaxBodyBytes, 1 << 40},
		{"MaxConns", int64(c.MaxConns), 1, 1_000_000},
	} {
		if f.value < f.low || f.value > f.high {
			return invalidConfig(f.name, fmt.Sprintf("%s is %d: it must be %d to %d", f.name, f.value, f.low, f.high))
		}
	}
	if c.MaxInlinePer < time.Millisecond || c.MaxInlinePer > limit.MaxPer {
		return invalidConfig("MaxInlinePer", fmt.Sprintf("MaxInlinePer is %v: it must be 1ms to %s", c.MaxInlinePer, units.FormatDuration(limit.MaxPer)))
	}
	for _, f := range []struct {
		name       string
		value, low time.Duration
	}{
		{"ReadHeaderTimeout", c.ReadHeaderTimeout, time.Millisecond},
		{"ReadTimeout", c.ReadTimeout, time.Millisecond},
		{"DurableTimeout", c.DurableTimeout, time.Millisecond},
		{"WriteTimeout", c.WriteTimeout, c.ReadTimeout + c.DurableTimeout + 1},
		{"IdleTimeout", c.IdleTimeout, time.Millisecond},
		{"DrainDelay", c.DrainDelay, 0},
		{"StopTimeout", c.StopTimeout, time.Millisecond},
	} {
		if f.value < f.low || f.value > maxTimeout {
			return invalidConfig(f.name, fmt.Sprintf("%s is %v: it must be %v to %s",
				f.name, f.value, f.low, units.FormatDuration(maxTimeout)))
		}
	}
	return nil
}

func invalidConfig(field, message string) error {
	return &weir.Error{Code: weir.CodeInvalidConfig, Field: field, Message: message}
}
