package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// store is the stream of flushes and the bucket of snapshots.
type store struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	bucket jetstream.ObjectStore
}

const (
	streamName = "WEIR_JOURNAL"
	subject    = "weir.journal"
	bucketName = "weir-snapshots"
)

// openStore opens the stream and the bucket. It makes them only where create
// says so: in a directory that is not new they must be there, and a store that
// lost them must not begin again at zero. What it did not find or had to make is
// in missing.
func openStore(ctx context.Context, js jetstream.JetStream, create bool) (s *store, missing []Finding, err error) {
	s = &store{js: js}
	s.stream, err = js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		missing = append(missing, Finding{Where: "the journal's stream", What: "missing", Cost: "all hits since the snapshots"})
		if !create {
			return nil, missing, nil
		}
		s.stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name:     streamName,
			Subjects: []string{subject},
			Storage:  jetstream.FileStorage,
			// Repeated flushes are dropped by epoch and number; a long window
			// would only make the server read that much log when it starts.
			Duplicates: 100 * time.Millisecond,
			Discard:    jetstream.DiscardNew,
		})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("journal: stream: %w", err)
	}
	s.bucket, err = js.ObjectStore(ctx, bucketName)
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		missing = append(missing, Finding{Where: "the bucket of snapshots", What: "missing", Cost: "all hits before the journal begins"})
		if !create {
			return nil, missing, nil
		}
		s.bucket, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: bucketName, Storage: jetstream.FileStorage})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("journal: bucket of snapshots: %w", err)
	}
	return s, missing, nil
}

// publish appends one message and returns its sequence in the stream once it is
// on disk.
func (s *store) publish(ctx context.Context, data []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ack, err := s.js.Publish(ctx, subject, data)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// trim removes the messages up to and including a sequence.
func (s *store) trim(ctx context.Context, upTo uint64) error {
	return s.stream.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
}

// bounds are the sequences of the first and the last message, and the bytes of
// all. An empty stream has first = last+1.
func (s *store) bounds(ctx context.Context) (first, last, bytes uint64, err error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	return max(info.State.FirstSeq, 1), info.State.LastSeq, info.State.Bytes, nil
}

// read calls f with each message from a sequence to the last, in order. Those
// the server can't read are passed over in silence: f sees it by the sequences.
func (s *store) read(ctx context.Context, from, last uint64, f func(sequence uint64, data []byte) error) error {
	if from > last {
		return nil
	}
	consumer, err := s.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   from,
	})
	if err != nil {
		return err
	}
	for at := from - 1; at < last; {
		batch, err := consumer.Fetch(256, jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return err
		}
		got := false
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return err
			}
			got, at = true, meta.Sequence.Stream
			if err := f(at, msg.Data()); err != nil {
				return err
			}
			if at >= last || meta.NumPending == 0 {
				return nil
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoMessages) {
			return err
		}
		if !got {
			return nil // the rest is not to be had
		}
	}
	return nil
}

// fetchWait is how long a message that the server counts may take to come.
const fetchWait = 2 * time.Second
