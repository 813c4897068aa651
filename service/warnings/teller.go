package warnings

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
)

// Waiting is how many warnings wait to be sent, at most: of one more the request that finds no place is counted, and the next
// of its key tries again.
const Waiting = 1024

// closeTime bounds Close.
const closeTime = 3 * time.Second

// Config says where warnings go. All but Node must be given.
type Config struct {
	URL    *url.URL
	Secret []byte // ParseSecret
	Node   string // this node's name in a cluster
	Logger *slog.Logger
}

// Teller sends warnings. Create it with Open, and end it with Close. Of a nil one decisions may be noted, and nothing is sent. It is safe for many goroutines.
type Teller struct {
	cfg    Config
	client *http.Client
	now    func() time.Time
	after  func(time.Duration) <-chan time.Time

	mu    sync.Mutex // guards told
	told  *told
	queue chan warning

	sent, failed, dropped atomic.Uint64
	failing               bool // of the goroutine that sends: the last call failed

	closing sync.Once
	stop    chan struct{} // closed by Close
	cut     context.CancelFunc
	ended   chan struct{} // closed when the goroutine that sends has ended
}

// Open begins to send.
func Open(cfg Config) *Teller {
	t := newTeller(cfg)
	t.start()
	return t
}

func newTeller(cfg Config) *Teller {
	return &Teller{
		cfg: cfg, client: newClient(), now: time.Now, after: time.After, told: newTold(Kept), queue: make(chan warning, Waiting),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
}

// start has one goroutine send until Close.
func (t *Teller) start() {
	ctx, cut := context.WithCancel(context.Background())
	t.cut = cut
	go func() {
		defer close(t.ended)
		t.run(ctx)
	}()
}

// Note is told of each decision that was not a peek. It waits for nothing, and keeps no part of it.
//
// Cost: nothing without a Teller; of a decision that warns, a look-up, and for the first of a key and window its copy.
func (t *Teller) Note(d *admit.Decision) {
	if t == nil || !d.Allowed {
		return
	}
	for i := range d.Results {
		if r := &d.Results[i]; r.Warning && r.Mode == policy.Enforce && r.N > 0 {
			t.note(r)
		}
	}
}

func (t *Teller) note(r *admit.Result) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told.has(counted{r.Name, r.Key}, now) {
		return
	}
	if len(t.queue) == cap(t.queue) { // nobody else fills it meanwhile
		t.dropped.Add(1)
		return
	}
	number, until := windowOf(r, now)
	w := newWarning(r, number, t.cfg.Node, now)
	t.queue <- w
	t.told.add(w.counted, until)
}

// Figures are for metrics.
type Figures struct {
	Sent, Failed uint64 // warnings that were taken, and that were given up
	Dropped      uint64 // decisions whose warning found the queue full
	Waiting      int
}

// Figures returns those since the start.
func (t *Teller) Figures() Figures {
	return Figures{Sent: t.sent.Load(), Failed: t.failed.Load(), Dropped: t.dropped.Load(), Waiting: len(t.queue)}
}

// Close sends what waits, each once and for 3 s altogether or until ctx ends, up to the first that is not taken. The log says how many were not.
func (t *Teller) Close(ctx context.Context) error {
	t.closing.Do(func() { close(t.stop) })
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	defer context.AfterFunc(ctx, t.cut)()
	<-t.ended
	t.cut()
	return nil
}
