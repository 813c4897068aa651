// Package history keeps exact totals of keys for years, per slot of an hour and per day, in a SQL database. A Writer follows the
// journal, read.go answers, package store has the tables, and package calendar the days of time zones. docs/history.md says what
// users see.
//
// Invariant: history never slows hits. An answer says what it lacks: AsOf, and no upper bound where hits may be missing.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
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
	// Peers are the other nodes of a cluster. nil: there are none.
	Peers Peers
	// NodeOf returns the name of the node of an origin, "" if it is not known. nil: of none.
	NodeOf func(origin string) string
	// Sync has what is in memory written to the journal. Await calls it.
	Sync func(ctx context.Context) error
}

// File is the name of the file in a data directory.
const File = checkpoint.HistoryFile

// DefaultKeep is for how long hours and days are kept where nothing else is said.
func DefaultKeep() []store.Keep {
	return []store.Keep{{Slots: 400 * 24 * time.Hour, Days: 3653 * 24 * time.Hour}}
}

// WithDefaults returns the Config for a data directory with defaults in place of zeros.
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

// Validate returns which setting is wrong, and why.
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
	peers   *peers // nil: there are no other nodes

	running sync.WaitGroup
	end     context.CancelFunc
}

// closing bounds the last batch of Close, and opening the wait for the tables: on a busy disk it takes some ten seconds to make
// them.
const closing, opening = 3 * time.Second, 30 * time.Second

// Open begins to write the history of a journal, of which the node is called holder. It does not wait for the database, which may be
// away. retention is the engine's.
func Open(cfg Config, dir string, j WriterJournal, holder string, retention time.Duration, log *slog.Logger) (*History, error) {
	cfg = cfg.WithDefaults(dir)
	for _, keep := range slices.Clip(cfg.Keep) { // what sampling added is kept as long as the hits
		keep.Prefix = engine.SampledPrefix + keep.Prefix
		cfg.Keep = append(cfg.Keep, keep)
	}
	s, err := store.Open(store.Config{URL: cfg.URL, MaxBytes: cfg.MaxBytes})
	if err != nil {
		return nil, err
	}
	h := &History{cfg: cfg, journal: j, store: s}
	writer := WriterConfig{Store: s, Journal: j, Holder: holder, Every: cfg.Every, Slot: cfg.Slot, Retention: retention, Keep: cfg.Keep, Logger: log}
	if cfg.Peers != nil {
		writer.Hurry = h.hurry
	}
	h.writer = NewWriter(writer)
	if err := h.join(holder); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	run, end := context.WithCancel(context.Background())
	h.end = end
	h.running.Go(func() { h.writer.Run(run, closing) })
	if h.peers != nil {
		h.running.Go(func() { h.peers.run(run) })
	}
	return h, nil
}

// join makes this history known to the other nodes.
func (h *History) join(origin string) (err error) {
	if h.cfg.Peers == nil {
		return nil
	}
	if err := h.cfg.Peers.Serve(hurrySubject, func([]byte) []byte {
		h.writer.Kick()
		return nil
	}); err != nil {
		return err
	}
	h.peers, err = openPeers(h, h.cfg.Peers, origin, h.writer.cfg.Logger)
	return err
}

// hurry asks the nodes that may write the same database to write what the journal has. If the message is lost, history is late.
func (h *History) hurry() {
	if err := h.cfg.Peers.Publish(hurrySubject, nil); err != nil {
		h.writer.cfg.Logger.Debug("history: could not ask the other nodes to write it", "error", err)
	}
}

// Close writes what the journal has, for at most some seconds, and closes the database.
func (h *History) Close() error {
	h.end()
	h.running.Wait()
	return h.store.Close()
}

// Where is the database, without a password.
func (h *History) Where() string { return h.store.String() }

// Needed returns the first message of the journal that the history of some node needs; 0: there is none. With haste it is the first
// one with hits older than the retention, because nothing but the journal has these. They were taken until past, Unix ms; 0: never.
func (h *History) Needed(haste bool, past int64) uint64 {
	now := time.Now()
	if h.peers != nil {
		return h.peers.needed([]peerState{h.peers.own(now)}, haste, past, now)
	}
	return neededOf([]peerState{h.state(now)}, haste, past, now)
}

