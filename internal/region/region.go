// Package region makes the journal of a node or a cluster one region of several. It writes digests of what the region
// counts, takes the digests of other regions over links, and keeps windows of these.
//
// All of it goes through one log, a JetStream stream of the region, which every node reads in order (follow.go). The Ledger
// says what is new, and the Views have the windows. One node, the owner, writes the log: own digests (digests.go), bases
// (base.go), and what links bring (links.go). Any node serves the log to other regions (feed.go).
//
// Invariants: an append names the message that it follows, so a node that has not read the whole log writes nothing. A
// digest begins at the position in the journal where the one before it in the log ends. Hits of the region never wait for
// any of this.
package region

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/settings"
)

// Journal is what a Region needs of the journal of the hits that it counts. It is a *durable.Journal, or simulated.
type Journal interface {
	ID() uint64
	Joined() *transport.Node
	Bounds(ctx context.Context) (first, last uint64, err error)
	Moment(ctx context.Context) (upTo uint64, asOf time.Time, late []replica.OriginStatus, err error)
	ReadFlushes(ctx context.Context, t *replica.TailFlushes, upTo uint64, f func(flush []record.Part) error) error
	StoredSnapshots(ctx context.Context, partition int) ([]record.StoredSnapshot, error)
	ReadSnapshot(ctx context.Context, stored record.StoredSnapshot) (record.Snapshot, error)
}

// Region is this node's part of a region. It has a goroutine of its own, and one for each link, all until Close.
type Region struct {
	cfg        Config
	engine     engine.Config // of views, but for partitions and retention
	memory     int64         // of the engine whose hits the region counts
	journal    Journal
	log        *slog.Logger
	stream     store
	now        func() time.Time
	pieceBytes int // of bases, at most
	views      *Views
	recent     recent

	// Of the goroutine that runs.
	sum      *Sum
	tail     *replica.TailFlushes // nil: to be found out where to go on
	after    ID                   // the digest of this region that tail and sum go on from
	asked    time.Time            // when a hole in the log was found first
	restated time.Time            // when a digest last had the totals of all partitions
	building map[string]builder   // which link brings the base of a region
	foreign  ID                   // of this region's name, as links showed it
	renewed  time.Time            // when an epoch was begun last, zero: not by this process
	rival    time.Time            // when an epoch of this region's name was seen last that it did not begin

	mu          sync.Mutex // guards what follows
	ledger      *Ledger
	changed     chan struct{}        // closed with the next message of the log
	shown       map[string]shown     // by region
	sharedNames map[string]time.Time // names of two regions, and when that showed last
	first       uint64               // message of the log that is there
	damaged     uint64               // messages of the log that could not be read
	unread      uint64               // flushes of the journal that no digest has

	appended *membership.HighWater      // of the log
	calls    chan func(context.Context) // for the goroutine that runs
	ended    chan struct{}              // closed with Close
	links    []*linkState
	figures  figures
	unviewed atomic.Uint64 // messages that a view could not take

	stop    context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
	closed  error
}

// shown is what the windows of a region have.
type shown struct {
	ID
	at    int64 // Unix ms, as of a Message
	note  *Note
	gone  bool
	heard time.Time // when the newest digest came, by the monotonic clock
	lag   time.Duration
	bytes uint64 // of the region's messages since the start
}

var errClosed = errors.New("region: closed")

// Open makes a journal one of a region, and reads the region's log, which restores the windows of other regions.
func Open(ctx context.Context, j Journal, e engine.Config, cfg Config) (*Region, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(e); err != nil {
		return nil, err
	}
	log, err := openLog(ctx, j.Joined(), j.ID())
	if err != nil {
		return nil, err
	}
	r := newRegion(cfg, j, log, e)
	r.appended = membership.NewHighWater(j.Joined().Conn(), r.log, newsSubject)
	if err := r.load(ctx); err != nil {
		return nil, errors.Join(err, r.views.Close())
	}
	if err := r.appended.Listen(); err != nil {
		return nil, errors.Join(err, r.views.Close())
	}
	run, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.running.Go(func() { r.run(run) })
	return r, nil
}

func newRegion(cfg Config, j Journal, log store, e engine.Config) *Region {
	memory := e.Memory
	e.Memory = cfg.Memory
	r := &Region{
		cfg: cfg, engine: e, memory: memory, journal: j, log: cfg.Logger, stream: log, now: time.Now, views: NewViews(viewConfig(e), cfg.Others), building: map[string]builder{},
		changed: make(chan struct{}), shown: map[string]shown{}, sharedNames: map[string]time.Time{}, calls: make(chan func(context.Context)), ended: make(chan struct{}),
		sum: NewSum(e.Partitions), pieceBytes: PieceBytes,
	}
	for i, l := range cfg.Links {
		r.links = append(r.links, &linkState{Link: l, number: i, traffic: newTraffic()})
	}
	return r
}

