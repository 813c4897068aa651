// Package stream stores the journal and the slots of snapshots in two streams of JetStream. It opens, makes, writes, reads and trims them, and
// repeats requests that no server answers for the moment.
//
// Invariants:
//   - A message was stored once its sequence is returned.
//   - Streams of another journal, or made for other settings, are refused and not changed.
//   - A stream is made only where the caller says that it may be new.
//   - A slot is written over only if it has what the writer knows.
//   - What a read passes over is seen by the sequences.
//   - A start reads from leaders, a follower from any replica.
//
// Package record has the bytes. Package replica decides what to ask for next (ReadAhead) and when slots are written (Rounds). Package durable
// has the loops.
package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// Store is the stream of flushes, which is the journal, and the stream of snapshots. It is safe for many goroutines.
type Store struct {
	journal   uint64 // its identity
	js        jetstream.JetStream
	flushes   jetstream.Stream
	snapshots jetstream.Stream
	log       *slog.Logger

	unanswered  atomic.Int64 // messages in a row that no node had
	silentUntil atomic.Int64 // Unix ns: until then nobody is asked for one
}

const (
	FlushStream     = "WEIR_JOURNAL"
	flushSubject    = "weir.journal"
	SnapshotStream  = "WEIR_SNAPSHOTS"
	snapshotSubject = "weir.snapshot"
)

// Open opens the two streams. It makes them only where create says so: a store that lost its streams
// must not begin again at zero. What it did not find or had to make is in
// missing.
//
// of names the journal, if that is known. copies returns how many nodes can keep
// each message, of as many as are wanted. log takes what is lost or damaged.
func Open(ctx context.Context, js jetstream.JetStream, identity Identity, copies func(want int) int, create bool, log *slog.Logger) (s *Store, missing []record.Finding, err error) {
	s = &Store{js: js, journal: identity.Journal, log: log}
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
			made := identity
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
			err = identity.fits((*one.stream).CachedInfo().Config.Metadata)
		}
		if err == nil {
			s.journal, err = identify(*one.stream, s.journal, one.called)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("journal: %s: %w", one.called, err)
		}
	}
	return s, missing, nil
}

func streamConfig(name, subject string, identity Identity, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:     name,
		Subjects: []string{subject},
		Storage:  jetstream.FileStorage,
		Replicas: replicas,
		Metadata: identity.metadata(),
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
	ack, err := s.js.Publish(ctx, flushSubject, data)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// OnElection calls f when the stream of flushes has a new leader, for as long as the connection is there.
func (s *Store) OnElection(f func()) error {
	_, err := s.Conn().Subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+FlushStream, func(*nats.Msg) { f() })
	return err
}

// StepDown has another node lead the stream of flushes, if the one of a name does.
func (s *Store) StepDown(ctx context.Context, node string) error {
	info, err := s.flushes.Info(ctx)
	if err != nil || info.Cluster == nil || info.Cluster.Leader != node || len(info.Cluster.Replicas) == 0 {
		return err
	}
	_, err = s.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+FlushStream, nil)
	return err
}

// Trim removes the messages up to and including a sequence.
func (s *Store) Trim(ctx context.Context, upTo uint64) error {
	return s.flushes.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
}

// Bounds are the sequences of the first and the last message, and the bytes of
// all. An empty stream has first = last+1.
func (s *Store) Bounds(ctx context.Context) (first, last, bytes uint64, err error) {
	var info *jetstream.StreamInfo
	err = RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		info, err = s.flushes.Info(ctx)
		return err
	})
	if err != nil {
		return 0, 0, 0, err
	}
	return max(info.State.FirstSeq, 1), info.State.LastSeq, info.State.Bytes, nil
}

// ID is the journal's identity.
func (s *Store) ID() uint64 { return s.journal }

// Conn is the connection that the streams are reached by.
func (s *Store) Conn() *nats.Conn { return s.js.Conn() }

// Leader is the node that leads the journal's stream as far as it is known, for a person to
// look after; "" without a cluster.
func (s *Store) Leader() string {
	if info := s.flushes.CachedInfo(); info != nil && info.Cluster != nil {
		return info.Cluster.Leader
	}
	return ""
}

// Followers are the replicas of the journal's stream but for the leader's, as that one finds
// them; none where it is not replicated.
func (s *Store) Followers(ctx context.Context) (list []replica.ReplicaState, err error) {
	info, err := s.flushes.Info(ctx)
	if err != nil || info.Cluster == nil || info.Config.Replicas < 2 {
		return nil, err
	}
	for _, peer := range info.Cluster.Replicas {
		list = append(list, replica.ReplicaState{Node: peer.Name, Current: peer.Current, Offline: peer.Offline, Active: peer.Active})
	}
	return list, nil
}

// Consumers is how many consumers the journal's stream had when it was last looked at. Weir makes none.
func (s *Store) Consumers() int {
	if info := s.flushes.CachedInfo(); info != nil {
		return info.State.Consumers
	}
	return 0
}

// Metadata of the streams: what all nodes that share them must agree on.
const (
	metaPartitions = "weir-partitions"
	metaRetention  = "weir-retention-s"
)

// Identity is what tells one journal from another.
type Identity struct {
	Journal    uint64 // 0: not known yet
	Partitions int
	RetentionS int64
}

func (identity Identity) metadata() map[string]string {
	meta := map[string]string{metaPartitions: strconv.Itoa(identity.Partitions), metaRetention: strconv.FormatInt(identity.RetentionS, 10)}
	if identity.Journal != 0 {
		meta[MetaJournal] = record.JournalText(identity.Journal)
	}
	return meta
}

