package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/concurrency"
)

// SenderOptions change how a Sender works. The zero value of every field stands for its default.
type SenderOptions struct {
	// Every is how often hits are sent, 1 ms to an hour. They are sent sooner if they fill a half of the bound. Default 100 ms.
	Every time.Duration
	// MaxLines and MaxBytes bound the hits that wait or are being sent. A line is a key in a second, and takes 320 bytes in
	// addition to its key. Defaults 100,000 lines and 32 MiB.
	MaxLines int
	MaxBytes int64
	// Timeout bounds one attempt to send a batch, and so does Options.Timeout. Default 5 s.
	Timeout time.Duration
	// GiveUp is how long a batch that got no answer is repeated at the node that may have counted it. Default 5 min, at most 9:
	// a server remembers idempotency keys for ten.
	GiveUp time.Duration
	// AtLeastOnce sends such a batch to any node after GiveUp. It may count twice there if the nodes are not of one cluster.
	// Default: it is dropped then, and counted in SenderStats.InDoubt.
	AtLeastOnce bool
	// Notify, if not nil, is called with what keeps hits from being counted, by one goroutine at a time. It must return soon.
	Notify func(error)
}

// The errors of hits that a Sender does not take.
var (
	// ErrFull says that SenderOptions.MaxLines or MaxBytes is reached: servers are unreachable or slow, or there are too many
	// keys a second for the bound. The hit is not taken. Hits of a key and second that already wait are still taken.
	ErrFull = errors.New("the bound of hits that wait is reached: this hit was not taken")
	// ErrClosed says that the Sender was closed.
	ErrClosed = errors.New("the sender is closed: this hit was not taken")
)

// Sender sums up hits in this process, by key and second, and sends the sums with a Client. A hit costs a hash and a look-up,
// and no request. A Sender is safe for many goroutines. Create it with NewSender, and Close it, or hits that were not yet sent
// are lost.
//
// Hits wait in memory while no server takes them, in lines of a key and second, up to a bound. Beyond it Hit returns ErrFull.
//
// Each hit counts once. A batch that got no answer may have been counted. So it is repeated under the same idempotency key at
// the same node, which remembers the key also after a restart. Meanwhile new hits go to the other nodes. If the node is
// unreachable for longer than SenderOptions.GiveUp, the batch is dropped, or sent to another node: see AtLeastOnce. In a cluster the other nodes know the key too by then. So the batch counts twice only if the node counted it
// while it was cut off from them, and returns.
//
// A server that is killed may lose what it answered within the last flush interval. With Options.Durable it does not.
type Sender struct {
	client *Client
	opts   SenderOptions
	table  *sumTable

	wake    concurrency.Signal // something can be sent at once
	stop    context.CancelFunc
	ended   chan struct{} // closed when no goroutine is left
	closing chan struct{} // closed by Close
	notify  sync.Mutex    // one call of Notify at a time

	mu       sync.Mutex // guards all below
	closed   bool
	epoch    uint64         // of the next lines that are taken from the table
	open     map[uint64]int // by epoch: how many lines were taken and are not settled
	failures []error        // of the last attempt at each node; nil: it succeeded, or there was none
	changed  chan struct{}  // closed and replaced after each attempt
	stats    SenderStats
}

// SenderStats are what became of hits so far: Taken = Counted + TooLate + Rejected + InDoubt + Waiting.
type SenderStats struct {
	Taken    uint64 // hits that Hit took
	Refused  uint64 // hits that it did not take, with ErrFull
	Counted  uint64 // by a server
	TooLate  uint64 // not counted: older than the server's retention
	Rejected uint64 // not counted because they are not valid; Notify has the reasons
	InDoubt  uint64 // given up: whether they were counted is not known
	Waiting  uint64 // the rest: not sent, or not answered
	Repeated uint64 // attempts to send a batch after its first
	Lines    int64  // that count for MaxLines
	Bytes    int64  // that count for MaxBytes
}

