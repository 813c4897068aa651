package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/journal/record"
)

// A journal has an identity of its own (NewJournalID), which is in the metadata of its
// streams too.
//
// Who makes the stream of flushes chooses it. Streams of a version without identities
// get one of the time when they were made, which all their replicas know: nodes that
// start together choose the same.
const MetaJournal = "weir-journal"

// journalID is the identity that a stream has, or gets.
func journalID(info *jetstream.StreamInfo) (id uint64, known bool, err error) {
	text := info.Config.Metadata[MetaJournal]
	if text == "" {
		hash := fnv.New64a()
		_ = binary.Write(hash, binary.LittleEndian, info.Created.UnixNano()) // a hash takes everything
		return hash.Sum64()>>1 + 1, false, nil
	}
	if id, err = strconv.ParseUint(text, 16, 64); err != nil || id == 0 {
		return 0, false, fmt.Errorf("its metadata %s is %q: want 16 hexadecimal digits", MetaJournal, text)
	}
	return id, true, nil
}

// identify finds whose stream this is, and marks one of an earlier version. want is
// 0 where that is not known.
func (s *streams) identify(ctx context.Context, stream jetstream.Stream, want uint64, called string) (id uint64, err error) {
	info := stream.CachedInfo()
	id, known, err := journalID(info)
	switch {
	case err != nil:
		return 0, err
	case known && want != 0 && id != want:
		return 0, &otherJournalError{called, want, id, info}
	case known:
		return id, nil
	case want != 0:
		id = want
	}
	cfg := info.Config
	cfg.Metadata = map[string]string{MetaJournal: record.JournalText(id)}
	for name, value := range info.Config.Metadata {
		cfg.Metadata[name] = value
	}
	return id, RetryUnavailable(ctx, func(ctx context.Context) error {
		_, err := s.js.UpdateStream(ctx, cfg)
		return err
	})
}

// otherJournalError is why a journal is not taken for this directory's.
type otherJournalError struct {
	called   string
	want, is uint64
	info     *jetstream.StreamInfo
}

func (e *otherJournalError) Error() string {
	return fmt.Sprintf("this data directory belongs to journal %s, and %s is of journal %s, made at %s with %d messages: nothing of either was changed; "+
		"start this node with the --peers, --nats and --data that belong together, or with an empty --data to become a node of that journal",
		record.JournalText(e.want), e.called, record.JournalText(e.is), e.info.Created.UTC().Format("2006-01-02T15:04:05Z"), e.info.State.Msgs)
}

// taken tells whether another node made the stream at the same moment, under another
// identity.
func taken(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNameInUse
}
