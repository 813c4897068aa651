// Package checkpoint takes the snapshots of a journal in use, trims the journal behind them, and loads them at a start. It also has the
// files of a data directory.
//
// Invariants:
//   - A partition has two slots, and the older one is written over: a damaged snapshot falls back to the one before.
//   - A snapshot is stored once its own hits came back from the journal.
//   - The journal is trimmed only below what all slots need, by the node that holds the lease.
//   - While a backup has pinned the snapshots no round begins, unless the journal would run full.
//
// Package replica decides when and what (Rounds, Space), and package stream stores. Package durable hands over what it has cut, and says
// who has the lease and who holds which partitions.
package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// Config is what a Checkpointer works with; all fields are needed, except those that
// only a cluster has.
type Config struct {
	Engine  *engine.Engine
	Replica *replica.Replica
	Store   *stream.Store
	Logger  *slog.Logger

	FlushEvery    time.Duration // how often states can be cut
	SnapshotBytes int64         // by how much the journal grows between rounds, if it has space

	Space   *replica.Space                  // how much space the journal takes
	Hurry   func()                          // begins a flush at once
	Suspect func()                          // something could not be stored: the server is to be looked at
	Needed  func(haste bool) (first uint64) // the first message that something other than snapshots needs; with haste: the first with data that exists nowhere else; 0: none; nil: always none

	// Of many nodes.
	Clustered bool
	Node      string
	Held      func() (token uint64, held bool)                   // the lease for trimming
	Who       func(ctx context.Context) (node string, err error) // who has it; "": nobody
	Holders   func() Holders
}

// Holders are who holds which partitions, at one moment.
type Holders struct {
	Parted bool                                 // some node holds a share only
	Of     func(partition int) (nodes []string) // that run, the first the one that should most of all
}

// Checkpointer takes rounds of snapshots: every partition once, a few at each
// flush. Run stores them, so that flushes go on. A round starts
// when the journal has grown by Config.SnapshotBytes, or by the size of the round
// before if that is more. So snapshots never write more than the journal.
type Checkpointer struct {
	cfg   Config
	ended atomic.Uint64 // rounds
	work  chan []record.Snapshot
	wrote concurrency.Signal // something was stored

	unstored atomic.Pointer[error] // why the last snapshot that was tried could not be stored; nil: it was

	mu     sync.Mutex
	rounds replica.Rounds
	token  uint64 // of the lease under which the slots were read, among many nodes
	by     string // the node that had it
	pins   pins
}

// New returns one that knows of no snapshot: Begin follows.
func New(cfg Config) *Checkpointer {
	return &Checkpointer{cfg: cfg, work: make(chan []record.Snapshot, 1), wrote: concurrency.NewSignal(), pins: pins{turn: make(chan struct{}, 1)}}
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

func (c *Checkpointer) retake(partition int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds.Again(partition)
}

// InRound reports whether a round is under way.
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
			_ = concurrency.Do(len(snaps), func(i int) error {
				c.settleSnapshot(ctx, snaps[i])
				return nil
			})
			c.endOfBatch(ctx)
			if c.cfg.FlushEvery > hurryBeyond && c.InRound() {
				c.cfg.Hurry() // a round of many flushes would take hours of them, and nothing is trimmed meanwhile
			}
		case <-time.After(min(c.cfg.FlushEvery, hurryBeyond)):
			if c.cfg.FlushEvery > hurryBeyond && c.cfg.Engine.Keyspace().Crowded() {
				c.cfg.Hurry() // or they are refused until the interval is over
			}
			if c.cfg.Space.EndsPin() {
				c.endPin(ErrTooSlow)
			}
			if c.roundDue() && c.Look(ctx) {
				c.StartRound()
			}
		}
	}
}

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

// pins keep the snapshots and the journal as they are while a backup is taken:
// no round of snapshots starts.
type pins struct {
	turn   chan struct{}           // holds the one backup at a time
	cancel context.CancelCauseFunc // ends the backup; nil: none is running
	over   error                   // why no further backup may run; nil: it may
}