// viewConfig returns the configuration of engines that show what others count: they decide no limits, and take no requests.
func viewConfig(cfg engine.Config) engine.Config {
	cfg.LimitMemory, cfg.OnceMemory = 64<<10, 64<<10
	return cfg
}

// Region returns this region's name.
func (r *Region) Region() string { return r.cfg.Name }

// Read calls f with the engine of each other region (Views).
func (r *Region) Read(f func(region string, e *engine.Engine) error) error { return r.views.Read(f) }

// Close ends the region's work on this node. Another node continues it, or this one after a restart.
func (r *Region) Close(context.Context) error {
	r.closing.Do(func() {
		close(r.ended)
		r.stop()
		r.running.Wait()
		r.closed = r.views.Close()
	})
	return r.closed
}

// Config sets up a Region. Name must be given; zeros mean the defaults.
type Config struct {
	// Name is this region's: 1 to 64 letters, digits, '-', '_' and '.', the same on all its nodes, and no other region's.
	Name string

	// Links are the regions that this one pulls from. The same on all nodes of a region. At most 1000.
	Links []Link

	// Owner reports whether this node writes the log, as one node of a region at a time does. nil: no other node shares the journal.
	Owner func() bool

	// Every is the time between digests, 100 ms to 1 min, whole ms. 0: 1 s.
	Every time.Duration

	// Memory is the budget of the windows of each other region, in bytes. 0: 256 MiB.
	Memory int64

	// LogBytes is about what the log of digests takes of the disk, in addition to the journal. At least 64 MiB. 0: 2 GiB.
	LogBytes int64

	// Transport reaches other regions; nil: none can be reached.
	Transport http.RoundTripper

	// Others, if not nil, is called with the number of other regions that have windows here, each with its budget, when that
	// changes.
	Others func(regions int)

	// Logger takes messages. nil: none.
	Logger *slog.Logger
}

// Link is a region that this one pulls digests from.
type Link struct {
	Region string
	URL    string                 // of any listener of the region: http[s]://host:port, without a path
	Token  func() (string, error) // for each connection; nil: none
}

const (
	defaultEvery    = time.Second
	defaultMemory   = 256 << 20
	defaultLogBytes = 2 << 30
	minLogBytes     = 64 << 20
	maxLinks        = 1000
)

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (cfg Config) WithDefaults() Config {
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
	cfg.Memory = cmp.Or(cfg.Memory, defaultMemory)
	cfg.LogBytes = cmp.Or(cfg.LogBytes, defaultLogBytes)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg
}

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field that is not valid. e is the configuration
// of the engine whose hits the region counts.
func (cfg Config) Validate(e engine.Config) error {
	cfg = cfg.WithDefaults()
	if err := CheckName(cfg.Name); err != nil {
		return settings.Invalid("Name", err.Error())
	}
	if len(cfg.Links) > maxLinks {
		return settings.Invalid("Links", fmt.Sprintf("%d links: at most %d", len(cfg.Links), maxLinks))
	}
	names := map[string]bool{}
	for _, l := range cfg.Links {
		switch err := CheckName(l.Region); {
		case err != nil:
			return settings.Invalid("Links", err.Error())
		case l.Region == cfg.Name:
			return settings.Invalid("Links", fmt.Sprintf("a link to %s, which is this region: leave it out", l.Region))
		case names[l.Region]:
			return settings.Invalid("Links", fmt.Sprintf("two links to region %s: give one, to an address that reaches any of its nodes", l.Region))
		}
		names[l.Region] = true
	}
	if err := settings.CheckDurations(settings.Duration{Field: "Every", Value: cfg.Every, Low: 100 * time.Millisecond, High: time.Minute}); err != nil {
		return err
	}
	if cfg.Every%time.Millisecond != 0 {
		return settings.Invalid("Every", fmt.Sprintf("Every of %v: whole milliseconds", cfg.Every))
	}
	if err := settings.CheckNumbers(settings.Number{Field: "LogBytes", Value: cfg.LogBytes, Low: minLogBytes, High: 1 << 50}); err != nil {
		return err
	}
	e.Memory = cfg.Memory
	if err := e.Validate(); err != nil {
		return settings.Invalid("Memory", err.Error())
	}
	return nil
}

// alarmAfter is how long a fault that may pass must last to be an alarm.
const alarmAfter = 15 * time.Second

