package journal

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/document"
	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/journal/checkpoint"
	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/groupcommit"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/restore"
	"github.com/weir-counter/weir/journal/stream"
)

// Journal keeps an engine's hits on disk. It owns the data directory, the
// embedded server and two goroutines, all until Close.
type Journal struct {
	cfg    Config
	engine *weir.Engine
	log    *slog.Logger

	lock   *datadir.Lock
	server *join.Node
	store  *stream.Store
	marks  *datadir.WatermarkWriter
	own    record.Incarnation

	manifest datadir.Manifest

	dirThere, serverThere *datadir.Presence // gone.go; nil where the server is not embedded

	suspect atomic.Bool // something failed since the server was found well

	replica     *replica.Replica
	flusher     *replica.Flusher // its goroutine's
	waiters     *groupcommit.Queue
	others      *others // nil: this node is alone
	checkpoints *checkpoint.Checkpointer
	space       replica.Space
	stats       stats
	written     atomic.Pointer[written]
	clocks      *peers.Clocks
	set         clockSetter
	found       []record.Finding // at Open

	stop    context.CancelCauseFunc
	failed  chan struct{} // closed when the journal can't go on
	failure error         // why; written before failed is closed
	failing sync.Once
	closing atomic.Bool // the last flushes are written, be there room or not
	leaving atomic.Bool // no hit comes any more
	running sync.WaitGroup
	closed  sync.Once

	carrying bool // what the directory had before is to be merged (offline.Carry)
	merges   *restore.Merges
	policies *document.Document
	restores *restore.Target
	handed   chan handedOver
	stopped  <-chan struct{} // the flusher takes no more
}

// Sync returns when every hit counted before the call is on disk. Many callers
// share one flush.
func (j *Journal) Sync(ctx context.Context) error {
	group := j.waiters.Join()
	select {
	case <-group.Done:
		return group.Err
	case <-ctx.Done():
		return fmt.Errorf("the hits are counted, but not yet on disk: %w", context.Cause(ctx))
	}
}

// Origin is this node's, 16 hex digits: that of its data directory.
func (j *Journal) Origin() string { return fmt.Sprintf("%016x", j.own.Origin) }

// Failed is closed when the journal can't go on, and Err says why: this process
// must be started again. Hits are refused once the buffer is full; none is lost.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err is why the journal failed; nil: it did not.
func (j *Journal) Err() error {
	select {
	case <-j.failed:
		return j.failure
	default:
		return nil
	}
}

// Policies is where policies that were put by API are kept, on all nodes.
func (j *Journal) Policies() *document.Document { return j.policies }

// fail ends the journal for err, and tells whether it was the first to.
func (j *Journal) fail(err error) (first bool) {
	j.failing.Do(func() {
		first, j.failure = true, err
		close(j.failed)
	})
	return first
}
