package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/weir-counter/weir/journal/join"
)

// revive ends the embedded server and starts it anew if it refuses to write for
// good, as it does after one full disk, and there is room again. It looks only
// when something failed since it last found all well. Only the flusher calls it:
// no flush is under way.
//
// The flush that failed is in the stream, or not, or cut: the server removes a
// message that is cut when it starts. Sent again it may be there twice; a start
// drops the repeat (audit.go).
func (j *Journal) revive(ctx context.Context) error {
	if !j.suspect.Load() || j.cfg.clustered() { // among others a server is unwell for as long as it has no quorum
		return nil
	}
	wrong := j.server.Health()
	if wrong == nil {
		j.suspect.Store(false)
		return nil
	}
	if err := tryRoom(j.cfg.Dir); err != nil {
		return fmt.Errorf("%w: make room on the disk of the data directory (%w)", wrong, err)
	}
	j.log.Warn("journal: the embedded server keeps an error though there is room: it is started anew", "error", wrong)
	j.server.Close()
	server, err := startServer(ctx, j.cfg)
	if err != nil {
		return err
	}
	if err := j.continueOn(ctx, server); err != nil {
		server.Close()
		return err
	}
	j.server = server
	j.stats.revivals.Add(1)
	j.suspect.Store(false)
	return nil
}

// continueOn moves the store to another server, which must have all that was
// acknowledged.
func (j *Journal) continueOn(ctx context.Context, server *join.Node) error {
	opened, missing, err := openStore(ctx, server, j.manifest, false)
	if err == nil && len(missing) > 0 {
		err = &DamageError{Findings: missing}
	}
	if err != nil {
		return err
	}
	_, last, _, err := opened.bounds(ctx)
	if err == nil && last < j.flusher.last {
		err = fmt.Errorf("the journal ends at message %d, and %d was acknowledged: stop the server, and look with weir verify", last, j.flusher.last)
	}
	if err == nil {
		j.store.at.Store(opened.at.Load())
	}
	return err
}

// roomBytes is more than any message is with its frame.
const roomBytes = 2 << 20

// tryRoom tells whether the disk takes some MiB.
func tryRoom(dir string) (err error) {
	file, err := os.OpenFile(filepath.Join(dir, roomFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if _, err := file.Write(make([]byte, roomBytes)); err != nil {
		return err
	}
	return file.Sync()
}
