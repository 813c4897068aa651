package region

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/region/digest"
)

// Config sets up a Region. Name must be given; zeros mean the defaults.
type Config struct {
	// Name is this region's: 1 to 64 letters, digits, '-', '_' and '.', the same on all its nodes, and no other region's.
	Name string

	// Links are the regions that this one pulls from. The same on all nodes of a region. At most 1000.
	Links []Link

	// Alone says that no other node shares the journal.
	Alone bool

	// Keys are prefixes of the keys that this region tells the others, 1 to 512 bytes each, at most 16; what limits count of themselves
	// it tells in any case. None: all keys. The same on all nodes of a region; others begin a new epoch of its digests.
	Keys digest.Keys

	// Every is the time between digests, 100 ms to 1 min, whole ms. 0: 1 s.
	Every time.Duration

	// Memory is the budget of the windows of each other region, in bytes. 0: 256 MiB.
	Memory int64

	// LogBytes is about what the log of digests takes of the disk, beside the journal's room. At least 64 MiB. 0: 2 GiB.
	LogBytes int64

	// Transport reaches other regions; nil: none can be reached.
	Transport http.RoundTripper

	// Others is told how many other regions have windows here, each with its budget, when that changes. nil: nobody is.
	Others func(regions int)

	// Logger takes messages. nil: none.
	Logger *slog.Logger
}

// Link is a region that this one pulls digests from.
type Link struct {
	Region string
	URL    string                 // of any door of the region: http[s]://host:port, without a path
	Token  func() (string, error) // for each connection; nil: none
}

const (
	defaultEvery    = time.Second
	defaultMemory   = 256 << 20
	defaultLogBytes = 2 << 30
	minLogBytes     = 64 << 20
	maxLinks        = 1000
)

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (cfg Config) WithDefaults() Config {
	if cfg.Every == 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Memory == 0 {
		cfg.Memory = defaultMemory
	}
	if cfg.LogBytes == 0 {
		cfg.LogBytes = defaultLogBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// Validate returns a *weir.Error of CodeInvalidConfig that names the first field outside what it may be. engine
// is the configuration of the engine whose hits the region counts.
func (cfg Config) Validate(engine weir.Config) error {
	cfg = cfg.WithDefaults()
	if err := digest.CheckName(cfg.Name); err != nil {
		return settings.Invalid("Name", err.Error())
	}
	if len(cfg.Links) > maxLinks {
		return settings.Invalid("Links", fmt.Sprintf("%d links: at most %d", len(cfg.Links), maxLinks))
	}
	names := map[string]bool{}
	for _, l := range cfg.Links {
		switch err := digest.CheckName(l.Region); {
		case err != nil:
			return settings.Invalid("Links", err.Error())
		case l.Region == cfg.Name:
			return settings.Invalid("Links", fmt.Sprintf("a link to %s, which is this region: leave it out", l.Region))
		case names[l.Region]:
			return settings.Invalid("Links", fmt.Sprintf("two links to region %s: give one, to an address that reaches any of its nodes", l.Region))
		}
		names[l.Region] = true
	}
	if len(cfg.Keys) > digest.MaxKeys {
		return settings.Invalid("Keys", fmt.Sprintf("%d prefixes of keys: at most %d", len(cfg.Keys), digest.MaxKeys))
	}
	for _, prefix := range cfg.Keys {
		if prefix == "" || len(prefix) > weir.MaxKeyBytes || strings.Contains(prefix, weir.AllKeys) {
			return settings.Invalid("Keys", fmt.Sprintf("%q: write how keys begin that other regions are to know, 1 to %d bytes without %s, for example api:", prefix, weir.MaxKeyBytes, weir.AllKeys))
		}
	}
	if err := settings.CheckDurations(settings.Duration{Field: "Every", Value: cfg.Every, Low: 100 * time.Millisecond, High: time.Minute}); err != nil {
		return err
	}
	if cfg.Every%time.Millisecond != 0 {
		return settings.Invalid("Every", fmt.Sprintf("Every of %v: whole milliseconds", cfg.Every))
	}
	if err := settings.CheckNumbers(settings.Number{Field: "LogBytes", Value: cfg.LogBytes, Low: minLogBytes, High: 1 << 50}); err != nil {
		return err
	}
	engine.Memory = cfg.Memory
	if err := engine.Validate(); err != nil {
		return settings.Invalid("Memory", err.Error())
	}
	return nil
}
