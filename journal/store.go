package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// store is the stream of flushes, which is the journal, and that of snapshots.
type store struct {
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
// missing. The journal may take half of maxBytes, or what it has if that is
// more: the rest is for snapshots, without which it could never be trimmed.
// maxBytes of 0 leaves the bound as it is.
func openStore(ctx context.Context, js jetstream.JetStream, maxBytes int64, create bool) (s *store, missing []Finding, err error) {
	s = &store{js: js}
	for _, one := range []struct {
		stream             *jetstream.Stream
		name, subject      string
		maxBytes           int64
		called, whatItCost string
	}{
		{&s.flushes, flushStream, flushSubject, maxBytes / 2, "the journal's stream", "all hits since the snapshots"},
		{&s.snapshots, snapshotStream, snapshotSubject + ".>", -1, "the stream of snapshots", "all hits before the journal begins"},
	} {
		*one.stream, err = js.Stream(ctx, one.name)
		if err == nil {
			info := (*one.stream).CachedInfo()
			if one.maxBytes > 0 { // JetStream would remove what is beyond a lower bound
				one.maxBytes = max(one.maxBytes, int64(info.State.Bytes))
			}
			if one.maxBytes == 0 || one.maxBytes == info.Config.MaxBytes {
				continue
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, jetstream.ErrStreamNotFound):
			missing = append(missing, Finding{Where: one.called, What: "missing", Cost: one.whatItCost})
			if !create {
				return nil, missing, nil
			}
		case err != nil:
			return nil, nil, fmt.Errorf("journal: %s: %w", one.called, err)
		}
		*one.stream, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name:     one.name,
			Subjects: []string{one.subject},
			Storage:  jetstream.FileStorage,
			// Repeated flushes are dropped by epoch and number; a long window
			// would only make the server read that much log when it starts.
			Duplicates:  100 * time.Millisecond,
			Discard:     jetstream.DiscardNew,
			MaxBytes:    one.maxBytes,
			AllowDirect: true,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("journal: %s: %w", one.called, err)
		}
	}
	return s, missing, nil
}

// publish appends one message and returns its sequence in the stream once it is
// on disk.
func (s *store) publish(ctx context.Context, data []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ack, err := s.js.Publish(ctx, flushSubject, data)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// trim removes the messages up to and including a sequence.
func (s *store) trim(ctx context.Context, upTo uint64) error {
	return s.flushes.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
}

// bounds are the sequences of the first and the last message, and the bytes of
// all. An empty stream has first = last+1.
func (s *store) bounds(ctx context.Context) (first, last, bytes uint64, err error) {
	info, err := s.flushes.Info(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	return max(info.State.FirstSeq, 1), info.State.LastSeq, info.State.Bytes, nil
}
