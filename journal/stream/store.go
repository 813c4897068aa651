package stream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
)

// Store is the stream of flushes, which is the journal, and that of snapshots, of
// the server that runs now (revive.go).
type Store struct{ at atomic.Pointer[streams] }

type streams struct {
	journal   uint64 // its identity
	js        jetstream.JetStream
	flushes   jetstream.Stream
	snapshots jetstream.Stream
}

const (
	FlushStream     = "WEIR_JOURNAL"
	flushSubject    = "weir.journal"
	SnapshotStream  = "WEIR_SNAPSHOTS"
	snapshotSubject = "weir.snapshot"
)

// Open opens the two streams. It makes them only where create says so: in
// a directory that is not new they must be there, and a store that lost them
// must not begin again at zero. What it did not find or had to make is in
// missing.
//
// of names the journal, if that is known; copies tells how many nodes there are to keep
// each message, of as many as are wanted.
func Open(ctx context.Context, js jetstream.JetStream, of Identity, copies func(want int) int, create bool) (opened *Store, missing []record.Finding, err error) {
	s := &streams{js: js, journal: of.Journal}
	for _, one := range []struct {
		stream        *jetstream.Stream
		name, subject string
		called, cost  string
	}{
		{&s.flushes, FlushStream, flushSubject, "the journal's stream", "all hits since the snapshots"},
		{&s.snapshots, SnapshotStream, snapshotSubject + ".>", "the stream of snapshots", "all hits before the journal begins"},
	} {
		absent := false
		find := func(ctx context.Context) (err error) {
			*one.stream, err = s.js.Stream(ctx, one.name)
			return err
		}
		err = RetryUnavailable(ctx, func(ctx context.Context) error {
			err := find(ctx)
			if absent = errors.Is(err, jetstream.ErrStreamNotFound); absent {
				return nil
			}
			return err
		})
		if absent {
			missing = append(missing, record.Finding{Where: one.called, What: "missing", Cost: one.cost})
			if !create {
				return nil, missing, nil
			}
			made := of
			if made.Journal = s.journal; made.Journal == 0 {
				made.Journal = record.NewJournalID()
			}
			err = RetryUnavailable(ctx, func(ctx context.Context) (err error) {
				*one.stream, err = s.js.CreateStream(ctx, streamConfig(one.name, one.subject, made, copies(replica.Replicas)))
				if taken(err) {
					err = find(ctx)
				}
				return err
			})
		}
		if err == nil {
			err = of.fits((*one.stream).CachedInfo().Config.Metadata)
		}
		if err == nil {
			s.journal, err = s.identify(ctx, *one.stream, s.journal, one.called)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("journal: %s: %w", one.called, err)
		}
	}
	opened = new(Store)
	opened.at.Store(s)
	return opened, missing, nil
}

func streamConfig(name, subject string, of Identity, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:     name,
		Subjects: []string{subject},
		Storage:  jetstream.FileStorage,
		Replicas: replicas,
		Metadata: of.metadata(),
		// Repeated flushes are dropped by epoch and number; a long window
		// would only make the server read that much log when it starts.
		Duplicates:  100 * time.Millisecond,
		Discard:     jetstream.DiscardNew,
		AllowDirect: true,
	}
}

// Publish appends one message and returns its sequence in the stream once it is
// on disk.
func (s *Store) Publish(ctx context.Context, data []byte, timeout time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ack, err := s.at.Load().js.Publish(ctx, flushSubject, data)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// Trim removes the messages up to and including a sequence.
func (s *Store) Trim(ctx context.Context, upTo uint64) error {
	return s.at.Load().flushes.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
}

// Bounds are the sequences of the first and the last message, and the bytes of
// all. An empty stream has first = last+1.
func (s *Store) Bounds(ctx context.Context) (first, last, bytes uint64, err error) {
	var info *jetstream.StreamInfo
	err = RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		info, err = s.at.Load().flushes.Info(ctx)
		return err
	})
	if err != nil {
		return 0, 0, 0, err
	}
	return max(info.State.FirstSeq, 1), info.State.LastSeq, info.State.Bytes, nil
}

// ID is the journal's identity.
func (s *Store) ID() uint64 { return s.at.Load().journal }

// Conn is the connection that the streams are reached by.
func (s *Store) Conn() *nats.Conn { return s.at.Load().js.Conn() }

// Leader is the node that leads the journal's stream as far as it is known, for a person to
// look after; "" without a cluster.
func (s *Store) Leader() string {
	if info := s.at.Load().flushes.CachedInfo(); info != nil && info.Cluster != nil {
		return info.Cluster.Leader
	}
	return ""
}

// Followers are the replicas of the journal's stream but for the leader's, as that one finds
// them; none where it is not replicated.
func (s *Store) Followers(ctx context.Context) (list []replica.ReplicaState, err error) {
	info, err := s.at.Load().flushes.Info(ctx)
	if err != nil || info.Cluster == nil || info.Config.Replicas < 2 {
		return nil, err
	}
	for _, peer := range info.Cluster.Replicas {
		list = append(list, replica.ReplicaState{Node: peer.Name, Current: peer.Current, Offline: peer.Offline, Active: peer.Active})
	}
	return list, nil
}
