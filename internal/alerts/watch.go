package alerts

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/service"
)

const (
	lookEvery   = time.Second
	lookShare   = 20 // looking takes at most this part of the time
	passTimeout = 30 * time.Second
	longestCold = 5 * time.Minute // see cold

	maxOpen = 1000 // crossings that were announced and are not over
	maxKeys = 10_000

	bucketName  = "WEIR_ALERTS"
	bucketBytes = 4 << 20 // of maxOpen entries with up to 2 KiB each
)

// state is what was announced. It belongs to the goroutine that looks.
type state struct {
	known     bool               // all below is as the bucket has it
	bucket    jetstream.KeyValue // nil: not open, or there is none
	stream    jetstream.Stream   // of the bucket
	crossings map[crossingKey]*crossing
}

type crossingKey struct{ rule, key string }

// crossing is a key beyond the bound of an alert, as the bucket has it.
type crossing struct {
	Rule    string    `json:"rule"`
	Key     string    `json:"key"`
	Below   bool      `json:"below,omitempty"`
	Since   time.Time `json:"since"`
	Over    bool      `json:"over,omitempty"`    // the event says that it is over
	Pending bool      `json:"pending,omitempty"` // the event was not taken yet
	Event   event     `json:"event"`

	revision uint64
	offered  *destination // that has the event in its queue; nil: none has
}

func (c *crossing) id() crossingKey { return crossingKey{c.Rule, c.Key} }

// entry is the name of the crossing in the bucket.
func (c *crossing) entry() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %q", c.Rule, c.Key)))[:40]
}

// crossed is the data of an event.
type crossed struct {
	Alert  string     `json:"alert"`
	Key    string     `json:"key"`
	Window int64      `json:"window_s"`
	Above  *uint64    `json:"above,omitempty"`
	Below  *uint64    `json:"below,omitempty"`
	Clear  uint64     `json:"clear"`
	Count  uint64     `json:"count"`
	Since  *time.Time `json:"since,omitempty"` // of one that is over
}

// look evaluates all alerts every second, or less often where that takes long, until ctx ends.
func (a *Alerts) look(ctx context.Context, s *service.Service) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-a.taken:
			if err := a.settle(ctx, c); err != nil {
				a.note(ctx, err)
			}
		case <-timer.C:
			began := time.Now()
			a.note(ctx, a.pass(ctx, s))
			a.opened.Store(int64(len(a.crossings)))
			timer.Reset(min(max(lookEvery, lookShare*time.Since(began)), passTimeout))
		}
	}
}

// forget has the state read again. Events that wait are not sent: the bucket has them.
func (a *Alerts) forget() {
	if a.journal != nil {
		a.state = state{bucket: a.bucket, stream: a.stream}
		a.life.Add(1)
	}
}

func (a *Alerts) note(ctx context.Context, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.fault
	if a.fault = ""; err != nil && ctx.Err() == nil {
		a.fault = err.Error()
		if was == "" {
			a.log.Warn("crossings of alerts can't be announced; will retry", "error", err)
		}
	}
}

// pass looks at each alert once.
func (a *Alerts) pass(ctx context.Context, s *service.Service) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	if a.lease != nil {
		if _, held := a.lease.Held(); !held {
			if a.known {
				a.forget()
			}
			a.setFull("")
			return nil
		}
	}
	if !a.known {
		if err := a.load(ctx); err != nil {
			return fmt.Errorf("bucket %s: %w", bucketName, err)
		}
	}
	rules, full, failed := a.rules.Load(), "", error(nil)
	valid := map[string]*rule{}
	for i := range rules.list {
		r := &rules.list[i]
		valid[r.name] = r
		if r.warns {
			continue
		}
		if err := a.evaluate(ctx, s, r, &full); err != nil {
			failed = fmt.Errorf("alert %s: %w", r.name, err)
			if !a.known {
				return failed
			}
		}
	}
	a.setFull(full)
	for id, c := range a.crossings {
		switch r := valid[id.rule]; {
		case r == nil || r.warns || r.below != c.Below || !r.keys.Fits(c.Key):
			if err := a.remove(ctx, c); err != nil {
				return err
			}
		case c.Pending && c.offered != r.to:
			if c.Event.crossing, c.Event.life = c, a.life.Load(); r.to.offer(c.Event, false) {
				c.offered = r.to
			}
		}
	}
	return failed
}

func (a *Alerts) setFull(full string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = full
}

