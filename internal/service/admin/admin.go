// Package admin is what operators ask of a server and do to it: figures, the nodes of its cluster and its regions, keys and
// nodes removed, backups.
package admin

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
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
	Storage ingest.Journal
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

// Backup writes a backup with every hit that was counted before the call. There is one at a time. A failure may come
// after a part was written: who reads that part must learn that it is not whole.
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

// Nodes is the nodes that count together, as this one sees them. It takes up to a second while one of them is away.
func (s *Service) Nodes(ctx context.Context, c access.Caller) (api.ClusterAnswer, error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return api.ClusterAnswer{}, err
	}
	a := api.ClusterAnswer{
		Partitions: s.parts.Engine.Config().Partitions,
		Nodes:      []api.ClusterNode{}, Servers: []api.ClusterServer{}, Routes: []api.ClusterRoute{}, Problems: []string{}, Alarms: s.parts.Health.Alarms(),
	}
	a.Correction, a.LimitBehind = s.parts.Engine.Wall().Corrected().Seconds(), s.parts.Engine.LimitClockBehind().Seconds()
	s.parts.Storage.AddNodes(ctx, &a)
	a.Now, a.Freshness = api.Millis(s.parts.Sources.Wall()), s.parts.Sources.Freshness() // answers took their time
	return a, nil
}

// removeTime bounds the removal of a node: a leader may have to be elected first.
const removeTime = 20 * time.Second

// Remove permanently removes a dead node from the cluster. It takes up to 20 s.
func (s *Service) Remove(ctx context.Context, c access.Caller, node string) (_ api.RemovedAnswer, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "remove node", node, err) }()
	var none api.RemovedAnswer
	if _, err := s.parts.Gate.EnterAll(c, auth.Admin); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	if s.parts.Cluster == nil {
		return none, &api.Error{Code: api.CodeNoCluster, Message: "this is a single server: there is no other node to remove"}
	}
	removed, err := s.parts.Cluster.Remove(ctx, node)
	if err != nil {
		return none, request.Explain(ctx, s.parts.Log, err, &api.Error{Code: api.CodeNotRemoved, Message: err.Error()}, "a node could not be removed", "node", node)
	}
	return removed, nil
}

// errNoRegion answers what only a server can that counts for a region.
var errNoRegion = &api.Error{Code: api.CodeInvalidParameter, Message: "this server has no region: start it with --region"}

// Regions are those that count together, as this node sees them.
func (s *Service) Regions(c access.Caller) (a api.RegionsAnswer, err error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return a, err
	}
	from := s.parts.Regions
	if from == nil {
		return a, errNoRegion
	}
	a = from.Status()
	a.Now, a.Alarms = api.Millis(s.parts.Sources.Wall()), append([]api.Alarm{}, from.Alarms()...)
	return a, nil
}

// Forget drops all hits of a region that is gone for good, here and wherever links lead.
func (s *Service) Forget(ctx context.Context, c access.Caller, region string) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "forget region", region, err) }()
	if _, err := s.parts.Gate.EnterAll(c, auth.Admin); err != nil {
		return err
	}
	if s.parts.Regions == nil {
		return errNoRegion
	}
	return request.Explain(ctx, s.parts.Log, s.parts.Regions.Forget(ctx, region),
		&api.Error{Code: api.CodeStopping, Message: "the region was not forgotten: ask again; the server's log says why"},
		"a region was not forgotten", "region", region)
}

// FeedRegion is the name of this region for one that pulls from it; it fails where that may not.
func (s *Service) FeedRegion(c access.Caller) (name string, err error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return "", err
	}
	if s.parts.Regions == nil {
		return "", errNoRegion
	}
	return s.parts.Regions.Region(), nil
}

// Feed sends a region what it has not, and what comes, until ctx is done, the caller may not read any more, or the server stops.
func (s *Service) Feed(ctx context.Context, c access.Caller, as, have, begun string, send func(frames []byte) error, flush func() error) error {
	return s.parts.Regions.Feed(ctx, as, have, begun, send, func() error {
		if _, err := s.parts.Gate.Identity(c); err != nil {
			return err
		}
		return flush()
	})
}

