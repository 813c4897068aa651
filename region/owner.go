package region

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// One node of a region is the owner, which appends to the log. Owners say that they are there; a node that hears of none
// for a while becomes one. Of two, the one whose append is refused reads the log, hears of the other, and of
// both the one with the lesser name goes on. It is not a lease: two owners do no harm, since each append names the message that it
// follows. So the pause after a crash is short.
const (
	ownerSubject = "weir.regions.owner"
	beatEvery    = 500 * time.Millisecond
	silentAfter  = 5 * beatEvery
	// stuckAfter is how long the goroutine of an owner may be at one thing before it says no longer that it is there.
	stuckAfter = 20 * time.Second
)

// ownership is who this node believes is the owner.
type ownership struct {
	mu    sync.Mutex
	own   bool
	since time.Time // of own
	other string    // the last that was heard of
	heard time.Time // when
	wait  time.Duration
}

// begin begins: a node alone is the owner at once.
func (o *ownership) begin(now time.Time, alone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.own, o.since, o.heard, o.wait = alone, now, now, silentAfter+rand.N(beatEvery)
}

// is tells whether this node is the owner, which it may become by the question.
func (o *ownership) is(now time.Time) (own, began bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.own && now.Sub(o.heard) > o.wait {
		o.own, o.since, began = true, now, true
	}
	return o.own, began
}

// hear takes what another node says of itself.
func (o *ownership) hear(now time.Time, node, other string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.own && node < other {
		return // it hears of this one, and stops
	}
	o.own, o.other, o.heard, o.wait = false, other, now, silentAfter+rand.N(beatEvery)
}

// who is the owner, as this node believes: own, or the name that another says.
func (o *ownership) who() (own bool, other string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.own, o.other
}

func (r *Region) listenOwners() error {
	if r.alone {
		return nil
	}
	sub, err := r.conn.Subscribe(ownerSubject, func(msg *nats.Msg) {
		if other := string(msg.Data); other != r.node {
			r.owner.hear(time.Now(), r.node, other)
		}
	})
	r.subs = append(r.subs, sub)
	return err
}

// beat says that this node is the owner, while it is, and gets on.
func (r *Region) beat(ctx context.Context) {
	if r.alone {
		return
	}
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		own, _ := r.owner.who()
		if own && time.Since(time.Unix(0, r.moved.Load())) < stuckAfter {
			if err := r.conn.Publish(ownerSubject, []byte(r.node)); err != nil {
				r.log.Debug("regions: could not tell the other nodes who writes the log", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pollEvery is how often the log is looked at though nothing was told of it.
const pollEvery = 500 * time.Millisecond

// run follows the log, and writes it while this node is the owner.
func (r *Region) run(ctx context.Context) {
	next := time.NewTicker(r.cfg.Every)
	defer next.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	links := &pulling{r: r}
	defer links.end()
	failing := ""
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-r.news:
			err = r.followTo(ctx, r.told.Load())
		case <-poll.C:
			err = r.follow(ctx)
		case o := <-r.offers:
			o.done <- r.accept(ctx, o)
			continue
		case ask := <-r.forgets:
			ask.done <- r.forget(ctx, ask.name)
			continue
		case <-next.C:
			own, began := r.owner.is(time.Now())
			if began {
				r.log.Info("regions: this node writes the digests of the region now", "region", r.cfg.Name)
				err = r.follow(ctx)
			}
			if own && err == nil {
				err = r.write(ctx)
			}
			own, _ = r.owner.who()
			if own {
				links.begin(ctx)
			} else {
				links.end()
			}
		}
		r.moved.Store(time.Now().UnixNano())
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errBehind) {
			err = r.follow(ctx)
		}
		r.figures.failing(err)
		switch {
		case err == nil && failing != "":
			r.log.Info("regions: digests are written and read again")
			failing = ""
		case err != nil && failing == "":
			failing = err.Error()
			r.log.Warn("regions: will retry", "error", err)
		}
	}
}

// write writes what is due: a digest, and bases.
func (r *Region) write(ctx context.Context) error {
	if err := r.digest(ctx); err != nil {
		return err
	}
	return r.renewBases(ctx)
}

// append appends a message, and takes it. After an error nothing of what was to follow may be appended.
func (r *Region) append(ctx context.Context, m entry) error {
	after := r.ledger.Next() - 1
	sequence, err := r.stream.append(ctx, after, m)
	if err != nil {
		r.tail = nil // what was read of the journal beyond the last digest is to be read again
		return err
	}
	r.moved.Store(time.Now().UnixNano())
	if sequence != after+1 { // the server checks it
		r.tail = nil
		return errBehind
	}
	r.take(sequence, m)
	return nil
}
