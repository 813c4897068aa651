package archive

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/api"
)

func newKeeper(t *testing.T) *Keeper {
	t.Helper()
	p, err := OpenPlace("file:"+t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	k := &Keeper{place: p, log: slog.New(slog.DiscardHandler)}
	k.status.Store(&status{})
	return k
}

// A clock that was ahead for a moment does not keep backups from being made after it was set back.
func TestKeeperClockSetBack(t *testing.T) {
	k, now := newKeeper(t), time.Now()
	for next, want := range map[time.Duration]bool{-time.Second: true, time.Minute: false, time.Hour: false, 24 * time.Hour: true} {
		if k.next = now.Add(next).Round(0); k.due(now) != want {
			t.Errorf("the next in %v: %v", next, !want)
		}
	}
}

// There is an alarm while a first backup comes to no end, as where S3 takes a connection and never answers.
func TestKeeperAlarms(t *testing.T) {
	k, now := newKeeper(t), time.Now()
	taken := func(ago time.Duration) *Backup { return &Backup{Taken: api.Time{Time: now.Add(-ago)}} }
	for what, c := range map[string]struct {
		is   status
		want int
	}{
		"of another node":     {status{}, 0},
		"the first is made":   {status{since: now}, 0},
		"the first hangs":     {status{since: now.Add(-3 * time.Hour)}, 1},
		"the first failed":    {status{since: now, failure: errors.New("no")}, 1},
		"the newest is new":   {status{since: now.Add(-3 * time.Hour), newest: taken(time.Minute)}, 0},
		"the newest is old":   {status{since: now, newest: taken(3 * time.Hour)}, 1},
		"the last one failed": {status{since: now, newest: taken(time.Hour), failure: errors.New("no")}, 0},
	} {
		k.status.Store(&c.is)
		if list := k.Alarms(); len(list) != c.want {
			t.Errorf("%s: %+v", what, list)
		}
	}
}

// stuck takes a connection, and then nothing.
type stuck struct{ store }

func (stuck) put(ctx context.Context, _ string, write func(io.Writer) error) error {
	from, to := io.Pipe()
	defer context.AfterFunc(ctx, func() { _ = from.CloseWithError(context.Cause(ctx)) })()
	return write(to)
}

// A store that takes nothing does not keep other backups waiting for hours.
func TestMakeStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := (&Place{store: stuck{}}).create(t.Context(), journal, take)
		if err == nil || !strings.Contains(err.Error(), "nothing could be written for 10m") || time.Since(began) > writeTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