// state is how far the history is. A node without others keeps no requests in the journal.
func (h *History) state(now time.Time) peerState {
	is := h.Status()
	s := peerState{needed: is.Message + 1, kept: is.Message + 1, seen: now, stuck: is.Err != nil && now.Sub(is.Since) > absentFor}
	if is.Known && is.AsOf.UnixMilli() > 0 {
		s.asOf = is.AsOf.UnixMilli()
	}
	return s
}

// Status is how far the history is.
func (h *History) Status() WriterStatus { return h.writer.Status() }

// Stats are the figures of a history.
type Stats struct {
	Lag        *float64 `metric:"weir_history_lag_seconds" doc:"Seconds since when hits may be missing in history. Absent on a node that does not write history while another does."`
	Unread     *uint64  `metric:"weir_history_unread_messages" doc:"Journal messages that are not in history yet."`
	Writes     bool     `metric:"weir_history_writer" doc:"1 on the node that writes history. Of the nodes with one database, only one writes."`
	Failing    bool     `metric:"weir_history_failing" doc:"1 while history can't be written. Hits are counted, and added to history later."`
	Gaps       int      `metric:"weir_history_gaps" doc:"Times whose hits may be missing (weir_gaps). No answer about them is exact."`
	Rows       uint64   `metric:"weir_history_rows_total" doc:"Rows of hours that this node inserted or changed, and rows of days from snapshots."`
	Failures   uint64   `metric:"weir_history_failures_total" doc:"Failed attempts to write history; each is retried."`
	FileBytes  int64    `metric:"weir_history_file_bytes" doc:"Size of the SQLite file without its log; 0 with other databases."`
	FileBudget int64    `metric:"weir_history_file_budget_bytes" doc:"Size at which the oldest hours are deleted from the file (--history-disk); 0: no bound or no file."`
}

// Stats returns the figures.
func (h *History) Stats() Stats {
	last, _ := h.journal.Written()
	st := h.Status().stats(last, time.Now())
	if h.store.Kind() == "sqlite" {
		st.FileBytes, st.FileBudget = h.store.FileSize(), h.cfg.MaxBytes
	}
	return st
}

// stats are the figures where the journal has messages up to the last. A node that does not write knows only how far
// history was when rows were last written.
func (is WriterStatus) stats(last uint64, now time.Time) Stats {
	st := Stats{Writes: is.Writes, Failing: is.Err != nil, Gaps: is.Gaps, Rows: is.Rows, Failures: is.Failures}
	if is.Known && (st.Writes || st.Failing) {
		lag, unread := max(now.Sub(is.AsOf).Seconds(), 0), max(last, is.Message)-is.Message
		st.Lag, st.Unread = &lag, &unread
	}
	return st
}

// lateAfter is how late history may be before that is an alarm: a restart of a database is none.
const lateAfter = time.Minute

// Alarms are what is wrong now. It does not wait.
func (h *History) Alarms() (list []api.Alarm) {
	is := h.Status()
	if is.Err != nil && time.Since(is.Since) > lateAfter {
		list = append(list, api.Alarm{Code: "history_late", Message: fmt.Sprintf(
			"history does not go on since %s (%v): hits are counted, and come into it when %s can be written again", is.Since.UTC().Format(time.RFC3339), is.Err, h.Where())})
	}
	if h.peers != nil {
		list = append(list, h.peers.alarms()...)
	}
	if is.Full {
		list = append(list, api.Alarm{Code: "history_full", Message: "the history file has reached --history-disk: its oldest hours are deleted before --history-keep. Raise --history-disk, or keep less"})
	}
	return list
}

// Await returns when all hits that were counted before the call are in.
func (h *History) Await(ctx context.Context) error {
	if h.cfg.Sync != nil {
		if err := h.cfg.Sync(ctx); err != nil {
			return err
		}
	}
	message, _ := h.journal.Written()
	return h.writer.Await(ctx, message)
}

// Keeps reports whether the history keeps the day of a second, Unix, of a key.
func (h *History) Keeps(key string, second int64) bool {
	return Keeps(key, second, h.cfg.Keep, time.Now())
}

