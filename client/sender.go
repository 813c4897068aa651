package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
