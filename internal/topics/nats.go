package topics

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// natsBroker reads a stream of JetStream by a durable consumer, which one node has at a time under a lease. The consumer begins at
// the position of the journal whenever a node begins to read; its acknowledgements follow the journal and are for operators.
type natsBroker struct {
	of     *source
	r      *reader
	conn   *nats.Conn
	js     jetstream.JetStream
	lease  *kv.LeaseHolder // nil: no other node reads
	life   string          // of the stream
	arrive chan jetstream.Msg
	broken chan error // why the consumer is to be made again

	consuming jetstream.ConsumeContext // nil: there is none
	next      uint64                   // sequence in the stream of the first message that did not come
	delivered uint64                   // of the consumer, the last that came
	pending   atomic.Uint64            // in the stream after what came
}

// maxAckPending is how many messages the consumer may have sent that are not in the journal yet.
const maxAckPending = 4 * batchMessages

func openNATS(ctx context.Context, of *source, r *reader) (broker, error) {
	scheme := "nats://"
	if of.tls {
		scheme = "tls://"
	}
	options := []nats.Option{nats.Name("weir"), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second)}
	if of.creds != "" {
		options = append(options, nats.UserCredentials(of.creds))
	}
	if of.user != "" {
		options = append(options, nats.UserInfo(of.user, of.password))
	}
	conn, err := nats.Connect(scheme+strings.Join(of.servers, ","+scheme), options...)
	if err != nil {
		return nil, err
	}
	b := &natsBroker{of: of, r: r, conn: conn}
	if b.js, err = jetstream.New(conn); err == nil {
		_, err = b.stream(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	b.lease = r.journal.HoldLease(fmt.Sprintf("topic-%x", of.id(0, "")))
	return b, nil
}

// stream looks the stream up, and notes which one of its name it is.
func (b *natsBroker) stream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := b.js.Stream(ctx, b.of.topic)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", b.of.topic, err)
	}
	is := s.CachedInfo()
	if is.Config.Retention != jetstream.LimitsPolicy {
		return nil, fmt.Errorf("stream %s has retention %v, which deletes messages once a consumer acknowledges them one by one: read a stream of retention limits, such as one that sources it", b.of.topic, is.Config.Retention)
	}
	b.life = strconv.FormatInt(is.Created.UnixNano(), 16)
	return s, nil
}

// fetch waits for messages.
func (b *natsBroker) fetch(ctx context.Context) ([]piece, error) {
	if err := b.mine(ctx); err != nil {
		return nil, err
	}
	if b.consuming == nil {
		if err := b.consume(ctx); err != nil {
			return nil, err
		}
	}
	p, bytes := piece{}, 0
	look := time.NewTimer(lookEvery)
	defer look.Stop()
	for len(p.messages) < batchMessages && bytes < batchBytes {
		select {
		case m := <-b.arrive:
			took, err := b.take(&p, m)
			if err != nil {
				b.stop()
				return b.got(p), nil //nolint:nilerr // what came before counts, and the next fetch begins after it
			}
			bytes += took
			continue
		default:
		}
		if len(p.messages) > 0 {
			break
		}
		select {
		case m := <-b.arrive:
			took, err := b.take(&p, m)
			if err != nil {
				b.stop()
				return nil, err
			}
			bytes += took
		case err := <-b.broken:
			b.stop()
			return nil, err
		case <-look.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return b.got(p), nil
}

func (b *natsBroker) got(p piece) []piece {
	if len(p.messages) == 0 {
		return nil
	}
	p.life, p.raw = b.life, p.messages[len(p.messages)-1].raw
	return []piece{p}
}

// errGap is why a consumer is made again.
var errGap = errors.New("messages of the consumer did not come, or went to another reader: it is read again from there")

// take takes a message, unless it came before.
func (b *natsBroker) take(p *piece, m jetstream.Msg) (bytes int, err error) {
	md, err := m.Metadata()
	if err != nil {
		return 0, err
	}
	if md.Sequence.Consumer != b.delivered+1 {
		return 0, errGap
	}
	b.delivered++
	b.pending.Store(md.NumPending)
	if md.Sequence.Stream < b.next {
		return 0, nil
	}
	b.next = md.Sequence.Stream + 1
	p.messages = append(p.messages, message{
		offset: md.Sequence.Stream, at: md.Timestamp, name: []byte(m.Subject()), value: m.Data(), header: m.Headers().Get, raw: m,
	})
	return len(m.Data()), nil
}

// mine waits until this node may read.
func (b *natsBroker) mine(ctx context.Context) error {
	for b.lease != nil {
		if _, held := b.lease.Held(); held {
			return nil
		}
		b.stop()
		b.next = 0 // another node may read on
		b.pending.Store(0)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookEvery / 5):
		}
	}
	return nil
}