// evaluate looks at the keys of an alert.
func (a *Alerts) evaluate(ctx context.Context, s *service.Service, r *rule, full *string) error {
	at := s.Now()
	keys, counts, fresh, err := a.counts(ctx, s, r, at, full)
	if err != nil {
		return err
	}
	for i, key := range keys {
		c := a.crossings[crossingKey{r.name, key}]
		low, high := countRange(&counts[i], len(fresh.Late) > 0)
		data := crossed{Alert: r.name, Key: key, Window: int64(r.window / time.Second), Clear: r.clear, Count: counts[i].Estimate, Above: &r.bound}
		if r.below {
			data.Above, data.Below = nil, &r.bound
		}
		switch {
		case c == nil && r.crossed(low, high) && !a.cold(r):
			if len(a.crossings) >= maxOpen {
				*full = fmt.Sprintf("%d keys are beyond their bounds, which is the most: no further key of alert %s is announced", maxOpen, r.name)
				continue
			}
			e := a.newEvent("", "weir.count.crossed", key, data)
			c = &crossing{Rule: r.name, Key: key, Below: r.below, Since: e.At, Pending: true, Event: e}
			if err := a.put(ctx, c); err != nil {
				return err
			}
			a.crossings[c.id()] = c
		case c != nil && !c.Pending && r.cleared(low, high):
			data.Since = &c.Since
			c.Over, c.Pending, c.offered, c.Event = true, true, nil, a.newEvent("", "weir.count.cleared", key, data)
			if err := a.put(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// cold reports whether a low count may come from a server that just started: hits of its window could not reach it.
func (a *Alerts) cold(r *rule) bool {
	return r.below && a.now().Sub(a.since) < min(r.window, longestCold)
}

// counts returns the keys of an alert that may be beyond its bound, and those that are open, with their counts.
func (a *Alerts) counts(ctx context.Context, s *service.Service, r *rule, at time.Time, full *string) (keys []string, counts []engine.Count, fresh api.Freshness, err error) {
	answers, prefix := s.Own(), r.keys.Prefix()
	asked := map[string]bool{}
	switch {
	case r.exact != "":
		asked[r.exact] = true
	case r.below:
		list, late, err := answers.Keys(ctx, 0, prefix, "", maxKeys)
		if err != nil {
			return nil, nil, late, err
		}
		if len(list) == maxKeys {
			*full = fmt.Sprintf("%d keys or more begin with %q: alert %s looks at the first of them; give its keys a longer beginning", maxKeys, prefix, r.name)
		}
		for _, key := range list {
			if r.keys.Fits(key) {
				asked[key] = true
			}
		}
	default:
		top, late, err := answers.Top(ctx, 0, at, r.window, maxOpen, prefix)
		if err != nil {
			return nil, nil, late, err
		}
		fresh = late
		if len(top) == maxOpen && top[maxOpen-1].Estimate > r.bound {
			*full = fmt.Sprintf("%d keys or more that begin with %q are above the bound of alert %s: it looks at the %d busiest", maxOpen, prefix, r.name, maxOpen)
		}
		for _, k := range top {
			if r.keys.Fits(k.Key) {
				keys, counts = append(keys, k.Key), append(counts, k.Count)
			}
		}
	}
	for id := range a.crossings {
		if id.rule == r.name {
			asked[id.key] = true
		}
	}
	for _, key := range keys {
		delete(asked, key)
	}
	questions := make([]api.CountQuestion, 0, len(asked))
	for key := range asked {
		keys, questions = append(keys, key), append(questions, api.CountQuestion{Key: key, At: at, Window: r.window})
	}
	if len(questions) > 0 {
		var late api.Freshness
		if counts, late, err = answers.Counts(ctx, 0, questions, counts); len(late.Late) > 0 {
			fresh = late
		}
	}
	return keys, counts, fresh, err
}

// settle notes that an event was taken, or given up.
func (a *Alerts) settle(ctx context.Context, c *crossing) error {
	if a.crossings[c.id()] != c {
		return nil
	}
	if c.Over {
		return a.remove(ctx, c)
	}
	c.Pending = false
	return a.put(ctx, c)
}

// put writes a crossing over the revision that is known.
func (a *Alerts) put(ctx context.Context, c *crossing) (err error) {
	if a.bucket == nil {
		return nil
	}
	defer func() {
		if err != nil {
			a.forget()
		}
	}()
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if c.revision == 0 {
		c.revision, err = a.bucket.Create(ctx, c.entry(), content)
	} else {
		c.revision, err = a.bucket.Update(ctx, c.entry(), content, c.revision)
	}
	return err
}

// remove leaves no trace of a crossing, unless another node has written it since.
func (a *Alerts) remove(ctx context.Context, c *crossing) error {
	delete(a.crossings, c.id())
	if a.bucket == nil {
		return nil
	}
	err := a.stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+bucketName+"."+c.entry()), jetstream.WithPurgeSequence(c.revision+1))
	if err != nil {
		a.forget()
	}
	return err
}

// load reads what was announced.
func (a *Alerts) load(ctx context.Context) (err error) {
	open := map[crossingKey]*crossing{}
	if a.journal != nil {
		if err := a.openBucket(ctx); err != nil {
			return err
		}
		all, err := a.bucket.WatchAll(ctx, jetstream.IgnoreDeletes())
		if err != nil {
			return err
		}
		defer func() { _ = all.Stop() }()
		for more := true; more; {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case is := <-all.Updates():
				if more = is != nil; !more {
					break
				}
				c := &crossing{revision: is.Revision()}
				if err := json.Unmarshal(is.Value(), c); err != nil {
					return fmt.Errorf("%s: %w", is.Key(), err)
				}
				open[c.id()] = c
			}
		}
	}
	a.life.Add(1)
	a.state = state{known: true, bucket: a.bucket, stream: a.stream, crossings: open}
	return nil
}

func (a *Alerts) openBucket(ctx context.Context) (err error) {
	if a.bucket != nil {
		return nil
	}
	server := a.journal.Joined()
	bucket, err := kv.Open(ctx, server.JetStream(), jetstream.KeyValueConfig{
		Bucket: bucketName, Description: "Weir: alerts that were announced", MaxBytes: bucketBytes, Replicas: server.Replicas(replica.Replicas),
	}, false)
	if err != nil {
		return err
	}
	a.stream, err = server.JetStream().Stream(ctx, "KV_"+bucketName)
	if err == nil {
		a.bucket = bucket
	}
	return err
}
