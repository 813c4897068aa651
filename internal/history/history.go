// Package history keeps exact totals of keys for years: per slot of an hour, and per day, in a SQL
// database. It puts its rooms together: store (the tables), writer (follows the journal), read
// (answers), calendar (days of a time zone). docs/history.md says what users see.
//
// Invariant: nothing of it slows hits. What it lacks is said: AsOf in every answer, and no upper
// bound where hits may be missing.
package history

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/units"
)

// Config sets up a History. Zeros mean the defaults.
type Config struct {
	// URL is the database: sqlite:FILE, postgres://user:password@host/database or
	// mysql://user:password@host/database. "": the file history.db in the data directory.
	URL string
	// Keep is for how long hours and days are kept, by prefix of the keys. nil: DefaultKeep.
	Keep []store.Keep
	// MaxBytes bounds a file of SQLite: beyond it the oldest hours are deleted early. 0: no bound.
	MaxBytes int64
	// Slot is how wide the slots of a new history are: 15 min, 30 min, 1 h. It stays what it
	// was when the history was begun. 0: 1 h.
	Slot time.Duration
	// Every is how often hits are written, 100 ms to 1 min. 0: 5 s.
	Every time.Duration
	// Hurry asks the nodes that may write the same database to Kick. nil: there are none.
	Hurry func()
}

// File is the name of the file in a data directory.
const File = "history.db"

// DefaultKeep is for how long hours and days are kept where nothing else is said.
func DefaultKeep() []store.Keep {
	return []store.Keep{{Slots: 400 * 24 * time.Hour, Days: 3653 * 24 * time.Hour}}
}

// WithDefaults returns the Config with the defaults that its zeros stand for, for a data
// directory.
func (c Config) WithDefaults(dir string) Config {
	if c.URL == "" {
		c.URL = "sqlite:" + filepath.Join(dir, File)
	}
	if c.Keep == nil {
		c.Keep = DefaultKeep()
	}
	c.Slot = cmp.Or(c.Slot, time.Hour)
	c.Every = cmp.Or(c.Every, 5*time.Second)
	return c
}

// Validate says which setting is wrong.
func (c Config) Validate() (field string, err error) {
	s, err := store.Open(store.Config{URL: cmp.Or(c.URL, "sqlite:"+File)})
	if err != nil {
		return "URL", err
	}
	if err := s.Close(); err != nil {
		return "URL", err
	}
	switch {
	case c.Slot != 0 && c.Slot != 15*time.Minute && c.Slot != 30*time.Minute && c.Slot != time.Hour:
		return "Slot", fmt.Errorf("Slot of %v: must be 15m, 30m or 1h", c.Slot)
	case c.Every != 0 && (c.Every < 100*time.Millisecond || c.Every > time.Minute):
		return "Every", fmt.Errorf("Every of %v: must be 100ms to 1m", c.Every)
	case c.MaxBytes != 0 && c.MaxBytes < minMaxBytes:
		return "MaxBytes", fmt.Errorf("MaxBytes of %s: must be at least %s", units.FormatSize(c.MaxBytes), units.FormatSize(minMaxBytes))
	}
	return "", nil
}

// minMaxBytes is the least Config.MaxBytes: the tables, and some rows.
const minMaxBytes = 1 << 20

// History is a history that is written and read. It is safe for many goroutines.
type History struct {
	cfg     Config
	journal WriterJournal
	store   *store.Store
	writer  *Writer

	running sync.WaitGroup
	end     context.CancelFunc
}

// closing bounds the last batch of Close, and opening how long is waited for the tables: on a busy disk it takes
// some ten seconds to make them.
const closing, opening = 3 * time.Second, 30 * time.Second

// Open begins to write the history of a journal, of which the node is called holder. It does not
// wait for the database, which may be away. retention is the engine's.
func Open(cfg Config, dir string, j WriterJournal, holder string, retention time.Duration, log *slog.Logger) (*History, error) {
	cfg = cfg.WithDefaults(dir)
	s, err := store.Open(store.Config{URL: cfg.URL, MaxBytes: cfg.MaxBytes})
	if err != nil {
		return nil, err
	}
	h := &History{cfg: cfg, journal: j, store: s}
	h.writer = NewWriter(WriterConfig{
		Store: s, Journal: j, Holder: holder, Every: cfg.Every, Slot: cfg.Slot, Retention: retention, Keep: cfg.Keep, Hurry: cfg.Hurry, Logger: log,
	})
	run, end := context.WithCancel(context.Background())
	h.end = end
	h.running.Go(func() { h.writer.Run(run, closing) })
	return h, nil
}

