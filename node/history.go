package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	internaldurable "github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history"
)

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
		return (*needed)(haste, m.engine.PastUntil())
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
	}
	h, err := history.Open(cfg, m.cfg.Journal.Dir, j.Messages(), j.Origin(), m.cfg.Engine.Retention, m.log)
	if err != nil {
		return err
	}
	needed := h.Needed
	m.open.Store(&needed)
	e.TakePast(h.Keeps)
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
		m.log.Warn("history: the newest hits are not in it yet; they come at the next start", "error", err)
	}
}