// NewSender returns a Sender, and starts its goroutine. It does not connect: servers may start later.
func NewSender(c *Client, o SenderOptions) (*Sender, error) {
	if c == nil {
		return nil, errors.New("sender: no client: make one with New")
	}
	o.Every = cmp.Or(o.Every, 100*time.Millisecond)
	o.MaxLines = cmp.Or(o.MaxLines, 100_000)
	o.MaxBytes = cmp.Or(o.MaxBytes, 32<<20)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.GiveUp = cmp.Or(o.GiveUp, 5*time.Minute)
	switch {
	case o.Every < time.Millisecond || o.Every > time.Hour:
		return nil, fmt.Errorf("sender: Every is %v: it must be 1 ms to an hour", o.Every)
	case o.MaxLines < 1 || o.MaxBytes < maxSumKeyBytes+sumLineBytes:
		return nil, fmt.Errorf("sender: MaxLines is %d, MaxBytes %d: they must hold at least one line of %d bytes", o.MaxLines, o.MaxBytes, maxSumKeyBytes+sumLineBytes)
	case o.Timeout < 0 || o.GiveUp < 0 || o.GiveUp > 9*time.Minute:
		return nil, fmt.Errorf("sender: Timeout is %v, GiveUp %v: neither may be negative, nor GiveUp more than 9 min", o.Timeout, o.GiveUp)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Sender{
		client: c, opts: o, table: newSumTable(o.MaxLines, o.MaxBytes), wake: concurrency.NewSignal(), stop: stop, ended: make(chan struct{}),
		open: map[uint64]int{}, failures: make([]error, c.nodes.count()), closing: make(chan struct{}), changed: make(chan struct{}),
	}
	s.table.overHalf = s.wake.Raise
	go s.run(ctx)
	return s, nil
}

// Hit counts one hit of the key now. The error is ErrFull, ErrClosed, or what is wrong with the key.
func (s *Sender) Hit(key string) error { return s.HitAt(time.Now(), key, 1) }

// HitN counts n hits of the key now, 1 to 2^40.
func (s *Sender) HitN(key string, n uint64) error { return s.HitAt(time.Now(), key, n) }

// HitAt counts n hits of the key at a time. Servers reject hits of the future (weir serve --max-ahead, 5 s).
func (s *Sender) HitAt(at time.Time, key string, n uint64) error {
	return s.table.Add(key, at.Unix(), n)
}

// closeTimeout is how long Close waits if ctx has no deadline: for an attempt that gets no answer, and a pause.
const closeTimeout = 10 * time.Second

var errCloseTimeout = fmt.Errorf("not within %v: %w", closeTimeout, context.DeadlineExceeded)

// Flush sends all hits that were taken before, and blocks until it is known what became of them, or ctx ends. Give ctx a
// deadline, because hits wait for servers that are unreachable or refuse them. The error says why they wait.
func (s *Sender) Flush(ctx context.Context) error {
	return s.flush(ctx, func() bool { return false })
}

// flush is Flush. It also ends when end returns true, which it calls after each change.
func (s *Sender) flush(ctx context.Context, end func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	upTo := s.epoch
	s.wake.Raise()
	for {
		waits := s.epoch <= upTo
		for epoch := range s.open {
			waits = waits || epoch <= upTo
		}
		if !waits {
			return nil
		}
		if end() {
			return s.unsent(nil)
		}
		changed := s.changed
		s.mu.Unlock()
		var ended error
		select {
		case <-changed:
		case <-ctx.Done():
			ended = context.Cause(ctx)
		case <-s.ended:
			ended = ErrClosed
		}
		s.mu.Lock()
		if errors.Is(ended, ErrClosed) {
			return ended
		} else if ended != nil {
			return s.unsent(ended)
		}
	}
}

// unsent returns the error of hits that still wait: how many, why the wait ended, and how the last attempt at each node failed.
// The caller holds mu.
func (s *Sender) unsent(end error) error {
	why := []error{end}
	for at, err := range s.failures {
		if err != nil {
			why = append(why, fmt.Errorf("%s: %w", s.address(at), err))
		}
	}
	return fmt.Errorf("%d hits are not sent or not answered: %w", s.sum().Waiting, errors.Join(why...))
}

func (s *Sender) address(at int) string { return s.client.nodes.bases[at].Redacted() }

// Close takes no further hits, flushes, and stops. It ends with ctx, or after 10 s if ctx has no deadline. It ends at once if
// every node refuses this Sender with 401 or 403: its token or role is wrong. The error says how many hits were not sent and
// why, were not counted, or are in doubt. Later calls return ErrClosed.
func (s *Sender) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	clear(s.failures) // each node is asked once more
	close(s.closing)
	s.mu.Unlock()
	s.table.Close()
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, closeTimeout, errCloseTimeout)
		defer cancel()
	}
	err := s.flush(ctx, func() bool {
		return !slices.ContainsFunc(s.failures, func(err error) bool {
			refused, ok := errors.AsType[*Error](err)
			return !ok || !refused.denies()
		})
	})
	s.stop()
	<-s.ended
	if st := s.Stats(); err == nil && st.Rejected+st.TooLate+st.InDoubt > 0 {
		err = fmt.Errorf("of %d hits %d were rejected, %d too late, and of %d nobody knows whether they count", st.Taken, st.Rejected, st.TooLate, st.InDoubt)
	}
	return err
}

// Stats returns what became of the hits so far.
func (s *Sender) Stats() SenderStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum()
}

// sum is Stats for a caller that holds mu.
func (s *Sender) sum() SenderStats {
	st, t := s.stats, s.table.Stats()
	st.Taken, st.Refused, st.Lines, st.Bytes = t.Taken, t.Refused, t.Lines, t.Bytes
	st.Waiting = st.Taken - st.Counted - st.TooLate - st.Rejected - st.InDoubt
	return st
}

