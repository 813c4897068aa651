package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// SenderOptions change how a Sender works. The zero value of every field stands for its default.
type SenderOptions struct {
	// Every is how often hits are sent; sooner, when they fill a half of the bound. Default 100 ms, 1 ms to an hour.
	Every time.Duration
	// MaxLines and MaxBytes bound the hits that wait or are under way. A line is a key in a second, and takes 320 bytes
	// beside its key. Defaults 100,000 lines and 32 MiB.
	MaxLines int
	MaxBytes int64
	// Timeout bounds one attempt to send a batch. Default 5 s. Options.Timeout bounds it too.
	Timeout time.Duration
	// GiveUp is how long a batch that got no answer is repeated at the node that may have counted it. Default
	// 5 min, at most 9: a server knows its requests for ten.
	GiveUp time.Duration
	// AtLeastOnce sends such a batch to any node after GiveUp, where it may count a second time if the nodes are not of one cluster. Default: it
	// is dropped then, and is among Stats.InDoubt.
	AtLeastOnce bool
	// Notify, if not nil, is told what keeps hits from being counted, by one goroutine at a time. It must
	// return soon.
	Notify func(error)
}

// The errors of hits that a Sender does not take.
var (
	// ErrFull says that SenderOptions.MaxLines or MaxBytes is reached: servers are away or slow, or there are more keys a second
	// than the bound has room for. The hit is not taken. Hits of a key and second that already wait still are.
	ErrFull = errSumsFull
	// ErrClosed says that the Sender was closed.
	ErrClosed = errSumsClosed
)

// A Sender sums up hits in this process, by key and second, and sends the sums with a Client. A hit costs a
// hash and a look-up, and no request. It may be used by many goroutines at once. Create it with
// NewSender, and Close it, or what was not yet sent is lost.
//
// Hits wait in memory while no server takes them, in lines of a key and second, up to a bound. Beyond it
// Hit returns ErrFull.
//
// Each hit counts once. A batch that got no answer may have been counted, so it is repeated under the same
// idempotency key at the same node, which knows it also after a restart; meanwhile new hits go to the
// other nodes. Only when that node is away for longer than SenderOptions.GiveUp, its batch (there is one
// at most) is dropped, or sent to another node: see AtLeastOnce. In a cluster the others know the
// batch too by then if the node was able to tell them, so that it counts twice only if the node had
// counted it while it was cut off from them, and comes back.
//
// A server may lose what it answered, for at most one flush interval, if it is killed: with Options.Durable it does not.
type Sender struct {
	client *Client
	opts   SenderOptions
	table  *sumTable

	wake  chan struct{} // has a place: something can be sent at once
	stop  context.CancelFunc
	ended chan struct{} // closed when no goroutine is left

	closed  atomic.Bool
	notify  sync.Mutex // one call of Notify at a time
	repeats sync.WaitGroup

	mu      sync.Mutex // guards all below
	epoch   uint64     // of the next lines that are taken from the table
	queue   []*batch   // to be sent, in this order
	open    map[*batch]struct{}
	nodes   []nodeState
	changed chan struct{} // closed and replaced when a batch is settled
	stats   SenderStats
}

// nodeState is what a Sender knows of a node.
type nodeState struct {
	failures int       // in a row
	notUntil time.Time // the next attempt
	doubt    *batch    // repeated there; no other batch is sent there meanwhile
	failure  error     // of the last attempt; nil: it went well, or there was none
	denied   bool      // the failure says that this Sender may not send: 401 or 403
}

// SenderStats are what became of hits so far:
// Taken = Counted + TooLate + Rejected + InDoubt + Waiting.
type SenderStats struct {
	Taken    uint64 // hits that Hit took
	Refused  uint64 // hits that it did not take, with ErrFull
	Counted  uint64 // by a server
	TooLate  uint64 // not counted: older than the server's retention
	Rejected uint64 // not counted by a server for what they are; Notify has the reasons
	InDoubt  uint64 // given up, and counted or not
	Waiting  uint64 // the rest: not sent, or not answered
	Repeated uint64 // attempts to send a batch beside its first
	Lines    int64  // that count for MaxLines
	Bytes    int64  // that count for MaxBytes
}

