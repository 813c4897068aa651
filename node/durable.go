package node

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/archive"
	internaldurable "github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/region"
)

// progressEvery is how often a long replay says how far it is.
const progressEvery = time.Second

// durable keeps hits in a journal of this node alone.
type durable struct {
	cfg     *Config
	log     *slog.Logger
	phase   phase
	journal *internaldurable.Journal
	history historian
}

func (m *durable) failed() <-chan struct{} { return m.journal.Failed() }

func (m *durable) err() error { return m.journal.Err() }

func (m *durable) open(ctx context.Context, e *engine.Engine, sockets *sockets, parts *parts) error {
	if err := m.openDirectory(ctx, e, sockets, parts); err != nil {
		return err
	}
	return m.openRegion(ctx, e, nil, sockets, parts)
}

// openDirectory listens before it opens the data directory, which may take long: until then the address says so.
func (m *durable) openDirectory(ctx context.Context, e *engine.Engine, sockets *sockets, parts *parts) error {
	if err := sockets.listeners.listen(m.phase.now, parts); err != nil {
		return err
	}
	if err := m.openJournal(ctx, e); err != nil {
		if ctx.Err() != nil {
			m.log.Info("interrupted before the data directory was open")
			return interrupted(ctx)
		}
		return err
	}
	parts.opened(m.closeJournal)
	sockets.Journal, sockets.document = m.journal, m.journal.Policies()
	sockets.Figures = append(sockets.Figures, func() any { return m.journal.Stats() })
	if err := m.history.start(e, m.journal, sockets, parts); err != nil {
		return err
	}
	return m.openBackups(sockets, parts)
}

func (m *durable) openBackups(sockets *sockets, parts *parts) error {
	if m.cfg.Backups.To == "" {
		return nil
	}
	k, err := archive.Keep(m.cfg.Backups, m.journal, m.log)
	if err != nil {
		return err
	}
	parts.opened(k.Close)
	sockets.Figures = append(sockets.Figures, func() any { return k.Stats() })
	others := sockets.Alarms
	sockets.Alarms = func() []api.Alarm { return append(k.Alarms(), others()...) }
	return nil
}

func (m *durable) openJournal(ctx context.Context, e *engine.Engine) (err error) {
	cfg := m.cfg.Journal
	if m.cfg.Regions.Region != "" {
		cfg.OtherBytes = region.Config{LogBytes: m.cfg.Regions.LogBytes}.WithDefaults().LogBytes
	}
	if absolute, err := filepath.Abs(cfg.Dir); err == nil {
		cfg.Dir = absolute // for the log and for errors: where is ./weir-data?
	}
	cfg.Join.Waiting = m.phase.say
	if m.cfg.History.On || m.cfg.clustered() {
		m.history.engine = e
		cfg.Needed = m.history.needed
	}
	m.log.Info("opening the data directory", "data", cfg.Dir)
	began := time.Now()
	reported := began
	m.journal, err = internaldurable.Open(ctx, e, cfg, func(done, all uint64) {
		m.phase.replaying(done, all)
		if time.Since(reported) >= progressEvery {
			reported = time.Now()
			m.log.Info("replaying the journal", "percent", done*100/max(all, 1), "messages", done, "of", all)
		}
	})
	if err != nil {
		return err
	}
	m.log.Info("the data directory is open", "data", cfg.Dir, "took", time.Since(began).Round(time.Millisecond),
		"replayed_flushes", m.journal.Stats().Replayed, "keys", e.Stats().Keys, "flush_every", cfg.FlushEvery)
	return nil
}

func (m *durable) closeJournal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CloseTimeout)
	defer cancel()
	began := time.Now()
	if err := m.journal.Close(ctx); err != nil {
		return fmt.Errorf("close the data directory: %w", err)
	}
	m.log.Info("all hits are on disk", "took", time.Since(began).Round(time.Millisecond))
	return nil
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("the start was interrupted: %w", context.Cause(ctx))
}

// ephemeral keeps hits in memory only.
type ephemeral struct{ log *slog.Logger }

func (m ephemeral) open(context.Context, *engine.Engine, *sockets, *parts) error {
	m.log.Warn("ephemeral: hits are kept in memory only, and are gone when this process ends")
	return nil
}

func (ephemeral) failed() <-chan struct{} { return nil }

func (ephemeral) err() error { return nil }

// journalFloor is what a journal adds to a process: hits that wait for it, the embedded server, states that are written to a
// snapshot.
const journalFloor = 256 << 20

// History says whether exact totals are kept for years, and where.
type History struct {
	// On keeps them. Not of an ephemeral node.
	On bool
	history.Config
}

// historyShare is the default size of a file of history: Journal.MaxBytes divided by this.
const historyShare = 4

// historian is the history of a node, once its journal is open.
type historian struct {
	cfg  *Config
	log  *slog.Logger
	open atomic.Pointer[func(haste bool, past int64) (first uint64)] // Needed of a history.History, or of the history.Others

	engine *engine.Engine // set before the journal is opened
}

// needed is the first message of the journal that the history of some node needs: all, before it is open. With haste it is
// the first one with hits that are older than the retention: snapshots do not have them.
func (m *historian) needed(haste bool) (first uint64) {
	if needed := m.open.Load(); needed != nil {
		return (*needed)(haste, m.engine.Keyspace().PastUntil())
	}
	return 1
}

// start begins to write, or to learn what the histories of other nodes need: this node may be the one that trims the journal.
func (m *historian) start(e *engine.Engine, j *internaldurable.Journal, sockets *sockets, parts *parts) error {
	if !m.cfg.History.On {
		if !m.cfg.clustered() {
			return nil
		}
		others, err := history.Watch(j.Peers())
		if err == nil {
			needed := others.Needed
			m.open.Store(&needed)
		}
		return err
	}
	cfg := m.cfg.History.Config
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = m.cfg.Journal.MaxBytes / historyShare
	}
	cfg.Sync = j.Sync
	if m.cfg.clustered() {
		cfg.Peers, cfg.Sync = j.Peers(), j.CatchUp
		cfg.NodeOf = func(origin string) (name string) {
			for _, o := range j.Origins() {
				if o.Origin == origin {
					name = o.Node
				}
			}
			return name
		}
	}
	h, err := history.Open(cfg, m.cfg.Journal.Dir, j.Messages(), j.Origin(), m.cfg.Engine.Retention, m.log)
	if err != nil {
		return err
	}
	needed := h.Needed
	m.open.Store(&needed)
	e.TakePast(h.Keeps)
	if h.InFile() {
		j.CopyHistory(h.CopyAt)
	}
	parts.opened(func(ctx context.Context) error {
		m.finish(ctx, h)
		return h.Close()
	})
	m.log.Info("history", "database", h.Where())
	sockets.History = h
	sockets.Figures = append(sockets.Figures, func() any { return h.Stats() })
	return nil
}

// finishTime bounds finish.
const finishTime = 3 * time.Second

// finish waits until history has all hits, before a node without others stops: its directory may become another journal's.
// In a cluster the other nodes continue.
func (m *historian) finish(ctx context.Context, h *history.History) {
	if m.cfg.clustered() || h.Status().Err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if err := h.Await(ctx); err != nil {
		m.log.Warn("history: stopped before the newest hits were written; the next start writes them", "error", err)
	}
}
