package region

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/tail"
	"github.com/weir-counter/weir/region/digest"
	"github.com/weir-counter/weir/region/ledger"
	"github.com/weir-counter/weir/region/view"
)

// Journal is what a Region needs of the journal that has what the region counts: a *journal.Journal.
type Journal interface {
	ID() uint64
	Joined() *join.Node
	Bounds(ctx context.Context) (first, last uint64, err error)
	Moment(ctx context.Context) (upTo uint64, asOf time.Time, late []replica.OriginStatus, err error)
	ReadFlushes(ctx context.Context, t *tail.Flushes, upTo uint64, f func(flush []record.Part) error) error
	StoredSnapshots(ctx context.Context, partition int) ([]record.StoredSnapshot, error)
	ReadSnapshot(ctx context.Context, stored record.StoredSnapshot) (record.Snapshot, error)
}

// Region is this node's part of a region. It has a goroutine of its own, one for its heartbeats and one for each link, all
// until Close.
type Region struct {
	cfg        Config
	engine     weir.Config // of views, but for partitions and retention
	memory     int64       // of the engine whose hits the region counts
	journal    Journal
	log        *slog.Logger
	stream     store
	conn       *nats.Conn // to the other nodes of the region; nil: of a simulation
	now        func() time.Time
	node       string // tells this node from the others of its region
	alone      bool   // there are no others
	pieceBytes int    // of bases, at most
	views      *view.Views
	recent     recent

	// Of the goroutine that runs.
	sum      *digest.Sum
	tail     *tail.Flushes      // nil: to be found out where to go on
	after    digest.ID          // the digest of this region that tail and sum go on from
	asked    time.Time          // when a hole in the log was found first
	restated time.Time          // when the totals of all partitions were told last
	building map[string]builder // which link brings the base of a region
	foreign  digest.ID          // of this region's name, as links showed it
	renewed  time.Time          // when an epoch was begun last, zero: not by this process
	rival    time.Time          // when an epoch of this region's name was seen last that it did not begin

	mu      sync.Mutex // guards what follows
	ledger  *ledger.Ledger
	changed chan struct{}        // closed with the next message of the log
	shown   map[string]shown     // by region
	twice   map[string]time.Time // names of two regions, and when that showed last
	first   uint64               // message of the log that is there
	damaged uint64               // messages of the log that could not be read
	unread  uint64               // flushes of the journal that no digest has

	told     atomic.Uint64 // the newest message of the log that was told of
	news     chan struct{}
	offers   chan offer
	forgets  chan forgetting
	ended    chan struct{} // closed with Close
	owner    ownership
	links    []*linkState
	moved    atomic.Int64 // when the goroutine came by last, Unix ns
	figures  figures
	unviewed atomic.Uint64 // messages that a view could not take

	subs    []*nats.Subscription
	stop    context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
	closed  error
}

// shown is what the windows of a region have, which readers may go by.
type shown struct {
	digest.ID
	at    int64 // Unix ms, as of a digest.Message
	note  *digest.Note
	gone  bool
	heard time.Time // when the newest digest came, by the monotonic clock
	lag   time.Duration
	bytes uint64 // of the region's messages since the start
}

// errClosed is why a region takes no more.
var errClosed = errors.New("region: closed")

// Open makes a journal one of a region, and reads the region's log: then the windows of other regions are as they were.
func Open(ctx context.Context, j Journal, engine weir.Config, cfg Config) (*Region, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(engine); err != nil {
		return nil, err
	}
	log, err := openLog(ctx, j.Joined(), j.ID())
	if err != nil {
		return nil, err
	}
	r := newRegion(cfg, j, log, engine)
	r.conn = j.Joined().Conn()
	if err := r.load(ctx); err != nil {
		return nil, errors.Join(err, r.views.Close())
	}
	if err := r.listen(); err != nil {
		return nil, errors.Join(err, r.views.Close())
	}
	run, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.owner.begin(time.Now(), r.alone)
	r.moved.Store(time.Now().UnixNano())
	r.running.Go(func() { r.run(run) })
	r.running.Go(func() { r.beat(run) })
	return r, nil
}

// newRegion returns one that does nothing by itself.
func newRegion(cfg Config, j Journal, log store, engine weir.Config) *Region {
	memory := engine.Memory
	engine.Memory = cfg.Memory
	r := &Region{
		cfg: cfg, engine: engine, memory: memory, journal: j, log: cfg.Logger, stream: log, now: time.Now, views: view.New(viewConfig(engine), cfg.Others), building: map[string]builder{},
		changed: make(chan struct{}), shown: map[string]shown{}, twice: map[string]time.Time{}, news: make(chan struct{}, 1), offers: make(chan offer), forgets: make(chan forgetting), ended: make(chan struct{}),
		sum: digest.NewSum(engine.Partitions), alone: cfg.Alone, pieceBytes: digest.PieceBytes,
	}
	r.node = r.now().UTC().Format("150405.000") + "-" + rand.Text()[:4]
	for i, l := range cfg.Links {
		r.links = append(r.links, &linkState{Link: l, number: i, traffic: newTraffic()})
	}
	return r
}

// viewConfig is that of engines which show what others count: they decide on no limits, and take no requests.
func viewConfig(cfg weir.Config) weir.Config {
	cfg.LimitMemory, cfg.OnceMemory = 64<<10, 64<<10
	return cfg
}

func (r *Region) listen() error {
	news, err := listen(r.conn, r.hear)
	if err != nil {
		return err
	}
	r.subs = append(r.subs, news)
	return r.listenOwners()
}

// hear wakes the goroutine that follows.
func (r *Region) hear(sequence uint64) {
	for was := r.told.Load(); sequence > was; was = r.told.Load() {
		if r.told.CompareAndSwap(was, sequence) {
			select {
			case r.news <- struct{}{}:
			default:
			}
			return
		}
	}
}

// Name is this region's.
func (r *Region) Name() string { return r.cfg.Name }

// Read calls f with the engine of each other region (view.Views).
func (r *Region) Read(f func(region string, e *weir.Engine) error) error { return r.views.Read(f) }

// Close ends the region's work on this node. Another node goes on, or this one when it is started again.
func (r *Region) Close(context.Context) error {
	r.closing.Do(func() {
		close(r.ended)
		r.stop()
		r.running.Wait()
		for _, sub := range r.subs {
			_ = sub.Unsubscribe() // fails with the connection only, which ends it too
		}
		r.closed = r.views.Close()
	})
	return r.closed
}