// NewSender makes a Sender, and starts its goroutine. It does not connect: a server may come later, and go.
func NewSender(c *Client, o SenderOptions) (*Sender, error) {
	if c == nil {
		return nil, errors.New("sender: no client: make one with New")
	}
	orDefault(&o.Every, 100*time.Millisecond)
	orDefault(&o.MaxLines, 100_000)
	orDefault(&o.MaxBytes, 32<<20)
	orDefault(&o.Timeout, 5*time.Second)
	orDefault(&o.GiveUp, 5*time.Minute)
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
		client: c, opts: o,
		wake: make(chan struct{}, 1), stop: stop, ended: make(chan struct{}),
		open: map[*batch]struct{}{}, nodes: make([]nodeState, c.nodes.count()), changed: make(chan struct{}),
	}
	s.table = newSumTable(o.MaxLines, o.MaxBytes, s.wakeUp)
	go s.run(ctx)
	return s, nil
}

// Hit counts one hit of the key now. The error is ErrFull, ErrClosed, or what is wrong with the key.
func (s *Sender) Hit(key string) error { return s.HitAt(time.Now(), key, 1) }

// HitN counts n hits of the key now, 1 to 2^40.
func (s *Sender) HitN(key string, n uint64) error { return s.HitAt(time.Now(), key, n) }

// HitAt counts n hits of the key at a time. Servers reject those of the future (weir serve --max-ahead, 5 s).
func (s *Sender) HitAt(at time.Time, key string, n uint64) error {
	return s.table.Add(key, at.Unix(), n)
}

// closeTimeout is how long Close waits where its caller gives no time: an attempt that gets no answer, and a pause.
const closeTimeout = 10 * time.Second

// errCloseTimeout is why Close went no further.
var errCloseTimeout = fmt.Errorf("not within %v: %w", closeTimeout, context.DeadlineExceeded)

// Flush sends all hits that were taken before, and waits until it is known what became of them, or ctx ends: give it a
// time, since hits wait for servers that are away, or refuse them. The error says why they do. Stats says what became of hits.
func (s *Sender) Flush(ctx context.Context) error {
	return s.flush(ctx, func() bool { return false })
}

// flush is Flush. It also ends when enough does, which is asked after each change.
func (s *Sender) flush(ctx context.Context, enough func() bool) error {
	s.mu.Lock()
	upTo := s.epoch
	s.mu.Unlock()
	s.wakeUp()
	for {
		settled, changed := s.settled(upTo)
		if settled {
			return nil
		}
		if enough() {
			return s.unsent(nil)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s.unsent(context.Cause(ctx))
		case <-s.ended:
			return ErrClosed
		}
	}
}

// settled tells whether all lines that were taken from the table up to an epoch are, and else what
// to wait for.
func (s *Sender) settled(upTo uint64) (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch <= upTo {
		return false, s.changed
	}
	for b := range s.open {
		if b.epoch <= upTo {
			return false, s.changed
		}
	}
	return true, nil
}

// unsent is the error of hits that still wait: how many, what ended the waiting, and how the last attempt at each node failed.
func (s *Sender) unsent(end error) error {
	waiting := s.Stats().Waiting
	s.mu.Lock()
	why := make([]error, 0, len(s.nodes)+1)
	if end != nil {
		why = append(why, end)
	}
	for at := range s.nodes {
		if n := &s.nodes[at]; n.failure != nil {
			why = append(why, fmt.Errorf("%s: %w", s.client.nodes.bases[at].Redacted(), n.failure))
		}
	}
	s.mu.Unlock()
	return fmt.Errorf("%d hits are not sent or not answered: %w", waiting, errors.Join(why...))
}

// askDenied lets nodes that refused this Sender be asked once more, at once.
func (s *Sender) askDenied() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.nodes {
		if n := &s.nodes[at]; n.denied {
			n.denied, n.notUntil = false, time.Time{}
		}
	}
}

// allDenied tells whether every node has refused this Sender.
func (s *Sender) allDenied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.nodes {
		if !s.nodes[at].denied {
			return false
		}
	}
	return true
}

// Close takes no further hits, flushes, and stops. It ends with ctx; after 10 s where ctx has no deadline; and at once when
// every node refuses this Sender with 401 or 403, since that is a wrong token or role. The error says how many hits were not
// sent and why, or were not counted, or of how many nobody knows. Later calls return ErrClosed.
func (s *Sender) Close(ctx context.Context) error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	s.table.Close()
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, closeTimeout, errCloseTimeout)
		defer cancel()
	}
	s.askDenied()
	err := s.flush(ctx, s.allDenied)
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
	st, t := s.stats, s.table.Stats()
	st.Taken, st.Refused, st.Lines, st.Bytes = t.Taken, t.Refused, t.Lines, t.Bytes
	st.Waiting = st.Taken - st.Counted - st.TooLate - st.Rejected - st.InDoubt
	return st
}

func (s *Sender) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

func (s *Sender) tell(err error) {
	if s.opts.Notify == nil {
		return
	}
	s.notify.Lock()
	defer s.notify.Unlock()
	s.opts.Notify(err)
}
