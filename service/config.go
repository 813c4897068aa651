package service

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/limit"
)

// Config is the ceilings and times of a Service, which hold for all its doors together.
// The zero value of each field stands for its default.
type Config struct {
	// MaxBodyBytes bounds one body of hits, before and after it is
	// decompressed. Default 16 MiB, 1 KiB to 1 GiB.
	MaxBodyBytes int64
	// MaxBatch bounds the lines of one body; of one with more, none is counted.
	// Default 100,000, 1 to 10,000,000.
	MaxBatch int
	// MaxAnswers bounds keys times windows of one question. Default 1000,
	// 1 to 100,000.
	MaxAnswers int
	// MaxInFlight bounds the requests handled at the same time, of each kind by
	// itself: bodies of hits that are counted, large ones that arrive, decisions, and
	// questions; those beyond it are refused at once as overloaded. Health and metrics
	// are not counted. Default 256, 1 to 100,000.
	MaxInFlight int
	// MaxDurable bounds the requests that wait for the disk at the same time. Those beyond
	// it are refused, and not counted. Default 1024, 1 to 100,000.
	MaxDurable int
	// MaxBufferedBytes bounds the memory of all large bodies of hits that are being
	// read: they are counted once they are whole. Bodies beyond
	// it are refused. Default 128 MiB, or twice MaxBodyBytes if that is
	// more; twice MaxBodyBytes to 1 TiB.
	MaxBufferedBytes int64

	// MaxInlinePer is the longest period of a limit that a request brings along, and the
	// longest per * burst / n. Default 24 h, 1 ms to limit.MaxPer.
	MaxInlinePer time.Duration
	// DurableTimeout bounds the time that the answer to a durable hit waits for
	// the disk. Default 10 s, 1 ms to 24 h.
	DurableTimeout time.Duration

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
	// Audit gets a record of each action of role admin: who, action, target, outcome, remote. Default Logger.
	Audit *slog.Logger
	// Version is what answers say of the program. Default "dev".
	Version string
}

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 16<<20)
	c.MaxBatch = cmp.Or(c.MaxBatch, 100_000)
	c.MaxAnswers = cmp.Or(c.MaxAnswers, 1000)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 256)
	c.MaxDurable = cmp.Or(c.MaxDurable, 1024)
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, max(128<<20, 2*c.MaxBodyBytes))
	c.MaxInlinePer = cmp.Or(c.MaxInlinePer, 24*time.Hour)
	c.DurableTimeout = cmp.Or(c.DurableTimeout, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Audit = cmp.Or(c.Audit, c.Logger)
	c.Version = cmp.Or(c.Version, "dev")
	return c
}

// Validate returns a *weir.Error of CodeInvalidConfig that names the first field
// outside what it may be. New does the same: this is for code that opens other things
// before it.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if err := settings.CheckNumbers(
		settings.Number{Field: "MaxBodyBytes", Value: c.MaxBodyBytes, Low: 1 << 10, High: 1 << 30},
		settings.Number{Field: "MaxBatch", Value: int64(c.MaxBatch), Low: 1, High: 10_000_000},
		settings.Number{Field: "MaxAnswers", Value: int64(c.MaxAnswers), Low: 1, High: 100_000},
		settings.Number{Field: "MaxInFlight", Value: int64(c.MaxInFlight), Low: 1, High: 100_000},
		settings.Number{Field: "MaxDurable", Value: int64(c.MaxDurable), Low: 1, High: 100_000},
		settings.Number{Field: "MaxBufferedBytes", Value: c.MaxBufferedBytes, Low: 2 * c.MaxBodyBytes, High: 1 << 40},
	); err != nil {
		return err
	}
	return settings.CheckDurations(
		settings.Duration{Field: "MaxInlinePer", Value: c.MaxInlinePer, Low: time.Millisecond, High: limit.MaxPer},
		settings.Duration{Field: "DurableTimeout", Value: c.DurableTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
	)
}