// Delete deletes a key and its hits, on all nodes.
func (s *Service) Delete(ctx context.Context, c access.Caller, key string) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "delete key", key, err) }()
	if _, err := s.parts.Gate.EnterKeys(c, auth.Admin, key); err != nil {
		return err
	}
	existed, err := s.deleteOne(ctx, key)
	if err == nil && !existed {
		return &api.Error{Code: api.CodeUnknownKey, Field: "key", Message: "key " + strconv.Quote(request.Clip(key)) + " is unknown"}
	}
	return err
}

// deleteOne deletes a key, and reports whether anything was known of it. Its history goes when the
// writer comes to its removal in the journal, and at once where history alone knows it.
func (s *Service) deleteOne(ctx context.Context, key string) (existed bool, err error) {
	existed, err = s.parts.Sources.Own().Delete(ctx, key)
	if err != nil || existed || s.parts.History == nil {
		return existed, err
	}
	return s.forget(ctx, key)
}

// forget deletes the history of keys that are not held, with all hits until now in it.
func (s *Service) forget(ctx context.Context, keys ...string) (existed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	if err = s.parts.History.Await(ctx); err == nil {
		existed, err = s.parts.History.Forget(ctx, keys...)
	}
	if err != nil {
		s.parts.Log.WarnContext(ctx, "history could not delete keys", "error", err)
		return false, &api.Error{Code: api.CodeNoHistory, Message: "history could not be deleted: its database can't be reached, or is behind; try again"}
	}
	return existed, nil
}

// forgetTimeout bounds what a deletion waits for history.
const forgetTimeout = 30 * time.Second

// deleteAtOnce is how many keys one DeletePrefix deletes at most.
const deleteAtOnce = 1000

// DeletePrefix deletes the first keys that begin with prefix, which is not empty, and sort after another: those that
// are held, and those that history knows. Where there are more, next is what to go on after. With ofLimits, the call
// after nothing also forgets what all keys that begin so have used of limits (admission.Table.ForgetKeys).
func (s *Service) DeletePrefix(ctx context.Context, c access.Caller, prefix, after string, ofLimits bool) (answer api.DeletedAnswer, err error) {
	action := "delete prefix"
	if ofLimits {
		action = "delete prefix, reset limits"
	}
	defer func() { s.parts.Gate.Audit(ctx, c, action, prefix, err) }()
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err != nil {
		return answer, err
	}
	if prefix == "" {
		return answer, &api.Error{Code: api.CodeMissingKey, Field: "prefix", Message: "prefix is empty: say which keys to delete"}
	}
	parts, err := may.PartsOf(prefix)
	if err != nil {
		return answer, err
	}
	if len(parts) != 1 || parts[0] != prefix {
		return answer, may.Refuse("prefix", "role admin of this identity is not for all keys that begin with "+request.Clip(prefix))
	}
	if ofLimits && !may.AllLimits() {
		return answer, may.Refuse("limits", "role admin of this identity is for limits by name: reset each key of these")
	}
	if ofLimits && after == "" {
		if answer.Reset, err = s.parts.Engine.Limits().ForgetKeys(prefix); err != nil {
			return answer, err
		}
	}
	keys, _, err := s.parts.Sources.Own().Keys(ctx, 0, prefix, after, deleteAtOnce)
	if err != nil {
		return answer, err
	}
	full := len(keys) == deleteAtOnce
	if s.parts.History != nil {
		asking, cancel := context.WithTimeout(ctx, forgetTimeout)
		defer cancel()
		old, err := s.parts.History.Keys(asking, prefix, after, deleteAtOnce)
		if err != nil {
			s.parts.Log.WarnContext(ctx, "history could not say which keys it has", "error", err)
			return answer, &api.Error{Code: api.CodeNoHistory, Message: "history can't be read, so nothing was deleted: try again later"}
		}
		full = full || len(old) == deleteAtOnce
		keys = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(keys), old...))))
	}
	if full {
		keys = keys[:min(deleteAtOnce, len(keys))]
		answer.Next = keys[len(keys)-1]
	}
	var unheld []string
	for _, key := range keys {
		existed, err := s.parts.Sources.Own().Delete(ctx, key)
		if err != nil {
			return answer, err
		}
		if !existed {
			unheld = append(unheld, key)
		}
	}
	answer.Deleted = len(keys)
	if len(unheld) > 0 && s.parts.History != nil {
		_, err = s.forget(ctx, unheld...)
	}
	return answer, err
}
