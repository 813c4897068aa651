// Package kv keeps leases and one shared document in JetStream KV buckets. A lease lets one node of many do what only one should: take
// snapshots and trim the journal, restore a backup.
//
// A lease is a key in a bucket whose messages age. Create takes it, because it fails where a key is. Update at the known revision renews
// it. A holder that does not renew loses the lease when its message has aged. The revision at which a lease was taken is its token: it is
// greater than the tokens of all earlier holders.
//
// The age is the bucket's, not the message's: a client that updates a key can't give a time to live (ADR-48). A lease that was
// created with one and renewed once would never end.
//
// The holder counts from before it asked, on its own monotonic clock, and only two thirds of the time that the bucket grants. The
// last third is for servers whose clocks differ. So a holder that is cut off or stopped knows that the lease is lost before another
// node can have it. A node that crashed has it again at once, because no other process can have its data directory. Work that
// takes longer than the lease writes the token with its result, and the smaller token loses.
package kv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/concurrency"
)

// Bucket has the leases of a cluster, as one node sees them. It is safe for
// concurrent use.
type Bucket struct {
	kv   jetstream.KeyValue
	ttl  time.Duration
	self Self
	life string // this one of the node's
}

// Self is who takes leases.
type Self struct {
	Node   string // one name, for people
	Origin string // of its data directory, which no two processes have at once
}

// Lease is one that we hold, or held.
type Lease struct {
	Name     string
	Token    uint64    // greater than all earlier tokens; stays while the lease is renewed
	Until    time.Time // by our clock; afterwards another may hold it
	renewed  time.Time // when we last asked with success
	revision uint64
}

var (
	// ErrTaken is returned for a lease that another holds.
	ErrTaken = errors.New("another node holds the lease")
	// ErrLost is returned for a lease that was ours.
	ErrLost = errors.New("the lease is lost")
)

const (
	// DefaultTTL is how long after a crash a lease is taken by another node. A bucket that lost its leader is silent for up to 9 s.
	// The holder renews from a third to two thirds of this, which outlasts that.
	DefaultTTL = 30 * time.Second

	bucketBytes = 1 << 20 // of some hundred leases with 200 bytes each
)

// Open opens a KV bucket. If it is not there, it is made as configured, for file storage. All reads are answered by its leader, because a
// replica may be behind, unless any replica may answer. The caller repeats it with stream.RetryUnavailable.
func Open(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig, anyReplica bool) (jetstream.KeyValue, error) {
	made := jetstream.StreamConfig{
		Name: "KV_" + cfg.Bucket, Description: cfg.Description, Subjects: []string{"$KV." + cfg.Bucket + ".>"}, MaxAge: cfg.TTL, MaxBytes: cfg.MaxBytes, Replicas: cfg.Replicas,
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxConsumers: -1, MaxMsgSize: -1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: anyReplica,
	}
	is, err := js.Stream(ctx, made.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		if _, err = js.CreateStream(ctx, made); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another made it, with another ttl
			err = nil
		}
	case err == nil && is.CachedInfo().Config.AllowDirect && !anyReplica: // the client library made it
		made = is.CachedInfo().Config
		made.AllowDirect = false
		_, err = js.UpdateStream(ctx, made)
	}
	if err != nil {
		return nil, err
	}
	bucket, err := js.KeyValue(ctx, cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) { // of nodes that start together, one makes the bucket
		err = errors.Join(nats.ErrTimeout, err)
	}
	return bucket, err
}

// OpenBucket opens the bucket of a name for a node. If it is not there, it is made with as many replicas. A bucket that is there keeps
// its ttl, because all who use it must go by the same. Two nodes of one name are different holders.
func OpenBucket(ctx context.Context, js jetstream.JetStream, name string, self Self, ttl time.Duration, replicas int) (*Bucket, error) {
	kv, err := Open(ctx, js, jetstream.KeyValueConfig{Bucket: name, Description: "Weir: who does what", TTL: ttl, MaxBytes: bucketBytes, Replicas: replicas}, false)
	if err != nil {
		return nil, fmt.Errorf("lease: bucket %s: %w", name, err)
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("lease: bucket %s: %w", name, err)
	}
	if status.TTL() <= 0 {
		return nil, fmt.Errorf("lease: bucket %s has no time to live, so its leases never expire: delete it, and a node creates it again", name)
	}
	return &Bucket{kv: kv, ttl: status.TTL(), self: self, life: rand.Text()}, nil
}

func (b *Bucket) value() string { return b.self.Node + " " + b.self.Origin + " " + b.life }

// TTL is how long the bucket grants a lease.
func (b *Bucket) TTL() time.Duration { return b.ttl }

// trusted is how much of it a holder relies on.
func (b *Bucket) trusted() time.Duration { return b.ttl - b.ttl/3 }

