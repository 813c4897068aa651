package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/server"
)

// progressEvery is how often a long replay says how far it is.
const progressEvery = time.Second

// openJournal brings engine to where the data directory left off.
func openJournal(ctx context.Context, engine *weir.Engine, cfg journal.Config, log *slog.Logger, starting *phase) (*journal.Journal, error) {
	if absolute, err := filepath.Abs(cfg.Dir); err == nil {
		cfg.Dir = absolute // for the log and for errors: where is ./weir-data?
	}
	cfg.Logger = log
	log.Info("opening the data directory", "data", cfg.Dir)
	began := time.Now()
	told := began
	j, err := journal.Open(ctx, engine, cfg, func(done, all uint64) {
		starting.replaying(done, all)
		if time.Since(told) >= progressEvery {
			told = time.Now()
			log.Info("replaying the journal", "percent", done*100/max(all, 1), "messages", done, "of", all)
		}
	})
	if err != nil {
		return nil, err
	}
	stats := engine.Stats()
	log.Info("the data directory is open", "data", cfg.Dir, "took", time.Since(began).Round(time.Millisecond),
		"replayed_flushes", j.Stats().Replayed, "keys", stats.Keys, "flush_every", cfg.FlushEvery)
	return j, nil
}

// untilFailed is ctx, which also ends when the journal can't go on: a process
// that is started again can.
func untilFailed(ctx context.Context, j *journal.Journal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-j.Failed():
			cancel(j.Err())
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

func closeJournal(j *journal.Journal, timeout time.Duration, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	began := time.Now()
	if err := j.Close(ctx); err != nil {
		return fmt.Errorf("close the data directory: %w", err)
	}
	log.Info("all hits are on disk", "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// served is a journal as the server knows it: the two packages do not know each
// other.
type served struct{ *journal.Journal }

func (s served) Alarms() (to []server.Alarm) {
	for _, a := range s.Journal.Alarms() {
		to = append(to, server.Alarm(a))
	}
	return to
}

// coded is an error that is also one the server has a code for.
type coded struct {
	error
	as error
}

func (c coded) Unwrap() []error { return []error{c.error, c.as} }

func (s served) Restore(ctx context.Context, backup io.Reader, mode string) (server.Restored, error) {
	done, err := s.RestoreInto(ctx, backup, journal.RestoreMode(mode))
	for from, to := range map[error]error{journal.ErrRestoring: server.ErrRestoring, journal.ErrCountedTwice: server.ErrCountedTwice, journal.ErrDamagedBackup: server.ErrDamagedBackup} {
		if errors.Is(err, from) {
			err = coded{err, to}
		}
	}
	return server.Restored{Mode: api.RestoreMode(mode), Taken: done.Backup.Taken.Unix(), Again: done.Again, Keys: done.Keys, Origin: done.Origin}, err
}

func (s served) Stats() server.JournalStats {
	from := s.Journal.Stats()
	to := server.JournalStats{
		Epoch: from.Epoch, Flushes: from.Flushes, Bytes: from.Bytes, Kept: from.Kept, LastFlush: from.LastFlush,
		Failures: from.Failures, Failing: from.Failing, Revivals: from.Revivals, Rounds: from.Rounds, LongestCut: from.LongestCut,
		Holes: from.Holes, Repaired: from.Repaired, Divergence: from.Divergence,
		Replayed: from.Replayed, Repeats: from.Repeats, Unfinished: from.Unfinished,
	}
	for _, f := range from.Findings {
		if f.Harmless {
			to.Harmless++
		} else {
			to.Lossy++
		}
	}
	return to
}