// fits refuses streams that were made for another engine.
func (identity Identity) fits(have map[string]string) error {
	for name, want := range identity.metadata() {
		if was := have[name]; name != MetaJournal && was != "" && was != want {
			return fmt.Errorf("it was made with %s %s, not %s: all nodes of a cluster use the same", strings.TrimPrefix(name, "weir-"), was, want)
		}
	}
	return nil
}

// MetaJournal is the metadata of the streams with the journal's identity (NewJournalID). The node that makes the stream of flushes chooses it.
const MetaJournal = "weir-journal"

// identify returns whose stream this is. want is 0 where that is not known.
func identify(stream jetstream.Stream, want uint64, called string) (id uint64, err error) {
	info := stream.CachedInfo()
	text := info.Config.Metadata[MetaJournal]
	if id, err = strconv.ParseUint(text, 16, 64); err != nil || id == 0 {
		return 0, fmt.Errorf("its metadata %s is %q: want 16 hexadecimal digits", MetaJournal, text)
	}
	if want != 0 && id != want {
		return 0, &otherJournalError{called, want, id, info}
	}
	return id, nil
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

// taken reports whether another node made the stream at the same moment, under another
// identity.
func taken(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNameInUse
}

const appliedWithin = 30 * time.Second // of a leader's election

// AwaitApplied returns the last sequence of the journal once it is what is known to
// have been acknowledged, or after a while what it is. A leader
// that was just elected says less for a moment: it has not yet applied its log to the stream.
func (s *Store) AwaitApplied(ctx context.Context, last, known uint64) (uint64, error) {
	for end := time.Now().Add(appliedWithin); last < known && time.Now().Before(end); {
		if err := concurrency.Sleep(ctx, retryEvery); err != nil {
			return last, err
		}
		var err error
		if _, last, _, err = s.Bounds(ctx); err != nil {
			return last, err
		}
	}
	return last, nil
}

const (
	patience   = 2 * time.Minute // for a stream without a leader: an election takes up to 9 s, and much longer on a machine that is overloaded
	retryEvery = 50 * time.Millisecond
	AskTime    = 3 * time.Second // a request may be lost on its way
	firstAsk   = AskTime / 6     // servers without a leader drop requests, and may have one soon
)

// RetryUnavailable repeats a request while nobody answers it, as in a cluster whose
// stream has no leader for the moment. Each request has twice the time of the one before,
// from firstAsk to AskTime.
func RetryUnavailable(ctx context.Context, ask func(context.Context) error) error {
	wait := firstAsk / 2
	return retryWhileUnavailable(ctx, func() error {
		wait = min(2*wait, AskTime)
		return askWithin(ctx, wait, ask)
	})
}

// askWithin gives a request so much time at most. A server that does not lead drops requests: without a bound of its own, a
// request waits for as long as ctx lasts.
func askWithin(ctx context.Context, wait time.Duration, ask func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := ask(asking)
	if err != nil && ctx.Err() == nil && asking.Err() != nil {
		err = errors.Join(nats.ErrTimeout, err)
	}
	return err
}

// retryWhileUnavailable is RetryUnavailable without a bound on the whole; each request has a bound of its own (askWithin).
func retryWhileUnavailable(ctx context.Context, ask func() error) error {
	var end time.Time
	for {
		err := ask()
		if err == nil || !IsUnavailable(err) {
			return err
		}
		if end.IsZero() {
			end = time.Now().Add(patience)
		}
		if ended := concurrency.Sleep(ctx, retryEvery); ended != nil {
			return errors.Join(ended, err)
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// CodeNoPeers is JetStream's for a stream or bucket that can't have its replicas: of nodes that
// start together, some are not there yet.
const CodeNoPeers = 10005

// IsUnavailable reports whether an error says that no server could answer, or too few. Deadlines are among these: they are the client's own for
// one request, and callers look at ctx first. So is a missing stream: the caller has found or made it before, and a
// server that has just become the leader may not know it yet. A caller that asks whether a stream is there looks at the error first.
func IsUnavailable(err error) bool {
	if code, is := apiCode(err); code == http.StatusServiceUnavailable || is == CodeNoPeers || is == int(jetstream.JSErrCodeStreamNotFound) {
		return true
	}
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoHeartbeat)
}

// apiCode is what a server answered instead; 0, 0: it did not. What watches a bucket or reads
// an object has the errors of the client's older package.
func apiCode(err error) (code, is int) {
	var api *jetstream.APIError
	var older *nats.APIError
	switch {
	case errors.As(err, &api):
		return api.Code, int(api.ErrorCode)
	case errors.As(err, &older):
		return older.Code, int(older.ErrorCode)
	}
	return 0, 0
}

// FromLeader reads a message of a stream by its sequence, or if that is 0 the last message of a subject. If there is none, the
// error is jetstream.ErrMsgNotFound.
//
// Any replica may be asked for a message: the own node is near. But a replica that has just started or was replaced answers
// before it has caught up. So what it does not find is asked of the leader, and so is all that decides how a node starts.
func FromLeader(ctx context.Context, conn *nats.Conn, stream string, sequence uint64, subject string) (*jetstream.RawStreamMsg, error) {
	js, err := conn.JetStream() // the newer interface asks any replica
	if err != nil {
		return nil, err
	}
	var msg *nats.RawStreamMsg
	if sequence > 0 {
		msg, err = js.GetMsg(stream, sequence, nats.Context(ctx))
	} else {
		msg, err = js.GetLastMsg(stream, subject, nats.Context(ctx))
	}
	if errors.Is(err, nats.ErrMsgNotFound) {
		err = jetstream.ErrMsgNotFound
	}
	if err != nil {
		return nil, err
	}
	return &jetstream.RawStreamMsg{Sequence: msg.Sequence, Header: msg.Header, Data: msg.Data}, nil
}
