package node

import (
	"context"
	"errors"
	"io"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/server"
)

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
