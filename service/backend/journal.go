package backend

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/weir-counter/weir/api"
)

// Journal is what a Service needs of the journal that keeps its engine's hits
// on disk. It knows no journal, so whoever wires the two adapts it.
type Journal interface {
	// Sync returns when every hit counted before the call is on disk, or else
	// an error: the hits then may reach the disk later, or not.
	Sync(ctx context.Context) error
	// Backup writes one file with every hit counted before the call. It is ended
	// by ctx.
	Backup(ctx context.Context, w io.Writer) error
	Restorer
	// Stats is called for each scrape and each /v1/stats.
	Stats() JournalStats
	// Alarms are what is wrong now. It is called for each scrape, each /readyz, each
	// /v1/stats and each /v1/cluster, and waits for nobody.
	Alarms() []api.Alarm
}

// JournalStats are the figures of a journal since it was opened.
type JournalStats struct {
	Epoch      uint64        // the life of the process that writes it
	Flushes    uint64        // that are on disk
	Bytes      uint64        // of them
	Retained   int64         // bytes of journal that are retained, of all nodes
	LastFlush  time.Duration // that the last one took
	Failures   uint64        // of attempts to write a flush
	Failing    bool          // the last attempt failed
	Revivals   uint64        // of the embedded server, after a full disk
	Rounds     uint64        // of snapshots
	Fresh      uint64        // rounds for fresh answers
	NotFresh   uint64        // of these, those that ended without one
	LongestCut time.Duration // that a partition was locked to take its state

	// What following other nodes found.
	Holes      uint64 // messages that no replica had
	Repaired   uint64 // flushes that the journal lost, and that their nodes sent again
	Divergence uint64 // findings of other nodes' hits that are missing here

	// What the journal found when it was opened.
	Replayed   uint64 // flushes read back
	Repeats    uint64 // messages and batches that came twice, and were dropped
	Unfinished uint64 // flushes that a crash cut off: never acknowledged
	Lossy      int    // findings of damage that lost hits
	Harmless   int    // findings of damage that lost none
}

// Why a Journal did not restore a backup. Any other error is the server's own.
var (
	ErrRestoring     = errors.New("another backup is being restored")
	ErrCountedTwice  = errors.New("hits of the backup are counted already")
	ErrDamagedBackup = errors.New("the backup is damaged")
)

// Restorer restores backups into a journal in use.
type Restorer interface {
	// Restore reads a backup and adds it to all counts (merge), or makes them those of
	// the backup (replace). It is ended by ctx, and goes on when it is called again.
	Restore(ctx context.Context, backup io.Reader, mode string) (api.Restored, error)
}
