package admin

import (
	"context"
	"errors"
	"io"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
)

// Backup writes a backup with every hit that was counted before the call. There is one at
// a time. A failure may come after a part was written: who reads that part must learn
// that it is not whole.
func (s *Service) Backup(ctx context.Context, client caller.Caller, w io.Writer) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, client, "backup", "all", err) }()
	if _, err := s.parts.Gate.EnterAll(client, auth.Admin); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to := &counted{to: w}
	err = s.parts.Pools.Backup.Within(client, func() error { return s.parts.Storage.Backup(ctx, to) })
	var refused *failure.Error
	switch {
	case err == nil:
		s.parts.Log.InfoContext(ctx, "a backup was taken", "bytes", to.bytes, "who", client.String())
		return nil
	case errors.As(err, &refused):
		return refused
	}
	s.parts.Log.ErrorContext(ctx, "a backup failed", "bytes", to.bytes, "who", client.String(), "error", err)
	return &failure.Error{Code: api.CodeStopping, Message: "the backup could not be taken: the server's log says why"}
}

// Restore reads a backup into all counts. There is one at a time.
func (s *Service) Restore(ctx context.Context, client caller.Caller, backup io.Reader, mode api.RestoreMode) (done api.Restored, err error) {
	defer func() { s.parts.Gate.Audit(ctx, client, "restore", string(mode), err) }()
	if _, err := s.parts.Gate.EnterAll(client, auth.Admin); err != nil {
		return done, err
	}
	if mode != api.Merge && mode != api.Replace {
		return done, &failure.Error{Code: api.CodeInvalidParameter, Field: "mode", Message: "mode must be merge, which adds the backup's hits, or replace"}
	}
	err = s.parts.Pools.Restore.Within(client, func() error {
		done, err = s.parts.Storage.Restore(ctx, backup, string(mode))
		return err
	})
	var refused *failure.Error
	switch {
	case err == nil:
		return done, nil
	case errors.As(err, &refused):
		return done, refused
	}
	s.parts.Log.ErrorContext(ctx, "a backup was not restored", "mode", mode, "who", client.String(), "error", err)
	return done, notRestored(err)
}

func notRestored(err error) error {
	switch {
	case errors.Is(err, backend.ErrRestoring):
		return &failure.Error{Code: api.CodeRestoreRunning, Message: err.Error()}
	case errors.Is(err, backend.ErrCountedTwice):
		return &failure.Error{Code: api.CodeCountedTwice, Field: "mode", Message: err.Error()}
	case errors.Is(err, backend.ErrDamagedBackup):
		return &failure.Error{Code: api.CodeDamagedBackup, Message: err.Error()}
	}
	return &failure.Error{Code: api.CodeStopping, Message: "the backup was not restored, or not as a whole: send it again; the server's log says why"}
}

// counted is a writer that knows how much was written.
type counted struct {
	to    io.Writer
	bytes int64
}

func (c *counted) Write(piece []byte) (int, error) {
	n, err := c.to.Write(piece)
	c.bytes += int64(n)
	return n, err
}
