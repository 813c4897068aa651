package region

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// restateEvery is how often a digest has the totals of all partitions, so that a hole is found where no batch follows.
const restateEvery = time.Minute

// digest writes the next digest of this region: all that the journal has since the last one. If that is not possible, it
// begins a new epoch.
func (r *Region) digest(ctx context.Context) error {
	upTo, asOf, late, err := r.journal.Moment(ctx)
	if err != nil {
		return err
	}
	return r.digestTo(ctx, upTo, asOf, late)
}

func (r *Region) digestTo(ctx context.Context, upTo uint64, asOf time.Time, late []replica.OriginStatus) error {
	if own := r.ledger.Region(r.cfg.Name); own != nil && own.ID != r.after {
		r.tail = nil // another node has written since
	}
	if r.tail == nil && !r.resume() {
		return r.begin(ctx)
	}
	_, last, err := r.journal.Bounds(ctx)
	if err != nil {
		return err
	}
	if r.tail.Next() > last+1 {
		r.log.Warn("regions: the journal ends before what the last digest has; a new epoch of digests begins", "region", r.cfg.Name)
		return r.begin(ctx)
	}
	switch err := r.journal.ReadFlushes(ctx, r.tail, upTo, r.addFlush); {
	case errors.Is(err, durable.ErrTrimmed):
		r.log.Warn("regions: the journal begins after what the last digest has; a new epoch of digests begins", "region", r.cfg.Name)
		return r.begin(ctx)
	case err != nil:
		r.tail = nil
		return err
	}
	parts := r.cut(asOf, late)
	for _, part := range parts {
		if err := r.append(ctx, entry{data: part}); err != nil {
			return err
		}
	}
	r.after = r.ledger.Region(r.cfg.Name).ID
	return nil
}

func (r *Region) addFlush(flush []record.Part) error {
	for _, p := range flush {
		for _, b := range p.Batches {
			r.sum.Add(b)
		}
	}
	return nil
}

// resume continues after the log's last digest of this region, and reports whether that is possible.
func (r *Region) resume() bool {
	own := r.ledger.Region(r.cfg.Name)
	if own == nil || own.Gone || own.Note == nil || own.ID.Before(r.foreign) {
		return false
	}
	if n := own.Note; n.Journal != r.journal.ID() || n.Partitions != r.engine.Partitions || n.Retention != r.engine.Retention {
		return false
	}
	r.tail, r.sum, r.after = replica.NewTailFlushes(own.Note.At), NewSum(r.engine.Partitions), own.ID
	return true
}

func (r *Region) cut(asOf time.Time, late []replica.OriginStatus) [][]byte {
	own := r.ledger.Region(r.cfg.Name)
	e := record.NewEncoder(record.Incarnation{Origin: OriginOf(r.cfg.Name), Epoch: own.Epoch}, r.engine.Partitions)
	e.Node, e.Flush = r.cfg.Name, own.Seq
	copy(e.Seqs, own.Audit.Seqs)
	copy(e.Totals, own.Audit.Totals)
	e.Begin(asOf)
	r.sum.Cut(e)
	if now := r.now(); now.Sub(r.restated) > restateEvery {
		r.restated = now
		for partition := range r.engine.Partitions {
			e.Restate(partition)
		}
	}
	return e.End([][]byte{r.note(late).Encode()})
}

// note returns the note of a digest or base that reaches to the position of the tail.
func (r *Region) note(late []replica.OriginStatus) Note {
	n := Note{
		Journal: r.journal.ID(), Partitions: r.engine.Partitions, Retention: r.engine.Retention, Every: r.cfg.Every, At: r.tail.Position(),
	}
	for _, l := range late {
		n.Late = append(n.Late, api.Late{Node: l.Node, Since: api.Millis(l.AsOf)})
	}
	r.mu.Lock()
	r.unread = r.tail.Lost()
	r.mu.Unlock()
	return n
}

// beginEvery is how often a new epoch may begin.
const beginEvery = 5 * time.Second

var errBegun = errors.New("an epoch of this region's digests began a moment ago: another region may have the same name")

// begin begins a new epoch of digests, with a base.
func (r *Region) begin(ctx context.Context) error {
	now := r.now()
	if now.Sub(r.renewed) < beginEvery {
		return errBegun
	}
	id := ID{Epoch: max(uint64(now.UnixMilli()), r.foreign.Epoch+1), Seq: 1}
	if own := r.ledger.Region(r.cfg.Name); own != nil {
		id.Epoch = max(id.Epoch, own.Epoch+1)
	}
	r.tail = nil
	if err := r.writeOwnBase(ctx, id); err != nil {
		return err
	}
	r.renewed = now
	r.log.Info("regions: a new epoch of this region's digests began", "region", r.cfg.Name, "epoch", id.Epoch)
	return nil
}