// Close writes what the journal has, for at most some seconds, and closes the database.
func (h *History) Close() error {
	h.end()
	h.running.Wait()
	return h.store.Close()
}

// Where is the database, without a password.
func (h *History) Where() string { return h.store.String() }

// Needed is the first message of the journal that is not written yet.
func (h *History) Needed() uint64 { return h.writer.Needed() }

// Status is how far the history is.
func (h *History) Status() WriterStatus { return h.writer.Status() }

// FileSize is how many bytes a file of SQLite has, without its log, and how many it may have
// (0: no bound). Both are 0 of other databases.
func (h *History) FileSize() (is, most int64) {
	if h.store.Kind() != "sqlite" {
		return 0, 0
	}
	return h.store.FileSize(), h.cfg.MaxBytes
}

// Await returns once the history has the journal up to a message.
func (h *History) Await(ctx context.Context, message uint64) error {
	return h.writer.Await(ctx, message)
}

// Kick has what the journal has by now written at once, if this node writes.
func (h *History) Kick() { h.writer.Kick() }

// Keeps tells whether the history keeps the day of a second, Unix, of a key.
func (h *History) Keeps(key string, second int64) bool {
	return Keeps(key, second, h.cfg.Keep, time.Now())
}

// Totals are the hits of a key in the spans between bounds, Unix seconds in order, of all hits that
// were taken until asOf.
func (h *History) Totals(ctx context.Context, key string, bounds []int64) (totals []Total, asOf time.Time, err error) {
	asOf, err = h.view(ctx, func(v *store.View) (err error) {
		totals, err = Totals(ctx, v, key, bounds, h.cfg.Keep, time.Now())
		return err
	})
	return totals, asOf, err
}

// Top are the n keys that begin with prefix which have the most hits in [from, to), Unix seconds, of all hits that were taken until asOf.
func (h *History) Top(ctx context.Context, prefix string, from, to int64, n int) (top []KeyTotal, asOf time.Time, err error) {
	h.awaitTables(ctx)
	asOf, err = h.view(ctx, func(v *store.View) (err error) {
		top, err = Top(ctx, v, Ranking{Prefix: prefix, From: from, To: to, N: n}, h.cfg.Keep, time.Now())
		return err
	})
	return top, asOf, err
}

// view calls f with what is in the database at one moment: of all hits that were taken until asOf.
func (h *History) view(ctx context.Context, f func(v *store.View) error) (asOf time.Time, err error) {
	is := h.writer.Status()
	err = h.store.View(ctx, func(v *store.View) error {
		own := v.Of(h.journal.ID())
		asOf = own.AsOf
		if is.Known && own.Message >= is.Message && is.AsOf.After(asOf) { // nothing came since
			asOf = is.AsOf
		}
		return f(v)
	})
	return asOf, err
}

// Forget deletes the history of keys, and tells whether there was any.
func (h *History) Forget(ctx context.Context, keys ...string) (bool, error) {
	return h.store.Forget(ctx, keys...)
}

// Export calls f with the sums of keys in days, or slots, of a time that is rounded to whole days of
// UTC. An error of f ends it.
func (h *History) Export(ctx context.Context, prefix string, from, to time.Time, days bool, f func(key string, start int64, n, doubt uint64) error) error {
	h.awaitTables(ctx)
	of := store.Selection{Prefix: prefix, From: from.Unix() / store.DaySeconds, To: (to.Unix() + store.DaySeconds - 1) / store.DaySeconds, Days: days}
	return h.store.View(ctx, func(v *store.View) error {
		return v.Export(ctx, of, func(r store.Row) error { return f(r.Key, r.Slot, r.N, r.Doubt) })
	})
}

// awaitTables waits for the tables of a history that was opened a moment ago. Where they can't be made, or not
// now, the database says what is wrong.
func (h *History) awaitTables(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, opening)
	defer cancel()
	h.writer.AwaitOpen(ctx)
}

// Keys are the first keys that begin with prefix, which is not empty, and sort after another.
func (h *History) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	h.awaitTables(ctx)
	return h.store.Keys(ctx, prefix, after, limit)
}
