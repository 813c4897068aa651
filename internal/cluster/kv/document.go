package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// This file keeps one small document that all nodes share, in a bucket of JetStream: the policies that were put by API. It is read
// from the leader of the bucket. A writer replaces only the revision that it has read, and so one of two writers wins.

const (
	bucket = "WEIR_POLICIES"
	key    = "policies"

	// documentBucketBytes are enough for the newest content and the one before it.
	documentBucketBytes = 2 << 20

	// hintSubject has an empty message for each change: a hint, with which nothing is lost but time.
	hintSubject = "weir.policies"

	// lookEvery is how often a node looks that heard no hint.
	lookEvery = 5 * time.Second
)

// Document is the document as one node reaches it. It is safe for many goroutines.
type Document struct {
	JetStream jetstream.JetStream
	Replicas  func(want int) int // how many a stream can have now

	mu sync.Mutex // guards kv
	kv jetstream.KeyValue
}

// Read returns the content, and the revision to Write it over; nil and 0 if nobody has written it. It waits for a leader as
// stream.RetryUnavailable does.
func (d *Document) Read(ctx context.Context) (content []byte, revision uint64, err error) {
	err = stream.RetryUnavailable(ctx, func(ctx context.Context) error {
		kv, err := d.open(ctx, false)
		if kv == nil || err != nil {
			return err
		}
		is, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			content, revision = is.Value(), is.Revision()
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return content, revision, err
}

// Write replaces the content of a revision, and returns when most replicas have the new content on disk. The content is not empty.
// written is false if another node has written since. After an error the content may be written, or not.
func (d *Document) Write(ctx context.Context, content []byte, over uint64) (written bool, err error) {
	asked := false
	err = stream.RetryUnavailable(ctx, func(ctx context.Context) error {
		kv, err := d.open(ctx, true)
		if err != nil {
			return err
		}
		if over == 0 {
			_, err = kv.Create(ctx, key, content)
		} else {
			_, err = kv.Update(ctx, key, content, over)
		}
		if changed := errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch); !changed {
			asked, written = true, err == nil
			return err
		}
		if !asked {
			return nil
		}
		// An earlier try may have been written though its answer was lost.
		is, err := kv.Get(ctx, key)
		written = err == nil && bytes.Equal(is.Value(), content)
		return err
	})
	if written {
		_ = d.JetStream.Conn().Publish(hintSubject, nil) // or the others find it later
	}
	if err != nil {
		err = fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return written, err
}

// open is the bucket; nil if it is not there, and not to be made.
func (d *Document) open(ctx context.Context, make bool) (kv jetstream.KeyValue, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.kv != nil:
		return d.kv, nil
	case make:
		kv, err = Open(ctx, d.JetStream, jetstream.KeyValueConfig{Bucket: bucket, Description: "Weir: policies that were put by API", MaxBytes: documentBucketBytes, Replicas: d.Replicas(replica.Replicas)}, false)
	default:
		if kv, err = d.JetStream.KeyValue(ctx, bucket); errors.Is(err, jetstream.ErrBucketNotFound) {
			return nil, nil
		}
	}
	if err == nil {
		d.kv = kv
	}
	return kv, err
}

// Follow calls look after each change that another node tells of, and every few seconds, until ctx ends.
func (d *Document) Follow(ctx context.Context, look func()) {
	hints := concurrency.NewSignal()
	heard, err := d.JetStream.Conn().Subscribe(hintSubject, func(*nats.Msg) {
		hints.Raise()
	})
	if err == nil {
		defer func() { _ = heard.Unsubscribe() }() // of a connection that is closed there is none
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hints:
		case <-tick.C:
		}
		look()
	}
}
