package reads

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/history/calendar"
	"github.com/weir-counter/weir/history/export"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
)

// ExportQuery asks for history as a file.
type ExportQuery struct {
	Prefix   string        // only keys that begin with it
	From, To time.Time     // whole days of UTC; zero: the beginning; Now
	Unit     calendar.Unit // Day, or Hour: the slots of history
	Format   string        // of package export
}

// Export writes what history has, row by row. A failure may come after a part was written: who
// reads that part must learn that it is not whole.
func (s *Service) Export(ctx context.Context, c caller.Caller, q ExportQuery, to io.Writer) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "export", q.Prefix, err) }()
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return err
	}
	if s.parts.History == nil {
		return &failure.Error{Code: api.CodeNoHistory, Message: "this server keeps no history: start it without --history=false and --ephemeral"}
	}
	if q.Unit != calendar.Day && q.Unit != calendar.Hour {
		return &failure.Error{Code: api.CodeInvalidParameter, Field: "unit", Message: "unit must be day or hour"}
	}
	if export.Formats[q.Format] == "" {
		return &failure.Error{Code: api.CodeInvalidParameter, Field: "format", Message: "format must be csv or parquet"}
	}
	if q.To.IsZero() {
		q.To = s.parts.Sources.Now().Add(time.Second)
	}
	if q.From.IsZero() {
		q.From = time.Unix(0, 0)
	}
	if !q.From.Before(q.To) {
		return &failure.Error{Code: api.CodeInvalidRange, Field: "from", Message: "from must be before to"}
	}
	err = s.parts.Pools.Export.Within(c, func() error { return s.export(ctx, q, to) })
	var refused *failure.Error
	switch {
	case err == nil || errors.As(err, &refused):
		return err
	case ctx.Err() != nil:
		return failure.As(err)
	}
	s.parts.Log.ErrorContext(ctx, "an export failed", "who", c.String(), "error", err)
	return &failure.Error{Code: api.CodeNoHistory, Message: "history can't be read: the server's log says why"}
}

func (s *Service) export(ctx context.Context, q ExportQuery, to io.Writer) error {
	w, err := export.New(q.Format, to)
	if err != nil {
		return err
	}
	if err := s.parts.History.Export(ctx, q.Prefix, q.From, q.To, q.Unit == calendar.Day, func(key string, start int64, n, doubt uint64) error {
		return w.Write(export.Row{Key: key, Start: start, N: n, Doubt: doubt})
	}); err != nil {
		return err
	}
	return w.Close()
}
