package kv

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// LeaseHolder takes one lease for a node whenever no other node has it, and renews it until Close. It owns one goroutine and is safe for
// many.
type LeaseHolder struct {
	bucket *Bucket
	name   string
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}
	lease  atomic.Pointer[Lease] // the last one; nil: none
}

// There are ticksPerTTL ticks in the time of a lease, at the default one a second. In each the lease is tried to be taken, or renewed
// if it is due.
const (
	ticksPerTTL  = 30
	shortestTick = 20 * time.Millisecond
)

// HoldLease starts to keep the lease of a name.
func HoldLease(bucket *Bucket, name string, log *slog.Logger) *LeaseHolder {
	ctx, stop := context.WithCancel(context.Background())
	h := &LeaseHolder{bucket: bucket, name: name, log: log, stop: stop, done: make(chan struct{})}
	go h.run(ctx)
	return h
}

// Held returns the lease, if it is this node's now. Work that has not ended by its Until goes by the token.
func (h *LeaseHolder) Held() (l Lease, ok bool) {
	if is := h.lease.Load(); is != nil && is.Valid(time.Now()) {
		return *is, true
	}
	return Lease{}, false
}

// Who is the node that holds the lease, this one included; "": none does.
func (h *LeaseHolder) Who(ctx context.Context) (node string, err error) {
	return h.bucket.Who(ctx, h.name)
}

// Close gives the lease back. If it can't before ctx ends, the lease runs out by itself.
func (h *LeaseHolder) Close(ctx context.Context) error {
	h.stop()
	<-h.done
	if l := h.lease.Swap(nil); l != nil {
		return h.bucket.Release(ctx, *l)
	}
	return nil
}

func (h *LeaseHolder) run(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(max(h.bucket.ttl/ticksPerTTL, shortestTick))
	defer tick.Stop()
	failing := false // said once, not at every tick
	for {
		err := h.work(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			h.log.Warn("could not take or renew a lease; will retry", "lease", h.name, "error", err)
		case err == nil && failing:
			h.log.Info("the lease can be taken and renewed again", "lease", h.name)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// work is one tick's.
func (h *LeaseHolder) work(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.bucket.ttl/6) // twice within the third in which renewals are tried
	defer cancel()
	now, held := time.Now(), h.lease.Load()
	if held != nil && held.Valid(now) {
		if now.Sub(held.renewed) < h.bucket.ttl/3 {
			return nil
		}
		renewed, err := h.bucket.Renew(ctx, *held)
		if errors.Is(err, ErrLost) {
			h.lose(held, "another node holds it, or held it")
			return nil
		}
		if err == nil {
			h.lease.Store(&renewed)
		}
		return err
	}
	if held != nil {
		h.lose(held, "it could not be renewed in time")
	}
	l, err := h.bucket.Acquire(ctx, h.name)
	switch {
	case errors.Is(err, ErrTaken), errors.Is(err, ErrLost):
		return nil
	case err != nil:
		return err
	}
	h.lease.Store(&l)
	h.log.Info("lease acquired", "lease", l.Name, "token", l.Token)
	return nil
}

func (h *LeaseHolder) lose(l *Lease, why string) {
	h.lease.Store(nil)
	h.log.Warn("lease lost", "lease", l.Name, "token", l.Token, "why", why)
}