// MaxHits is the most hits of one key at one time that a server takes as one line.
const MaxHits = 1 << 40

const maxSumKeyBytes = 512

// sumLineBytes is what a line takes at most in addition to its key: the line itself, its place in the table, and the spare
// capacity of both.
const sumLineBytes = 320

// sumLine is the hits of a key in one second.
type sumLine struct {
	Key    string
	Second int64 // Unix
	N      uint64
}

// Bytes is how much of the bound the line uses.
func (l *sumLine) Bytes() int64 { return int64(len(l.Key)) + sumLineBytes }

// sumTable adds up hits by key and second until they are taken, within a bound of lines and bytes. It is safe for many
// goroutines, and has no clock and no goroutine of its own.
//
// Lines that were taken still count for the bound, until they are released: they are still in memory.
type sumTable struct {
	maxLines, maxBytes int64
	lines, bytes       atomic.Int64 // within the bound, but for the moment until a line beyond it is taken back
	overHalf           func()       // called for each line beyond half of the bound: it is time to take them

	seed   maphash.Seed
	shards [64]shard
}

// shard has the lines of a share of the keys. A hit costs a hash, a lock with little contention and a look-up.
type shard struct {
	mu      sync.Mutex
	closed  bool
	places  map[place]int32 // in lines
	lines   []sumLine
	added   uint64 // hits, ever
	refused uint64 // hits beyond the bound
	_       [64]byte
}

type place struct {
	second int64
	key    string
}

// newSumTable returns an empty table of at most so many lines and bytes, both at least 1.
func newSumTable(lines int, bytes int64) *sumTable {
	t := &sumTable{maxLines: int64(lines), maxBytes: bytes, overHalf: func() {}, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].places = map[place]int32{}
	}
	return t
}

// Add adds n hits of a key in a Unix second. It keeps a copy of the key. Beyond the bound it returns ErrFull for hits that
// need a new line.
func (t *sumTable) Add(key string, second int64, n uint64) error {
	if n-1 >= MaxHits {
		return fmt.Errorf("%d hits: n must be 1 to %d", n, uint64(MaxHits))
	}
	s := &t.shards[maphash.String(t.seed, key)%uint64(len(t.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if i, ok := s.places[place{second, key}]; ok && s.lines[i].N <= MaxHits-n {
		s.lines[i].N += n
		s.added += n
		return nil
	}
	return t.begin(s, key, second, n)
}

// begin begins a line.
func (t *sumTable) begin(s *shard, key string, second int64, n uint64) error {
	switch {
	case len(key) < 1 || len(key) > maxSumKeyBytes:
		return fmt.Errorf("a key of %d bytes: it must have 1 to %d", len(key), maxSumKeyBytes)
	case !utf8.ValidString(key):
		return fmt.Errorf("key %q: it must be UTF-8", key)
	case key == "*" || strings.HasPrefix(key, "limit:"):
		return fmt.Errorf("key %q: the server counts it by itself, and takes no hits of it", key)
	case second < 0:
		return fmt.Errorf("a hit of %d s before 1970: is the clock set?", -second)
	}
	line := sumLine{strings.Clone(key), second, n}
	lines, bytes := t.lines.Add(1), t.bytes.Add(line.Bytes())
	if lines > t.maxLines || bytes > t.maxBytes {
		t.lines.Add(-1)
		t.bytes.Add(-line.Bytes())
		s.refused += n
		return ErrFull
	}
	if lines > t.maxLines/2 || bytes > t.maxBytes/2 {
		t.overHalf()
	}
	s.places[place{second, line.Key}] = int32(len(s.lines))
	s.lines = append(s.lines, line)
	s.added += n
	return nil
}

// Take returns all lines, each once, and leaves the table empty.
func (t *sumTable) Take() (all []sumLine) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if len(s.lines) > 0 {
			all = append(all, s.lines...)
			clear(s.lines) // the keys
			clear(s.places)
			s.lines = s.lines[:0]
		}
		s.mu.Unlock()
	}
	return all
}

// Release frees the part of the bound that lines used, after Take.
func (t *sumTable) Release(lines []sumLine) {
	for i := range lines {
		t.bytes.Add(-lines[i].Bytes())
	}
	t.lines.Add(-int64(len(lines)))
}

// Close refuses all further hits. What was added before can be taken.
func (t *sumTable) Close() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
}

// Stats returns Taken, Refused, Lines and Bytes.
func (t *sumTable) Stats() SenderStats {
	st := SenderStats{Lines: t.lines.Load(), Bytes: t.bytes.Load()}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		st.Taken += s.added
		st.Refused += s.refused
		s.mu.Unlock()
	}
	return st
}