// Totals returns the hits of a key in the spans between bounds, Unix seconds in order, of all hits that were taken until asOf.
func (h *History) Totals(ctx context.Context, key string, bounds []int64) (totals []engine.Count, asOf time.Time, err error) {
	asOf, err = h.view(ctx, func(v *store.View) (err error) {
		totals, err = Totals(ctx, v, key, bounds, h.cfg.Keep, time.Now())
		if !h.Status().Known && !v.Begun(h.journal.ID()) { // it is not known yet what a new database lacks
			for i := range totals {
				totals[i].Upper, totals[i].Estimate = math.MaxUint64, totals[i].Lower
			}
		}
		return err
	})
	return totals, asOf, err
}

// Unions returns how many different ids a key had in the spans between bounds, of all that were seen until asOf.
func (h *History) Unions(ctx context.Context, key string, bounds []int64) (ids []api.Distinct, asOf time.Time, err error) {
	asOf, err = h.view(ctx, func(v *store.View) (err error) {
		ids, err = Unions(ctx, v, key, bounds, h.cfg.Keep, time.Now())
		if !h.Status().Known && !v.Begun(h.journal.ID()) { // it is not known yet what a new database lacks
			for i := range ids {
				ids[i].Upper = nil
			}
		}
		return err
	})
	return ids, asOf, err
}

// Top returns the n keys with a prefix that have the most hits in [from, to), Unix seconds, of all hits that were taken until asOf.
func (h *History) Top(ctx context.Context, prefix string, from, to int64, n int) (top []engine.KeyCount, asOf time.Time, err error) {
	h.awaitTables(ctx)
	asOf, err = h.view(ctx, func(v *store.View) (err error) {
		top, err = Top(ctx, v, Ranking{Prefix: prefix, From: from, To: to, N: n}, h.cfg.Keep, time.Now())
		return err
	})
	return top, asOf, err
}

// view calls f with what is in the database at one moment: all hits that were taken until asOf.
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

// Forget deletes the history of keys, and reports whether there was any.
func (h *History) Forget(ctx context.Context, keys ...string) (bool, error) {
	for _, key := range slices.Clip(keys) {
		keys = append(keys, engine.SampledPrefix+key) // what sampling added to it
	}
	return h.store.Forget(ctx, keys...)
}

// Export calls f with the sums of keys in days, or slots, of a time that is rounded to whole days of UTC. An error of f ends it.
func (h *History) Export(ctx context.Context, prefix string, from, to time.Time, days bool, f func(key string, start int64, n, doubt uint64) error) error {
	h.awaitTables(ctx)
	selection := store.Selection{Prefix: prefix, From: from.Unix() / store.DaySeconds, To: (to.Unix() + store.DaySeconds - 1) / store.DaySeconds, Days: days,
		Sampled: engine.SampledPrefix, All: engine.AllKeys}
	return h.store.View(ctx, func(v *store.View) error {
		return v.Export(ctx, selection, func(r store.Row) error { return f(r.Key, r.Slot, r.N, r.Doubt) })
	})
}

// Missing returns which times between from and to may lack hits, as text: at most maxMissing spans, the widest first; "": none.
func (h *History) Missing(ctx context.Context, from, to time.Time) (text string, err error) {
	h.awaitTables(ctx)
	var gaps []store.Gap
	if err := h.store.View(ctx, func(v *store.View) error {
		gaps = slices.DeleteFunc(v.Gaps, func(g store.Gap) bool { return g.Last.Before(from) || !g.First.Before(to) })
		if !h.Status().Known && !v.Begun(h.journal.ID()) {
			gaps = []store.Gap{{First: from, Last: to}}
		}
		return nil
	}); err != nil {
		return "", err
	}
	slices.SortFunc(gaps, func(a, b store.Gap) int { return cmp.Compare(b.Last.Sub(b.First), a.Last.Sub(a.First)) })
	for i, g := range gaps[:min(len(gaps), maxMissing)] {
		if i > 0 {
			text += ", "
		}
		text += g.First.UTC().Format(time.RFC3339) + " to " + g.Last.UTC().Format(time.RFC3339)
	}
	return text, nil
}

// maxMissing bounds the text of Missing.
const maxMissing = 5

// awaitTables waits for the tables of a history that was opened a moment ago. If they can't be made, the database says why.
func (h *History) awaitTables(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, opening)
	defer cancel()
	h.writer.AwaitOpen(ctx)
}

// Keys returns the first keys that begin with prefix, which is not empty, and sort after another.
func (h *History) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	h.awaitTables(ctx)
	return h.store.Keys(ctx, prefix, after, limit)
}