// Alarms returns what is wrong now, without waiting.
func (r *Region) Alarms() (list []api.Alarm) {
	add := func(code, format string, args ...any) {
		list = append(list, api.Alarm{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	f := r.Status()
	r.figures.mu.Lock()
	failure, since := r.figures.failure, r.figures.since
	r.figures.mu.Unlock()
	if failure != "" && time.Since(since) > alarmAfter {
		add("region_log_failing", "the log of digests can't be written or read (%s), so other regions have nothing newer of this one, and this one nothing newer of them. What is counted here is safe, and follows once it can", failure)
	}
	if lost := f.Damaged + f.Unread + f.Missing; lost > 0 {
		add("region_divergence", "hits are missing in counts of all regions: %d messages of the log of digests could not be read, %d parts of flushes were lost by the journal, %d messages could not be counted (since the start; the log says which)", f.Damaged, f.Unread, f.Missing)
	}
	for _, s := range f.Regions {
		switch age := time.Since(s.AsOf.Time); {
		case s.Self || s.Gone:
		case s.Epoch == 0:
			add("region_unknown", "nothing came of region %s yet, to which there is a link: counts of all regions lack its hits", s.Region)
		case s.Late && s.HeardS > alarmAfter.Seconds():
			add("region_late", "nothing came of region %s for %.0fs: counts of all regions lack its newer hits. If it is gone for good: weir region forget %s", s.Region, s.HeardS, s.Region)
		case s.Late && age > alarmAfter:
			add("region_late", "what came of region %s is %v old: counts of all regions lack its newer hits", s.Region, age.Round(time.Second))
		}
		if s.Wrong > 0 {
			add("region_divergence", "%d batches of region %s do not go on from those before them: counts of all regions may lack hits of it", s.Wrong, s.Region)
		}
	}
	for _, name := range r.namesTwice() {
		add("region_name_twice", "two regions have the name %s, and take each other's place in all counts: give one of them another --region and an empty data directory", name)
	}
	for _, l := range f.Links {
		if f.Owner && !l.Up && l.Why != "" && l.ForS > alarmAfter.Seconds() {
			add("region_link_down", "the link to region %s (%s) is down for %.0fs: %s", l.Region, l.URL, l.ForS, l.Why)
		}
	}
	return list
}

// owns reports whether this node is the owner, which appends to the log. Two owners would do no harm, because each append names the message
// that it follows.
func (r *Region) owns() bool { return r.cfg.Owner == nil || r.cfg.Owner() }

// pollEvery is how often the log is read without an announcement.
const pollEvery = 500 * time.Millisecond

// run follows the log, and writes it while this node is the owner.
func (r *Region) run(ctx context.Context) {
	next := time.NewTicker(r.cfg.Every)
	defer next.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var stop func() // while this node pulls from links
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-r.appended.News():
			err = r.followTo(ctx, r.appended.Last())
		case <-poll.C:
			err = r.follow(ctx)
		case call := <-r.calls:
			call(ctx)
			continue
		case <-next.C:
			own := r.owns()
			if own && stop == nil {
				r.log.Info("regions: this node writes the digests of the region now", "region", r.cfg.Name)
				err = r.follow(ctx)
			}
			if own && err == nil {
				err = r.write(ctx)
			}
			switch {
			case own && stop == nil: // after the first digest: links say which epoch this region has
				stop = r.pullAll(ctx)
			case !own && stop != nil:
				stop()
				stop = nil
			}
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errBehind) {
			err = r.follow(ctx)
		}
		switch began, ended := r.figures.failing(err); {
		case ended:
			r.log.Info("regions: digests are written and read again")
		case began:
			r.log.Warn("regions: will retry", "error", err)
		}
	}
}

func (r *Region) write(ctx context.Context) error {
	if err := r.digest(ctx); err != nil {
		return err
	}
	return r.renewBases(ctx)
}

// do has the goroutine that runs call f, and returns its error.
func (r *Region) do(ctx context.Context, f func(ctx context.Context) error) error {
	done := make(chan error, 1)
	select {
	case r.calls <- func(ctx context.Context) { done <- f(ctx) }:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ended:
		return errClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// append appends a message, and takes it. After an error, the caller must not append the messages that follow it.
func (r *Region) append(ctx context.Context, m entry) error {
	after := r.ledger.Next() - 1
	sequence, err := r.stream.append(ctx, after, m)
	if err != nil {
		r.tail = nil // what was read of the journal beyond the last digest is to be read again
		return err
	}
	if sequence != after+1 { // the server checks it
		r.tail = nil
		return errBehind
	}
	r.take(ctx, sequence, m)
	return nil
}
