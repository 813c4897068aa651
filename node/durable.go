package node

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	internaldurable "github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
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

// open listens before it opens the data directory, which may take long: until then the
// address says so.
func (m *durable) open(ctx context.Context, e *engine.Engine, sockets *sockets, parts *parts) error {
	if err := sockets.listeners.listen(m.phase.now, parts); err != nil {
		return err
	}
	if err := m.openJournal(ctx, e); err != nil {
		if ctx.Err() != nil {
			m.log.Info("an interrupt came before the data directory was open")
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
	return m.openRegion(ctx, e, sockets, parts)
}

// openJournal brings engine to where the data directory left off.
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
	told := began
	m.journal, err = internaldurable.Open(ctx, e, cfg, func(done, all uint64) {
		m.phase.replaying(done, all)
		if time.Since(told) >= progressEvery {
			told = time.Now()
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

// interrupted is the error of a start that ctx ended.
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