const (
	logStream  = "WEIR_REGIONS"
	logSubject = "weir.regions"

	// newsSubject carries the sequence of each message that was appended, an unsigned varint. It is a hint for nodes that
	// follow the log.
	newsSubject = "weir.regions.news"

	appendTimeout = 2 * time.Second
)

// errBehind says that nothing was appended: the log has messages that were not read.
var errBehind = errors.New("another node has appended to the log meanwhile")

// errNoMessage is the error for a message that the log does not have.
var errNoMessage = errors.New("the log does not have the message")

// store is where the log is: a stream of JetStream, or of a simulation.
type store interface {
	bounds(ctx context.Context) (first, last uint64, err error)
	append(ctx context.Context, after uint64, m entry) (sequence uint64, err error)
	get(ctx context.Context, sequence uint64, leader bool) (entry, error)
	trim(ctx context.Context, upTo uint64) error
}

// entry is a message of the log.
type entry struct {
	data []byte
	via  string // the region whose link brought it; "": it was made here

	decoded *Message // nil: not yet. Many feeds read it
}

func (e entry) message() (Message, error) {
	if e.decoded != nil {
		return *e.decoded, nil
	}
	return Decode(e.data)
}

// viaHeader has entry.via in the log's stream.
const viaHeader = "Weir-Via"

// regionLog is the stream of digests.
type regionLog struct {
	nats   *transport.Node
	stream jetstream.Stream
}

// openLog opens the log of a journal, or creates it. It replaces a log of another journal, as in a directory that was taken
// over: then a new epoch begins.
func openLog(ctx context.Context, nats *transport.Node, journal uint64) (*regionLog, error) {
	l := &regionLog{nats: nats}
	js, id := nats.JetStream(), record.JournalText(journal)
	err := stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		l.stream, err = js.Stream(ctx, logStream)
		if err == nil && l.stream.CachedInfo().Config.Metadata[stream.MetaJournal] != id {
			if err = js.DeleteStream(ctx, logStream); err == nil {
				err = jetstream.ErrStreamNotFound
			}
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			l.stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
				Name: logStream, Subjects: []string{logSubject}, Storage: jetstream.FileStorage, Replicas: nats.Replicas(replica.Replicas),
				Metadata: map[string]string{stream.MetaJournal: id}, Duplicates: 100 * time.Millisecond, Discard: jetstream.DiscardNew, AllowDirect: true,
			})
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node made it at the same moment
				err = again(err)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the log of regions: %w", err)
	}
	return l, nil
}

// again returns an error that is retried.
func again(err error) error { return errors.Join(nats.ErrTimeout, err) }

// bounds returns the first and the last message, as the leader knows. An empty log has first = last+1.
func (l *regionLog) bounds(ctx context.Context) (first, last uint64, err error) {
	var info *jetstream.StreamInfo
	err = stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		info, err = l.stream.Info(ctx)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return max(info.State.FirstSeq, 1), info.State.LastSeq, nil
}

// append appends a message after the last one that was read. The error is errBehind if the log has another message there.
// After any other error the message may be in the log.
func (l *regionLog) append(ctx context.Context, after uint64, m entry) (sequence uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	msg := nats.NewMsg(logSubject)
	msg.Data = m.data
	if m.via != "" {
		msg.Header.Set(viaHeader, m.via)
	}
	ack, err := l.nats.JetStream().PublishMsg(ctx, msg, jetstream.WithExpectLastSequence(after))
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return 0, errBehind
	}
	if err != nil {
		return 0, err
	}
	_ = l.nats.Conn().Publish(newsSubject, binary.AppendUvarint(nil, ack.Sequence)) // without it, other nodes read the message later
	return ack.Sequence, nil
}

// get reads a message from any replica, preferably this node's own, or with leader from the leader. If there is none, the error is
// errNoMessage.
func (l *regionLog) get(ctx context.Context, sequence uint64, leader bool) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, stream.AskTime)
	defer cancel()
	var msg *jetstream.RawStreamMsg
	var err error
	if leader {
		msg, err = stream.FromLeader(ctx, l.nats.Conn(), logStream, sequence, "")
	} else {
		msg, err = l.stream.GetMsg(ctx, sequence)
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = errNoMessage
	}
	if err != nil {
		return entry{}, err
	}
	return entry{data: msg.Data, via: msg.Header.Get(viaHeader)}, nil
}

func (l *regionLog) trim(ctx context.Context, upTo uint64) error {
	ctx, cancel := context.WithTimeout(ctx, stream.AskTime)
	defer cancel()
	return l.stream.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
}