// Acquire takes a lease, or returns ErrTaken. It looks first: a read costs nothing on any disk. A lease that is this node's already, as after a request whose answer was lost, is renewed. One of an earlier life of the node is taken over:
// that process has ended, or this one would not have its data directory.
func (b *Bucket) Acquire(ctx context.Context, name string) (Lease, error) {
	is, err := b.kv.Get(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return b.create(ctx, name)
	case err != nil:
		return Lease{}, fmt.Errorf("lease %s: %w", name, err)
	}
	switch value := string(is.Value()); {
	case value == b.value():
		return b.takeOver(ctx, Lease{Name: name, Token: is.Revision(), revision: is.Revision()})
	case strings.HasPrefix(value, b.self.Node+" "+b.self.Origin+" "):
		l, err := b.takeOver(ctx, Lease{Name: name, revision: is.Revision()})
		l.Token = l.revision
		return l, err
	}
	return Lease{}, ErrTaken
}

func (b *Bucket) create(ctx context.Context, name string) (Lease, error) {
	sent := time.Now()
	revision, err := b.kv.Create(ctx, name, []byte(b.value()))
	if errors.Is(err, jetstream.ErrKeyExists) {
		return Lease{}, ErrTaken
	}
	if err != nil {
		return Lease{}, fmt.Errorf("lease %s: %w", name, err)
	}
	return Lease{Name: name, Token: revision, revision: revision, renewed: sent, Until: sent.Add(b.trusted())}, nil
}

// takeOver renews a lease as it was read. If that was not the newest version, as from a leader that
// was just elected, it returns ErrTaken: the lease was not ours.
func (b *Bucket) takeOver(ctx context.Context, read Lease) (Lease, error) {
	l, err := b.update(ctx, read)
	if errors.Is(err, ErrLost) {
		err = ErrTaken
	}
	return l, err
}

// Renew makes a lease last, or returns ErrLost. After any other error the lease
// is what it was.
func (b *Bucket) Renew(ctx context.Context, l Lease) (Lease, error) {
	renewed, err := b.update(ctx, l)
	if !errors.Is(err, ErrLost) {
		return renewed, err
	}
	// An earlier renewal may have been written though its answer was lost.
	is, getErr := b.kv.Get(ctx, l.Name)
	switch {
	case errors.Is(getErr, jetstream.ErrKeyNotFound):
		return l, ErrLost
	case getErr != nil:
		return l, fmt.Errorf("lease %s: %w", l.Name, getErr)
	case string(is.Value()) != b.value():
		return l, ErrLost
	case is.Revision() <= l.revision: // from a leader that was just elected
		return l, fmt.Errorf("lease %s: it was changed, and the new owner is not known yet", l.Name)
	}
	known := l
	known.revision = is.Revision()
	if renewed, err = b.update(ctx, known); err != nil {
		return l, err
	}
	return renewed, nil
}

func (b *Bucket) update(ctx context.Context, l Lease) (Lease, error) {
	sent := time.Now()
	revision, err := b.kv.Update(ctx, l.Name, []byte(b.value()), l.revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists) {
		return l, ErrLost
	}
	if err != nil {
		return l, fmt.Errorf("lease %s: %w", l.Name, err)
	}
	l.revision, l.renewed, l.Until = revision, sent, sent.Add(b.trusted())
	return l, nil
}

// Release gives a lease back, so that another can have it at once. One that is
// no longer ours is left alone.
func (b *Bucket) Release(ctx context.Context, l Lease) error {
	err := b.kv.Delete(ctx, l.Name, jetstream.LastRevision(l.revision))
	if err == nil || errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists) {
		return nil
	}
	return fmt.Errorf("lease %s: %w", l.Name, err)
}

// Valid is whether the lease is ours at that time. A machine that slept has a
// monotonic clock that did not go on, so the wall clock must agree.
func (l Lease) Valid(now time.Time) bool {
	return now.Before(l.Until) && now.Round(0).Before(l.Until.Round(0))
}

// Who is the node that holds a lease; "": none does.
func (b *Bucket) Who(ctx context.Context, name string) (node string, err error) {
	is, err := b.kv.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("lease %s: %w", name, err)
	}
	node, _, _ = strings.Cut(string(is.Value()), " ")
	return node, nil
}

// LeaseHolder takes one lease for a node whenever no other node has it, and renews it until Close. It owns one goroutine and is safe for
// many.
type LeaseHolder struct {
	bucket *Bucket
	name   string
	log    *slog.Logger
	end    func()
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
	h := &LeaseHolder{bucket: bucket, name: name, log: log}
	h.end = concurrency.Background(context.Background(), h.run)
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
	h.end()
	if l := h.lease.Swap(nil); l != nil {
		return h.bucket.Release(ctx, *l)
	}
	return nil
}

func (h *LeaseHolder) run(ctx context.Context) {
	failing := false // said once, not at every tick
	concurrency.Repeat(ctx, max(h.bucket.ttl/ticksPerTTL, shortestTick), func() {
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
	})
}

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
