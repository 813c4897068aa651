package kv

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// LeaseConfig sets up a Holder.
type LeaseConfig struct {
	// Names are the leases that the nodes share out. The bound of what a Holder
	// keeps.
	Names []string
	// Want says whether this node should hold a lease now; it is asked at every
	// tick, so a changed view of which nodes are up moves leases. nil: all it
	// can get.
	Want func(name string) bool
	// Logger takes what is gained and lost. nil: none.
	Logger *slog.Logger
}

// LeaseHolder keeps the leases of one node, with one goroutine, until Close.
type LeaseHolder struct {
	bucket *Bucket
	cfg    LeaseConfig
	stop   context.CancelFunc
	done   chan struct{}
	first  int // of Names, to be tried in the next tick

	mu    sync.Mutex // guards what follows
	held  map[string]*held
	stats LeaseStats
}

// held is a lease that is renewed. It is lost when its channel is closed.
type held struct {
	lease Lease
	lost  chan struct{}
	timer *time.Timer // ends it at lease.Until, whatever the goroutine waits for
}

// LeaseStats are a Holder's figures since Hold.
type LeaseStats struct {
	Held     int    // now
	Gained   uint64 // leases
	Lost     uint64 // leases that ran out or that another has
	Renewals uint64
	Failures uint64 // requests that failed; each is retried
}

// The work of one tick. The ticks are ticksPerTTL to a lease's time, so at the
// default one a second. A request that fails ends the tick: the next would fail
// too, and take its time.
const (
	ticksPerTTL  = 30
	renewsATick  = 64
	triesATick   = 16
	shortestTick = 20 * time.Millisecond
)

// HoldLease starts to keep leases.
func HoldLease(bucket *Bucket, cfg LeaseConfig) *LeaseHolder {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Want == nil {
		cfg.Want = func(string) bool { return true }
	}
	ctx, stop := context.WithCancel(context.Background())
	h := &LeaseHolder{bucket: bucket, cfg: cfg, stop: stop, done: make(chan struct{}), held: map[string]*held{}}
	go h.run(ctx)
	return h
}

// Held returns a lease, if it is ours now, and the channel that is closed when
// it is no more: because it ran out by our clock, because another has it, or
// because it was given back. In the last case another may have it at once, so
// work that has not ended by then goes by the token.
func (h *LeaseHolder) Held(name string) (l Lease, lost <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	is := h.held[name]
	if is == nil || !is.lease.Valid(time.Now()) {
		return Lease{}, nil, false
	}
	return is.lease, is.lost, true
}

// Stats returns the figures.
func (h *LeaseHolder) Stats() LeaseStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	stats := h.stats
	stats.Held = len(h.held)
	return stats
}

// Close gives all leases back; those that it can't before ctx ends run out by
// themselves.
func (h *LeaseHolder) Close(ctx context.Context) error {
	h.stop()
	<-h.done
	var errs []error
	for _, l := range h.leases() {
		h.drop(l)
		if len(errs) == 0 {
			if err := h.bucket.Release(ctx, l); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func (h *LeaseHolder) run(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(max(h.bucket.ttl/ticksPerTTL, shortestTick))
	defer tick.Stop()
	failing := false // said once, not at every tick
	for {
		err := h.work(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.mu.Lock()
			h.stats.Failures++
			h.mu.Unlock()
		}
		switch {
		case err != nil && !failing:
			h.cfg.Logger.Warn("could not renew leases; will retry", "error", err)
		case err == nil && failing:
			h.cfg.Logger.Info("leases are being renewed again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// work is one tick's: release what is not wanted, renew what is due, the
// oldest first, and try to get some of the others.
func (h *LeaseHolder) work(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.bucket.ttl/6) // twice within the third in which renewals are tried
	defer cancel()
	now, renewals := time.Now(), 0
	for _, l := range h.leases() {
		if !l.Valid(now) { // by the wall clock: the timer has not seen it yet
			h.lose(l, "it expired")
			continue
		}
		if !h.cfg.Want(l.Name) {
			h.drop(l)
			h.cfg.Logger.Info("lease released", "lease", l.Name, "token", l.Token)
			if err := h.bucket.Release(ctx, l); err != nil {
				return err
			}
			continue
		}
		if renewals == renewsATick || now.Sub(l.renewed) < h.bucket.ttl/3 {
			continue
		}
		renewals++
		if err := h.renew(ctx, l); err != nil {
			return err
		}
	}
	return h.acquire(ctx)
}

func (h *LeaseHolder) renew(ctx context.Context, l Lease) error {
	renewed, err := h.bucket.Renew(ctx, l)
	switch {
	case errors.Is(err, ErrLost):
		h.lose(l, "another node holds it, or held it")
		return nil
	case err != nil:
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.Renewals++
	if is := h.held[l.Name]; is != nil { // else it ran out while we asked: it stays lost, and is acquired again
		is.lease = renewed
		is.timer.Reset(time.Until(renewed.Until))
	}
	return nil
}

func (h *LeaseHolder) acquire(ctx context.Context) error {
	tries := 0
	for range len(h.cfg.Names) {
		name := h.cfg.Names[h.first%len(h.cfg.Names)]
		if _, _, ok := h.Held(name); ok || !h.cfg.Want(name) {
			h.first++
			continue
		}
		if tries == triesATick {
			return nil
		}
		tries++
		h.first++
		l, err := h.bucket.Acquire(ctx, name)
		switch {
		case errors.Is(err, ErrTaken), errors.Is(err, ErrLost):
		case err != nil:
			return err
		default:
			h.gain(l)
		}
	}
	return nil
}

func (h *LeaseHolder) gain(l Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.Gained++
	h.held[l.Name] = &held{lease: l, lost: make(chan struct{}), timer: time.AfterFunc(time.Until(l.Until), func() { h.expire(l) })}
	h.cfg.Logger.Info("lease acquired", "lease", l.Name, "token", l.Token)
}

// expire loses a lease that ran out, unless it was renewed at the last moment.
func (h *LeaseHolder) expire(l Lease) {
	h.mu.Lock()
	is := h.held[l.Name]
	over := is != nil && is.lease.Token == l.Token && !is.lease.Valid(time.Now())
	h.mu.Unlock()
	if over {
		h.lose(l, "it could not be renewed in time")
	}
}

func (h *LeaseHolder) lose(l Lease, why string) {
	if h.drop(l) {
		h.mu.Lock()
		h.stats.Lost++
		h.mu.Unlock()
		h.cfg.Logger.Warn("lease lost", "lease", l.Name, "token", l.Token, "why", why)
	}
}

// drop ends holding a lease, and is whether it was held.
func (h *LeaseHolder) drop(l Lease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	is := h.held[l.Name]
	if is == nil || is.lease.Token != l.Token {
		return false
	}
	is.timer.Stop()
	close(is.lost)
	delete(h.held, l.Name)
	return true
}

// leases are those held, the one that was renewed longest ago first.
func (h *LeaseHolder) leases() []Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Lease
	for _, is := range h.held {
		all = append(all, is.lease)
	}
	slices.SortFunc(all, func(a, b Lease) int { return cmp.Or(a.renewed.Compare(b.renewed), cmp.Compare(a.Name, b.Name)) })
	return all
}

// Who is the node that holds a lease, us included; "": none does.
func (h *LeaseHolder) Who(ctx context.Context, name string) (node string, err error) {
	return h.bucket.Who(ctx, name)
}