// pinPoll is how often a backup looks whether the round of snapshots that it
// waits for has ended. Rounds take a flush for every few partitions.
const pinPoll = 20 * time.Millisecond

// Pin waits for the other backup and for the round that is under way, unless that stands still. cancel is
// called when rounds must go on.
func (c *Checkpointer) Pin(ctx context.Context, cancel context.CancelCauseFunc, standsStill func() bool) error {
	select {
	case c.pins.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	over := c.pins.over
	if over == nil {
		c.pins.cancel = cancel
	}
	c.mu.Unlock()
	if over != nil {
		<-c.pins.turn
		return over
	}
	for c.InRound() && !standsStill() {
		select {
		case <-ctx.Done():
			c.Unpin()
			return context.Cause(ctx)
		case <-time.After(pinPoll):
		}
	}
	return nil
}

// Unpin ends what Pin began.
func (c *Checkpointer) Unpin() {
	c.mu.Lock()
	c.pins.cancel = nil
	c.mu.Unlock()
	<-c.pins.turn
}

// endPin ends the backup that is under way, if one is, so that rounds go on.
func (c *Checkpointer) endPin(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pins.cancel != nil {
		c.pins.cancel(cause)
		c.pins.cancel = nil
	}
}

// NoMorePins is endPin for good.
func (c *Checkpointer) NoMorePins(cause error) {
	c.endPin(cause)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pins.over = cause
}

// ErrTooSlow is why a backup is ended that keeps the journal from being trimmed.
var ErrTooSlow = errors.New("the backup was too slow: the journal must be trimmed, or it would fill the data directory: write the backup somewhere faster, or raise --max-disk")

// Rebase makes the loaded counts the new beginning, after damage was accepted.
// It snapshots every partition beyond whatever the journal had reached, and
// empties the journal up to there. Without it, each start would find the loss again, and a journal that was cut would use
// sequences a second time that snapshots include. If it is interrupted, the next start
// finds snapshots beyond the journal's end, and damage is to be accepted again.
func (s Start) Rebase(ctx context.Context, origin record.Incarnation, l *Loaded) error {
	target := l.Reached + 1
	for partition := range l.Have {
		snap := s.Replica.Rebased(origin, partition, target)
		slot, _ := replica.SlotFor(l.Have[partition], target)
		revision, err := s.Store.PutSnapshot(ctx, snap, slot, l.Have[partition][slot].Revision)
		if err != nil {
			return err
		}
		l.Have[partition] = [record.Slots]replica.Slot{} // the older one lacks what the journal loses now
		l.Have[partition][slot] = replica.Slot{UpTo: target + 1, Revision: revision}
	}
	l.Last, l.Bytes = target, 0
	return s.Store.Trim(ctx, target)
}

// keepTrimmed finds out how much journal there is. Where that is much, the node that trims does so between its rounds too: other nodes may
// have ended their rounds later.
func (c *Checkpointer) keepTrimmed(ctx context.Context) {
	c.LookAtSize(ctx)
	if !c.cfg.Space.Haste() || !c.Trims() || c.InRound() {
		return
	}
	if needed := c.neededByAll(ctx); needed > 1 {
		if err := c.trim(ctx, needed-1); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("journal: could not trim the journal; will retry", "error", err)
		}
	}
	if c.cfg.Space.EndsPin() {
		c.cfg.Logger.Warn("journal: can't be trimmed because the snapshots of some partitions are old; hits will be refused once it is full", "retained", c.cfg.Space.Retained(), "partitions", c.oldest())
	}
}

// LookAtSize asks how much journal there is, and which message is the last; known is false while nobody answers.
func (c *Checkpointer) LookAtSize(ctx context.Context) (last uint64, known bool) {
	ctx, cancel := context.WithTimeout(ctx, stream.AskTime)
	defer cancel()
	first, last, bytes, err := c.cfg.Store.Bounds(ctx)
	if err != nil {
		return 0, false
	}
	c.cfg.Space.Found(bytes)
	if c.cfg.Replica.Trimmed(first) {
		c.StartRound()
	}
	return last, true
}

