package node

import (
	"context"
	"errors"
	"io"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/cluster/document"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/journal/restore"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/backend"
)

// served is a journal as the service knows it: the two packages do not know each
// other.
type served struct{ *journal.Journal }

func (s served) Alarms() (to []service.Alarm) {
	for _, a := range s.Journal.Alarms() {
		to = append(to, service.Alarm(a))
	}
	return to
}

// coded is an error that is also one the service has a code for.
type coded struct {
	error
	as error
}

func (c coded) Unwrap() []error { return []error{c.error, c.as} }

func (s served) Restore(ctx context.Context, backup io.Reader, mode string) (api.Restored, error) {
	done, err := s.RestoreInto(ctx, backup, restore.Mode(mode))
	for from, to := range map[error]error{restore.ErrRestoring: backend.ErrRestoring, restore.ErrCountedTwice: backend.ErrCountedTwice, restore.ErrDamagedBackup: backend.ErrDamagedBackup} {
		if errors.Is(err, from) {
			err = coded{err, to}
		}
	}
	return api.Restored{Mode: api.RestoreMode(mode), Taken: done.Backup.Taken.Unix(), Again: done.Again, Keys: done.Keys, Origin: done.Origin}, err
}

func (s served) Stats() backend.JournalStats {
	from := s.Journal.Stats()
	to := backend.JournalStats{
		Epoch: from.Epoch, Flushes: from.Flushes, Bytes: from.Bytes, Retained: from.Retained, LastFlush: from.LastFlush,
		Failures: from.Failures, Failing: from.Failing, Revivals: from.Revivals, Rounds: from.Rounds, Fresh: from.Fresh, NotFresh: from.NotFresh, LongestCut: from.LongestCut,
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

// shared is the document of a journal as the service knows it.
type shared struct{ *document.Document }

func (s shared) Write(ctx context.Context, content []byte, over uint64) error {
	err := s.Document.Write(ctx, content, over)
	if errors.Is(err, document.ErrChanged) {
		return backend.ErrChanged
	}
	return err
}
