package journal

import (
	"context"
	"fmt"

	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/stream"
)

// revive restarts the embedded server of a single node if it refuses to write for
// good, as it does after one full disk, and there is room again. It looks only
// when something failed since it last found all well. Only the flusher calls it:
// no flush is under way. In a cluster healing.go does it.
//
// The flush that failed is in the stream, or not, or cut: the server removes a
// message that is cut when it starts. Sent again it may be there twice; a start
// drops the repeat (package replica).
func (j *Journal) revive(ctx context.Context) error {
	if !j.suspect.Load() || j.cfg.clustered() {
		return nil
	}
	wrong := j.server.Health()
	if wrong == nil {
		j.suspect.Store(false)
		return nil
	}
	if err := datadir.TryRoom(j.cfg.Dir); err != nil {
		return fmt.Errorf("%w: %w", err, wrong)
	}
	j.log.Warn("journal: the embedded server still reports an error although the disk has room; restarting it", "error", wrong)
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	j.server.Stop()
	if err := j.server.Start(ctx); err != nil {
		return err
	}
	if err := j.server.AwaitJetStream(ctx); err != nil {
		return err
	}
	if err := j.continues(ctx); err != nil {
		j.server.Stop()
		return err
	}
	j.stats.revivals.Add(1)
	j.suspect.Store(false)
	return nil
}

// continues tells whether a server that was restarted has all that was acknowledged.
func (j *Journal) continues(ctx context.Context) error {
	_, missing, err := stream.Open(ctx, j.server.JetStream(), identityOf(j.manifest), j.server.Replicas, false)
	if err == nil && len(missing) > 0 {
		err = &record.DamageError{Findings: missing}
	}
	if err != nil {
		return err
	}
	_, last, _, err := j.store.Bounds(ctx)
	if err == nil && last < j.flusher.Last() {
		err = fmt.Errorf("the journal ends at message %d, and %d was acknowledged: stop the server, and look with weir verify", last, j.flusher.Last())
	}
	return err
}
