// Package admin is what operators ask of a server and do to it: figures, the nodes of its cluster and its regions, keys and
// nodes removed, backups.
package admin

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// Parts are what a Service works with. All but History, Regions and Cluster must be given.
type Parts struct {
	Engine  *engine.Engine
	Gate    *access.Gate
	Sources *queries.Sources
	Storage ingest.Storage
	Pools   *access.Pools
	Health  *Health
	History queries.History // nil: there are windows only
	Regions queries.Regions // nil: the server counts for none
	Cluster queries.Cluster // nil: the server counts alone
	Version string
	Log     *slog.Logger
}

// Service answers operators.
type Service struct {
	parts   Parts
	started time.Time
}

// New is a Service of parts.
func New(p Parts) *Service {
	return &Service{parts: p, started: time.Now()}
}

// Stats is what the server holds and what it dropped.
func (s *Service) Stats(c access.Caller) (api.StatsAnswer, error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return api.StatsAnswer{}, err
	}
	st := s.parts.Engine.Stats()
	answer := api.StatsAnswer{
		Version: s.parts.Version, UptimeS: int64(time.Since(s.started) / time.Second), Now: api.Time{Time: s.parts.Sources.Now()},
		Hits: st.Hits, Late: st.Late, TooLate: st.TooLate, ForHistory: st.ForHistory, TooFarAhead: st.TooFarAhead, Quarantined: st.Quarantined,
		Keys: st.Keys, HotKeys: st.HotKeys,
		EvictedKeys: st.EvictedKeys, EvictedHits: st.EvictedHits, ExpiredKeys: st.ExpiredKeys,
		MemoryBytes: st.Bytes, MemoryBudget: st.MemoryBudget, Partitions: st.Partitions,
		LimitStates: st.LimitStates, LimitBytes: st.LimitBytes, LimitRefused: st.LimitRefused,
		Waiting: st.Waiting, Alarms: s.parts.Health.Alarms(),
	}
	s.parts.Storage.AddStats(&answer)
	if !st.Newest.IsZero() {
		answer.Newest = &api.Time{Time: st.Newest}
	}
	return answer, nil
}

// Backup writes a backup with every hit that was counted before the call. There is one at
// a time. A failure may come after a part was written: who reads that part must learn
// that it is not whole.
func (s *Service) Backup(ctx context.Context, client access.Caller, w io.Writer) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, client, "backup", "all", err) }()
	if _, err := s.parts.Gate.EnterAll(client, auth.Admin); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to := &counted{to: w}
	err = s.parts.Pools.Backup.Within(client, func() error { return s.parts.Storage.Backup(ctx, to) })
	if err == nil {
		s.parts.Log.InfoContext(ctx, "a backup was taken", "bytes", to.bytes, "who", client.String())
		return nil
	}
	code := api.CodeStopping
	if _, refusing := s.parts.Health.Ready(); refusing != nil && api.Code(refusing.Code) == api.CodeJournalFailing {
		code = api.CodeJournalFailing
	}
	return request.Explain(ctx, s.parts.Log, err, &api.Error{Code: code, Message: "the backup could not be taken: " + err.Error()},
		"a backup failed", "bytes", to.bytes, "who", client.String())
}

// Restore reads a backup into all counts. There is one at a time.
func (s *Service) Restore(ctx context.Context, client access.Caller, backup io.Reader, mode api.RestoreMode) (done api.Restored, err error) {
	defer func() { s.parts.Gate.Audit(ctx, client, "restore", string(mode), err) }()
	if _, err := s.parts.Gate.EnterAll(client, auth.Admin); err != nil {
		return done, err
	}
	if mode != api.Merge && mode != api.Replace {
		return done, &api.Error{Code: api.CodeInvalidParameter, Field: "mode", Message: "mode must be merge, which adds the backup's hits, or replace"}
	}
	err = s.parts.Pools.Restore.Within(client, func() error {
		done, err = s.parts.Storage.Restore(ctx, backup, mode)
		return err
	})
	return done, request.Explain(ctx, s.parts.Log, err,
		&api.Error{Code: api.CodeStopping, Message: "the backup was not restored, or not as a whole: send it again; the server's log says why"},
		"a backup was not restored", "mode", mode, "who", client.String())
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
