package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	internaldurable "github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/service/backend"
)

// History says whether exact totals are kept for years, and where.
type History struct {
	// On keeps them. Not of an ephemeral node.
	On bool
	history.Config
}

// historyShare is the part of Journal.MaxBytes that a file of history may take beside it, as one
// of so many, where nothing else is said.
const historyShare = 4

// historian is the history of a node, once its journal is open.
type historian struct {
	cfg  *Config
	log  *slog.Logger
	open atomic.Pointer[history.History]

	engine *weir.Engine // set before the journal is opened
}

// needed is the first message of the journal that the history of some node needs: all, before it is open. With haste it is
// the first one with hits that are older than the retention: snapshots do not have them.
func (m *historian) needed(haste bool) (first uint64) {
	if h := m.open.Load(); h != nil {
		return h.Needed(haste, replication.Of(m.engine).PastUntil())
	}
	return 1
}

// start begins to write.
func (m *historian) start(engine *weir.Engine, j *internaldurable.Journal, sockets *sockets, parts *parts) error {
	cfg := m.cfg.History.Config
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = m.cfg.Journal.MaxBytes / historyShare
	}
	if m.cfg.clustered() {
		cfg.Peers = j.Peers()
	}
	h, err := history.Open(cfg, m.cfg.Journal.Dir, j.Messages(), j.Origin(), m.cfg.Engine.Retention, m.log)
	if err != nil {
		return err
	}
	m.open.Store(h)
	replication.Of(engine).TakePast(h.Keeps)
	k := kept{h, j, m.cfg.clustered(), m.log}
	parts.opened(func(ctx context.Context) error {
		k.finish(ctx)
		return h.Close()
	})
	m.log.Info("history", "database", h.Where())
	sockets.History = k
	return nil
}

// kept is a history as the service knows it.
type kept struct {
	*history.History
	journal   *internaldurable.Journal
	clustered bool
	log       *slog.Logger
}

func (k kept) Totals(ctx context.Context, key string, bounds []int64) (list []backend.HistoryTotal, asOf time.Time, err error) {
	totals, asOf, err := k.History.Totals(ctx, key, bounds)
	for _, t := range totals {
		list = append(list, backend.HistoryTotal{Lower: t.Lower, Upper: t.Upper, Bounded: t.HasUpper()})
	}
	return list, asOf, err
}

func (k kept) Top(ctx context.Context, prefix string, from, to int64, n int) (list []backend.HistoryKey, asOf time.Time, err error) {
	top, asOf, err := k.History.Top(ctx, prefix, from, to, n)
	for _, t := range top {
		list = append(list, backend.HistoryKey{Key: t.Key, HistoryTotal: backend.HistoryTotal{Lower: t.Lower, Upper: t.Upper, Bounded: t.HasUpper()}})
	}
	return list, asOf, err
}

// Await has what is in memory written to the journal, and then to history.
func (k kept) Await(ctx context.Context) error {
	written := k.journal.Sync
	if k.clustered {
		written = k.journal.CatchUp
	}
	if err := written(ctx); err != nil {
		return err
	}
	message, _ := k.journal.Messages().Written()
	return k.History.Await(ctx, message)
}

// finishTime bounds finish.
const finishTime = 3 * time.Second

// finish has all hits in history before a node alone stops: what its directory becomes next may be
// another journal. In a cluster the others go on.
func (k kept) finish(ctx context.Context) {
	if k.clustered || k.Status().Err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if err := k.Await(ctx); err != nil {
		k.log.Warn("history: the newest hits are not in it yet; they come at the next start", "error", err)
	}
}

// lateAfter is how late history may be before that is an alarm: a restart of a database is none.
const lateAfter = time.Minute

func (k kept) Alarms() (list []api.Alarm) {
	is := k.Status()
	if is.Err != nil && time.Since(is.Since) > lateAfter {
		list = append(list, api.Alarm{Code: "history_late", Message: fmt.Sprintf(
			"history does not go on since %s (%v): hits are counted, and come into it when %s can be written again", is.Since.UTC().Format(time.RFC3339), is.Err, k.Where())})
	}
	if why, since := k.Incomplete(); why != nil && time.Since(since) > lateAfter {
		list = append(list, api.Alarm{Code: "history_incomplete", Message: fmt.Sprintf(
			"history lacks hits that another node has, and copying its file fails since %s: %v: answers about these times have no upper bound until it succeeds", since.UTC().Format(time.RFC3339), why)})
	}
	if is.Full {
		list = append(list, api.Alarm{Code: "history_full", Message: "the file of history has its size: its oldest hours are deleted before they have the age of --history-keep. Raise --history-disk, or keep less"})
	}
	return list
}

func (k kept) Stats() backend.HistoryStats {
	is := k.Status()
	st := backend.HistoryStats{
		Known: is.Known, AsOf: is.AsOf, Message: is.Message, Writes: is.Writes, Failing: is.Err != nil,
		Gaps: is.Gaps, Rows: is.Rows, Failures: is.Failures,
	}
	if last, _ := k.journal.Messages().Written(); last > is.Message {
		st.Unread = last - is.Message
	}
	st.FileBytes, st.FileBudget = k.FileSize()
	return st
}
