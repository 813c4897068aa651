package topics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// natsBroker reads a stream of JetStream in its order, from the journal's position on. One node does at a time, under a lease.
type natsBroker struct {
	source  *source
	r       *Reader
	conn    *nats.Conn
	js      jetstream.JetStream
	lease   *kv.LeaseHolder // nil: no other node reads
	life    string          // of the stream: when it was created
	arrive  chan jetstream.Msg
	stop    func()        // ends the consumer; nil: none runs
	pending atomic.Uint64 // messages that the stream has after those that came
}

// dial connects to the servers.
func (s *source) dial() (conn *nats.Conn, js jetstream.JetStream, err error) {
	scheme, options := "nats://", []nats.Option{nats.Name("weir"), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second)}
	if s.tls {
		scheme = "tls://"
	}
	if s.creds != "" {
		options = append(options, nats.UserCredentials(s.creds))
	}
	if s.user != "" {
		options = append(options, nats.UserInfo(s.user, s.password))
	}
	if conn, err = nats.Connect(scheme+strings.Join(s.servers, ","+scheme), options...); err != nil {
		return nil, nil, err
	}
	js, err = jetstream.New(conn)
	return conn, js, err
}

func openNATS(ctx context.Context, from *source, r *Reader) (broker, error) {
	b := &natsBroker{source: from, r: r}
	var err error
	if b.conn, b.js, err = from.dial(); err != nil {
		return nil, err
	}
	if err = b.look(ctx); err != nil {
		b.conn.Close()
		return nil, err
	}
	b.lease = r.journal.HoldLease(fmt.Sprintf("topic-%x", from.id(0, "")))
	return b, nil
}

// look finds out which stream of its name it is. What is read of another one ends.
func (b *natsBroker) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := b.js.Stream(ctx, b.source.topic)
	if err != nil {
		return fmt.Errorf("stream %s: %w", b.source.topic, err)
	}
	is := s.CachedInfo()
	if is.Config.Retention != jetstream.LimitsPolicy {
		return fmt.Errorf("stream %s has retention %v, which deletes messages that a consumer acknowledges: read one of retention limits, such as one that sources it", b.source.topic, is.Config.Retention)
	}
	has := func(subject string) bool { return server.SubjectMatchesFilter(b.source.dead, subject) }
	if b.source.dead != "" && slices.ContainsFunc(is.Config.Subjects, has) && (b.source.subject == "" || has(b.source.subject)) {
		return fmt.Errorf("dead=%s is in stream %s: messages that can't be counted would come back, name a subject of another stream", b.source.dead, b.source.topic)
	}
	if life := is.Created.UTC().Format(time.RFC3339Nano); life != b.life {
		b.end()
		b.life = life
	}
	return nil
}

func (b *natsBroker) fetch(ctx context.Context) ([]piece, error) {
	idle := time.NewTimer(lookEvery)
	defer idle.Stop()
	if b.lease != nil {
		if _, held := b.lease.Held(); !held {
			b.end()
			select {
			case <-ctx.Done():
			case <-idle.C:
			}
			return nil, nil
		}
	}
	if b.stop == nil {
		if err := b.begin(ctx); err != nil {
			return nil, err
		}
	}
	p, bytes := piece{life: b.life}, 0
	for len(p.messages) < batchMessages && bytes < batchBytes {
		var m jetstream.Msg
		select {
		case m = <-b.arrive:
		default:
			if len(p.messages) > 0 {
				return []piece{p}, nil
			}
			select {
			case m = <-b.arrive:
			case <-idle.C:
				return nil, b.look(ctx)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		md, err := m.Metadata()
		if err != nil { // it is read again
			b.end()
			return []piece{p}, err
		}
		if md.Sequence.Consumer == 1 { // the consumer is new, perhaps by itself, and its stream may be another one
			if err := b.look(ctx); err != nil || b.stop == nil {
				b.end()
				return []piece{p}, err
			}
		}
		b.pending.Store(md.NumPending)
		bytes += len(m.Data())
		p.messages = append(p.messages, message{offset: md.Sequence.Stream, at: md.Timestamp, name: m.Subject(), value: m.Data(), header: m.Headers().Get, raw: m})
	}
	return []piece{p}, nil
}

// begin reads from the position on. An ordered consumer is made again by itself when it is lost, or a message of it.
func (b *natsBroker) begin(ctx context.Context) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	if b.source.subject != "" {
		cfg.FilterSubjects = []string{b.source.subject}
	}
	at, known, err := b.r.position(ctx, b.source.id(0, b.life))
	if err != nil {
		return err
	}
	if known {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, max(at.Offset, 1)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := b.js.OrderedConsumer(ctx, b.source.topic, cfg)
	if err != nil {
		return err
	}
	arrive, ended := make(chan jetstream.Msg, batchMessages), make(chan struct{}) // a whole batch comes while one is written to disk
	consuming, err := c.Consume(func(m jetstream.Msg) {
		select {
		case arrive <- m:
		case <-ended:
		}
	}, jetstream.PullMaxMessagesWithBytesLimit(batchMessages, batchBytes))
	if err == nil {
		b.arrive, b.stop = arrive, func() { close(ended); consuming.Stop() }
	}
	return err
}

// end ends what is read; another node may go on with it.
func (b *natsBroker) end() {
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
	b.pending.Store(0)
}

// commit has nothing to do: the position is in the journal alone.
func (b *natsBroker) commit(*piece, replication.Position) {}

func (b *natsBroker) bury(ctx context.Context, m *message, why string) error {
	out := nats.NewMsg(b.source.dead)
	for name, values := range m.raw.(jetstream.Msg).Headers() {
		if !strings.HasPrefix(name, "Nats-") { // such as the ID by which a stream drops repeats
			out.Header[name] = values
		}
	}
	out.Data = m.value
	out.Header.Set("Weir-Error", why)
	out.Header.Set("Weir-Source", fmt.Sprintf("%s %s %d", b.source.topic, m.name, m.offset))
	_, err := b.js.PublishMsg(ctx, out)
	return err
}

func (b *natsBroker) lag() uint64 { return b.pending.Load() }

func (b *natsBroker) close(ctx context.Context) {
	b.end()
	if b.lease != nil {
		_ = b.lease.Close(ctx) // or it expires
	}
	b.conn.Close()
}