// oldest are some of the partitions for whose snapshots the journal is kept.
func (c *Checkpointer) oldest() (list []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	needed := replica.OldestNeeded(c.rounds.Have)
	for partition, slots := range c.rounds.Have {
		if slices.ContainsFunc(slots[:], func(k replica.Slot) bool { return k.UpTo == needed }) && len(list) < 8 {
			list = append(list, partition)
		}
	}
	return list
}

// trim removes the journal up to and including a sequence, except what Config.Needed still needs.
func (c *Checkpointer) trim(ctx context.Context, upTo uint64) error {
	if c.cfg.Needed != nil {
		if needed := c.cfg.Needed(c.cfg.Space.Haste()); needed > 0 {
			upTo = min(upTo, needed-1)
		}
	}
	if upTo == 0 {
		return nil
	}
	if err := c.cfg.Store.Trim(ctx, upTo); err != nil {
		return err
	}
	c.LookAtSize(ctx)
	return nil
}

// One node alone takes all snapshots. Of many nodes, the one with the
// lease snapshots the partitions that it holds, and trims the journal. Other partitions are snapshotted by the first of their holders. If two
// nodes believe that they should, a slot takes one snapshot.

// Lease is the name of the lease for trimming.
const Lease = "snapshots"

// Trims reports whether this node trims the journal.
func (c *Checkpointer) Trims() bool {
	if !c.cfg.Clustered {
		return true
	}
	_, held := c.cfg.Held()
	return held
}

// toTake are the partitions that this node snapshots now, in order.
func (c *Checkpointer) toTake() (list []int) {
	all, trims := c.cfg.Engine.Config().Partitions, c.Trims()
	var holders Holders
	if !trims {
		if holders = c.cfg.Holders(); !holders.Parted {
			return nil
		}
	}
	by := c.takenBy()
	for partition := range all {
		if c.cfg.Engine.Keyspace().Holds(partition) && (trims || c.takesFor(holders, by, partition)) {
			list = append(list, partition)
		}
	}
	return list
}

// takesFor reports whether this node takes a snapshot in place of the one with the lease.
func (c *Checkpointer) takesFor(holders Holders, by string, partition int) bool {
	nodes := holders.Of(partition)
	return !slices.Contains(nodes, by) && len(nodes) > 0 && nodes[0] == c.cfg.Node
}

// Look finds out what others have stored: when the lease comes to this node,
// and where several nodes take snapshots before each round. It reports whether a round may
// start.
func (c *Checkpointer) Look(ctx context.Context) bool {
	if !c.cfg.Clustered {
		return true
	}
	token, trims := c.cfg.Held()
	if !c.cfg.Holders().Parted && (!trims || token == c.token) {
		return trims
	}
	by := c.cfg.Node
	if !trims {
		var err error
		if by, err = c.cfg.Who(ctx); err != nil {
			c.cfg.Logger.Warn("journal: could not find out which node takes the snapshots; will retry", "error", err)
			return false
		}
	}
	return c.listStored(ctx, by, token)
}

func (c *Checkpointer) listStored(ctx context.Context, by string, token uint64) bool {
	partitions := c.cfg.Engine.Config().Partitions
	lists, _, err := c.cfg.Store.ListSnapshots(ctx, partitions)
	if err != nil {
		c.cfg.Logger.Warn("journal: could not list the snapshots; will retry", "error", err)
		return false
	}
	have := make([][record.Slots]replica.Slot, partitions)
	for partition, list := range lists {
		for _, at := range list {
			have[partition][at.Slot] = replica.Slot{UpTo: at.From + 1, Revision: at.Sequence}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds.Have, c.token, c.by = have, token, by
	return true
}

// takenBy is the node that has the lease, as the last look at the snapshots found.
func (c *Checkpointer) takenBy() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by
}
