package checkpoint

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/parallel"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

// Config is what a Checkpointer works with; all of it is needed, but for what is said to be
// of many nodes.
type Config struct {
	Engine  *weir.Engine
	Replica *replica.Replica
	Store   *stream.Store
	Logger  *slog.Logger

	FlushEvery    time.Duration // how often states can be cut
	SnapshotBytes int64         // by how much the journal grows between rounds, if it has room

	Space   *replica.Space // how much room the journal takes
	Hurry   func()         // begins a flush at once
	Suspect func()         // something could not be stored: the server is to be looked at
	Needed  func() uint64  // the first message that something else than snapshots needs; 0: none; nil: there never is one

	// Of many nodes.
	Clustered bool
	Node      string
	Held      func() (token uint64, held bool)                   // the lease of those who trim
	Who       func(ctx context.Context) (node string, err error) // who has it; "": nobody
	Holders   func() Holders
}

// Holders are who holds which partitions, at one moment.
type Holders struct {
	Parted bool                                 // some node holds a share only
	Of     func(partition int) (nodes []string) // that run, the first the one that should most of all
}

// Checkpointer takes rounds of snapshots: every partition once, a few at each
// flush, stored by Run so that flushes go on. A round starts
// when the journal has grown by Config.SnapshotBytes, or by the size of the round
// before if that is more, so that snapshots never write more than the journal.
type Checkpointer struct {
	cfg   Config
	ended atomic.Uint64 // rounds
	work  chan []record.Snapshot
	wrote chan struct{} // something was stored

	unstored atomic.Pointer[error] // why the last snapshot that was tried could not be stored; nil: it was

	mu     sync.Mutex
	rounds replica.Rounds
	token  uint64 // of the lease under which the slots were read, among many nodes
	by     string // the node that had it
	pins   pins
}

// New returns one that knows of no snapshot: Begin follows.
func New(cfg Config) *Checkpointer {
	return &Checkpointer{cfg: cfg, work: make(chan []record.Snapshot, 1), wrote: make(chan struct{}, 1), pins: pins{turn: make(chan struct{}, 1)}}
}

// Begin says what the slots have, by partition. It is called once, before Run.
func (c *Checkpointer) Begin(have [][record.Slots]replica.Slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds.Have = have
}

// StartRound starts a round of the partitions whose snapshots are this node's to take.
func (c *Checkpointer) StartRound() {
	todo := c.toTake()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.rounds.UnderWay && c.pins.cancel == nil {
		c.rounds.Start(todo)
		c.cfg.Space.RoundBegan()
	}
}

// retake puts a partition back into the round.
func (c *Checkpointer) retake(partition int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds.Again(partition)
}

// InRound tells whether a round is under way.
func (c *Checkpointer) InRound() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rounds.UnderWay
}

// Due are the partitions whose state the next flush is to take.
func (c *Checkpointer) Due(haste bool) map[int]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rounds.Due(haste)
}

// Offer hands acknowledged snapshots to the goroutine, which has none: see replica.Rounds.
func (c *Checkpointer) Offer(due map[int]bool, snaps []record.Snapshot, later []int) {
	if len(due) == 0 {
		return
	}
	c.mu.Lock()
	c.rounds.Taken(due, later)
	c.mu.Unlock()
	c.work <- snaps
}

// Run takes rounds of snapshots, stores them and trims the journal, until ctx ends.
func (c *Checkpointer) Run(ctx context.Context) {
	looked := time.Now()
	for {
		if c.cfg.Clustered && time.Since(looked) > replica.LookEvery {
			c.keepTrimmed(ctx)
			looked = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case snaps := <-c.work:
			_ = parallel.Do(len(snaps), func(i int) error {
				c.settleSnapshot(ctx, snaps[i])
				return nil
			})
			c.endOfBatch(ctx)
			if c.cfg.FlushEvery > hurryBeyond && c.InRound() {
				c.cfg.Hurry() // a round of many flushes would take hours of them, and nothing is trimmed meanwhile
			}
		case <-time.After(min(c.cfg.FlushEvery, hurryBeyond)):
			if c.cfg.FlushEvery > hurryBeyond && replication.Of(c.cfg.Engine).Crowded() {
				c.cfg.Hurry() // or they are refused until the interval is over
			}
			if c.cfg.Space.Room().EndsPin(c.cfg.Space.Retained()) {
				c.endPin(ErrTooSlow)
			}
			if c.roundDue() && c.Look(ctx) {
				c.StartRound()
			}
		}
	}
}

// roundDue tells whether a round of snapshots should start.
func (c *Checkpointer) roundDue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rounds.StartNow(time.Now(), c.cfg.Space, c.cfg.SnapshotBytes)
}

// Pause lets no round begin until then.
func (c *Checkpointer) Pause(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds.Pause(until)
}

// hurryBeyond is how long flushes may be apart before they are hurried: a round needs
// many of them.
const hurryBeyond = 100 * time.Millisecond

// Stored receives after snapshots were stored, or could not be.
func (c *Checkpointer) Stored() <-chan struct{} { return c.wrote }

// Rounds is how many have ended.
func (c *Checkpointer) Rounds() uint64 { return c.ended.Load() }

// Unstored is why the last snapshot that was tried could not be stored; nil: it was.
func (c *Checkpointer) Unstored() error {
	if err := c.unstored.Load(); err != nil {
		return *err
	}
	return nil
}