// consume makes the consumer anew, from the position on.
func (b *natsBroker) consume(ctx context.Context) error {
	s, err := b.stream(ctx)
	if err != nil {
		return err
	}
	from := b.next
	if from == 0 {
		if from, err = b.begin(ctx, s); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := s.DeleteConsumer(ctx, b.of.reader); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	cfg := jetstream.ConsumerConfig{
		Durable: b.of.reader, Description: "Weir counts these messages; their position is in its journal", FilterSubject: b.of.subject,
		AckPolicy: jetstream.AckAllPolicy, AckWait: time.Hour, MaxAckPending: maxAckPending, DeliverPolicy: jetstream.DeliverAllPolicy,
	}
	if from > 1 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	c, err := s.CreateConsumer(ctx, cfg)
	if err != nil {
		return err
	}
	b.next, b.delivered = from, 0
	b.arrive, b.broken = make(chan jetstream.Msg, 1024), make(chan error, 1)
	arrive, broken, ended := b.arrive, b.broken, make(chan struct{})
	b.consuming, err = c.Consume(func(m jetstream.Msg) {
		select {
		case arrive <- m:
		case <-ended:
		}
	}, jetstream.PullMaxMessagesWithBytesLimit(batchMessages, batchBytes), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrNoHeartbeat) || errors.Is(err, nats.ErrNoResponders) {
			select {
			case broken <- err:
			default:
			}
		}
	}))
	if err == nil {
		b.consuming = endingContext{b.consuming, ended}
	}
	return err
}

// endingContext lets a handler that waits go when it stops.
type endingContext struct {
	jetstream.ConsumeContext
	ended chan struct{}
}

func (c endingContext) Stop() {
	close(c.ended)
	c.ConsumeContext.Stop()
}

// begin is where to begin: at the position, where the consumer that is there stands, or at an end of the stream.
func (b *natsBroker) begin(ctx context.Context, s jetstream.Stream) (uint64, error) {
	if at, known := b.r.position(ctx, b.of.id(0, b.life)); known {
		return at.Offset, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := s.Consumer(ctx, b.of.reader)
	switch {
	case err == nil:
		return c.CachedInfo().AckFloor.Stream + 1, nil
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return 0, err
	case b.of.fromEnd:
		return s.CachedInfo().State.LastSeq + 1, nil
	}
	return 1, nil
}

func (b *natsBroker) stop() {
	if b.consuming != nil {
		b.consuming.Stop()
		b.consuming = nil
	}
}

func (b *natsBroker) commit(p *piece, _ replication.Position) {
	if m, is := p.raw.(jetstream.Msg); is {
		_ = m.Ack() // the next one has this one too
	}
}

func (b *natsBroker) bury(ctx context.Context, m *message, why string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := nats.NewMsg(b.of.dead)
	if m, is := m.raw.(jetstream.Msg); is {
		for name, values := range m.Headers() {
			out.Header[name] = values
		}
	}
	out.Data = m.value
	out.Header.Set("Weir-Error", why)
	out.Header.Set("Weir-Source", fmt.Sprintf("%s %s %d", b.of.topic, m.name, m.offset))
	_, err := b.js.PublishMsg(ctx, out)
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		err = fmt.Errorf("no stream has subject %s: %w", b.of.dead, err)
	}
	return err
}

func (b *natsBroker) lag() uint64 { return b.pending.Load() }

func (b *natsBroker) close(ctx context.Context) {
	b.stop()
	if b.lease != nil {
		if err := b.lease.Close(ctx); err != nil {
			b.r.log.Warn("could not release the lease of a topic; it will expire", "topic", b.of.name(), "error", err)
		}
	}
	b.conn.Close()
}
