package journal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir/journal/join"
)

// store is the stream of flushes, which is the journal, and that of snapshots, of
// the server that runs now (revive.go).
type store struct{ at atomic.Pointer[streams] }

type streams struct {
	journal   uint64 // its identity
	js        jetstream.JetStream
	flushes   jetstream.Stream
	snapshots jetstream.Stream
}

const (
	flushStream     = "WEIR_JOURNAL"
	flushSubject    = "weir.journal"
	snapshotStream  = "WEIR_SNAPSHOTS"
	snapshotSubject = "weir.snapshot"
)

// openStore opens the two streams. It makes them only where create says so: in
// a directory that is not new they must be there, and a store that lost them
// must not begin again at zero. What it did not find or had to make is in
// missing.
func openStore(ctx context.Context, node *join.Node, m manifest, create bool) (opened *store, missing []Finding, err error) {
	s := &streams{js: node.JetStream(), journal: m.Journal}
	for _, one := range []struct {
		stream        *jetstream.Stream
		name, subject string
		called, cost  string
	}{
		{&s.flushes, flushStream, flushSubject, "the journal's stream", "all hits since the snapshots"},
		{&s.snapshots, snapshotStream, snapshotSubject + ".>", "the stream of snapshots", "all hits before the journal begins"},
	} {
		find := func(ctx context.Context) (err error) {
			*one.stream, err = s.js.Stream(ctx, one.name)
			return err
		}
		err = patiently(ctx, find)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			missing = append(missing, Finding{Where: one.called, What: "missing", Cost: one.cost})
			if !create {
				return nil, missing, nil
			}
			of := m
			if of.Journal = s.journal; of.Journal == 0 {
				of.Journal = newJournalID()
			}
			err = patiently(ctx, func(ctx context.Context) (err error) {
				*one.stream, err = s.js.CreateStream(ctx, streamConfig(one.name, one.subject, of, node.Replicas(replicas)))
				if taken(err) {
					err = beingMade(find(ctx))
				}
				return err
			})
		}
		if err == nil {
			err = m.fitsStream((*one.stream).CachedInfo().Config.Metadata)
		}
		if err == nil {
			s.journal, err = s.identify(ctx, *one.stream, s.journal, one.called)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("journal: %s: %w", one.called, err)
		}
	}
	opened = new(store)
	opened.at.Store(s)
	return opened, missing, nil
}

// replicas is how many nodes keep each message, where there are as many: one may
// be lost, and the others agree.
const replicas = 3

func streamConfig(name, subject string, m manifest, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:     name,
		Subjects: []string{subject},
		Storage:  jetstream.FileStorage,
		Replicas: replicas,
		Metadata: m.streamMetadata(),
		// Repeated flushes are dropped by epoch and number; a long window
		// would only make the server read that much log when it starts.
		Duplicates:  100 * time.Millisecond,
		Discard:     jetstream.DiscardNew,
		AllowDirect: true,
	}
}

// publish appends one message and returns its sequence in the stream once it is
// on disk.
func (s *store) publish(ctx context.Context, data []byte, timeout time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ack, err := s.at.Load().js.Publish(ctx, flushSubject, data)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// trim removes the messages up to and including a sequence.
func (s *store) trim(ctx context.Context, upTo uint64) error {
	return s.at.Load().flushes.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
}

// bounds are the sequences of the first and the last message, and the bytes of
// all. An empty stream has first = last+1.
func (s *store) bounds(ctx context.Context) (first, last, bytes uint64, err error) {
	var info *jetstream.StreamInfo
	err = patiently(ctx, func(ctx context.Context) (err error) {
		info, err = s.at.Load().flushes.Info(ctx)
		return err
	})
	if err != nil {
		return 0, 0, 0, err
	}
	return max(info.State.FirstSeq, 1), info.State.LastSeq, info.State.Bytes, nil
}
