// Package topics counts hits that come from topics of brokers: streams of NATS JetStream, and Kafka. It calls the service as a
// listener does; where a listener has clients, it has positions.
//
// Each message counts exactly once. The hits of some messages and the move of the position that they make are in one flush of the
// journal (Service.Advance), so that a crash has both or neither. Of two moves that begin at one position the journal's first one
// counts, and all nodes leave the hits of the other out: a node that read the topic before and whose flush comes late, or two nodes
// that read at once, count nothing twice (package replica). Leases and consumer groups only see to it that this is rare.
//
// Invariants:
//   - A node makes a move from where the journal, as it has followed it, says that the topic is counted; and only once it has
//     followed its last move of that partition.
//   - The broker learns of a position after the journal has it.
//   - A source has at most a batch that is counted, one that is parsed, and one that arrives.
//
// docs/decisions/0017-topics.md has the reasons and what was rejected.
package topics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/settings"
)

const (
	batchMessages = 20_000 // at most, of all partitions
	batchBytes    = 8 << 20

	askTimeout = 10 * time.Second
	lookEvery  = time.Second // how often a reader without messages looks around
	retryMost  = 5 * time.Second
	buryTries  = 3 // of a message that goes to where dead ones go

	failingFor = 5 * time.Second // before there is an alarm
	badFor     = time.Minute     // how long messages that can't be counted are an alarm
)

// Config says what to read. The zero value reads nothing.
type Config struct {
	From     []string // URLs of topics: see source
	Insecure bool     // they may be on other machines without TLS
	Logger   *slog.Logger
}

// Validate returns a *engine.Error that names the field at fault.
func (c Config) Validate() error {
	if _, err := parseSources(c.From, c.Insecure); err != nil {
		return settings.Invalid("From", err.Error())
	}
	return nil
}

// Topics are all topics of a node. Create them with New, Start them once the node is ready, and Close them before the journal.
type Topics struct {
	readers []*reader
	stop    context.CancelCauseFunc
	running sync.WaitGroup
}

// New returns the topics of a valid Config, which are not read yet.
func New(cfg Config, journal *durable.Journal) (*Topics, error) {
	sources, err := parseSources(cfg.From, cfg.Insecure)
	if err != nil {
		return nil, err
	}
	t := &Topics{}
	for _, s := range sources {
		t.readers = append(t.readers, &reader{of: s, journal: journal, log: cfg.Logger})
	}
	return t, nil
}

// Start begins to read. It fails if an identity is none of the service's tokens.
func (t *Topics) Start(of *service.Service) (err error) {
	ctx, stop := context.WithCancelCause(context.Background())
	t.stop = stop
	for _, r := range t.readers {
		r.service = of
		if (of.Backend().Tokens != nil) != (r.of.identity != "") {
			return fmt.Errorf("--from %s: identity=NAME, a name of the tokens file with role ingest, belongs to --tokens: give both or neither", r.of.name())
		}
		if r.caller, err = of.WithName(access.Caller{}, r.of.identity); err != nil {
			return fmt.Errorf("--from %s, identity=%s: %w", r.of.name(), r.of.identity, err)
		}
	}
	for _, r := range t.readers {
		t.running.Go(func() { r.run(ctx) })
	}
	return nil
}

// Close ends reading: what is counted and not in the journal yet comes with its last flush.
func (t *Topics) Close() {
	if t.stop != nil {
		t.stop(errors.New("the node stops"))
	}
	t.running.Wait()
}

// Figures are the figures of all topics, since the start.
type Figures struct {
	Messages uint64 `metric:"weir_topic_messages_total" doc:"Messages of topics (--from) that were counted, or passed over because they can't be."`
	Bad      uint64 `metric:"weir_topic_bad_messages_total" doc:"Messages of topics that could not be counted: malformed, or with a key, time or identity that is refused."`
	Unburied uint64 `metric:"weir_topic_dead_letters_failed_total" doc:"Messages that could not be counted, and could not be written to the dead letters either."`
	Outrun   uint64 `metric:"weir_topic_outrun_batches_total" doc:"Batches of topics whose hits were taken back because another node had counted the messages."`
	Lag      uint64 `metric:"weir_topic_lag_messages" gauge:"true" doc:"Messages that topics have after those that this node counted, of the partitions that it reads."`
}

// Stats are those figures now.
func (t *Topics) Stats() (f Figures) {
	for _, r := range t.readers {
		f.Messages += r.messages.Load()
		f.Bad += r.bad.Load()
		f.Unburied += r.unburied.Load()
		f.Outrun += r.outrun.Load()
		f.Lag += r.lag()
	}
	return f
}

// Figures implements access.Listener.
func (t *Topics) Figures() access.ListenerFigures {
	s := t.Stats()
	return access.ListenerFigures{Name: "topics", Failed: s.Bad, Requests: []access.ListenerRequests{{Kind: "message", Count: s.Messages}}}
}

// Alarms implements access.Listener.
func (t *Topics) Alarms() (list []api.Alarm) {
	for _, r := range t.readers {
		if f := r.failing.Load(); f != nil && time.Since(f.since) > failingFor {
			list = append(list, api.Alarm{Code: "topic_failing", Message: fmt.Sprintf("%s is not read since %s: %v; its messages wait there", r.of.name(), f.since.UTC().Format(time.RFC3339), f.err)})
		}
		if b := r.lastBad.Load(); b != nil && time.Since(b.since) < badFor {
			list = append(list, api.Alarm{Code: "topic_bad_messages", Message: fmt.Sprintf("%s has messages that can't be counted, the last one: %v; %s", r.of.name(), b.err, r.of.fate())})
		}
	}
	return list
}

// fate says what becomes of messages that can't be counted.
func (s *source) fate() string {
	if s.dead == "" {
		return "they are passed over; dead=NAME in its URL keeps them"
	}
	return "they are in " + s.dead
}

// broker is what has the topic: NATS or Kafka. One goroutine calls it; another one commit and lag.
type broker interface {
	// fetch waits for messages, for some time. Those of a partition come in order, and begin at r.position or before it.
	fetch(ctx context.Context) ([]piece, error)
	// commit says that the messages of a piece are in the journal.
	commit(p *piece, at replication.Position)
	// bury writes a message where dead ones go.
	bury(ctx context.Context, m *message, why string) error
	lag() uint64
	close(ctx context.Context)
}

// reader reads one topic.
type reader struct {
	of      *source
	journal *durable.Journal
	service *service.Service
	caller  access.Caller
	log     *slog.Logger

	broker  atomic.Pointer[broker] // nil: none is open
	tally   ingest.Tally
	waiting atomic.Int64 // messages that came and are not counted yet

	messages, bad, unburied, outrun atomic.Uint64
	failing, lastBad                atomic.Pointer[fault]
}

// fault is something that goes wrong, since a time.
type fault struct {
	err   error
	since time.Time
}

// fail notes why the topic is not read; nil: it is.
func (r *reader) fail(err error) {
	was := r.failing.Load()
	switch {
	case err == nil && was != nil:
		r.failing.Store(nil)
		r.log.Info("the topic is read again", "topic", r.of.name())
	case err != nil && was == nil:
		r.failing.Store(&fault{err, time.Now()})
		r.log.Warn("the topic can't be read; will retry, its messages wait there", "topic", r.of.name(), "error", err)
	case err != nil:
		r.failing.Store(&fault{err, was.since})
	}
}

func (r *reader) lag() uint64 {
	n := uint64(max(r.waiting.Load(), 0))
	if b := r.broker.Load(); b != nil {
		n += (*b).lag()
	}
	return n
}

// position is where the journal has the topic, with all that other nodes wrote before the call if they can be heard.
func (r *reader) position(ctx context.Context, topic replication.RequestID) (replication.Position, bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := r.journal.SyncFollowed(ctx); err != nil { // an older position costs work, and counts nothing twice
		r.log.Debug("the position of a topic may be an older one", "topic", r.of.name(), "error", err)
	}
	return r.journal.Position(topic)
}

// run reads until ctx ends.
func (r *reader) run(ctx context.Context) {
	open := openNATS
	if r.of.kafka {
		open = openKafka
	}
	var b broker
	for wait := time.Second / 10; ; wait = min(2*wait, retryMost) {
		var err error
		if b, err = open(ctx, r.of, r); err == nil {
			break
		}
		if r.pause(ctx, wait, err) != nil {
			return
		}
	}
	r.broker.Store(&b)
	r.log.Info("reading a topic", "topic", r.of.name(), "reader", r.of.reader, "format", r.of.format, "keys", r.of.keys)
	parsed := make(chan []piece)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pieces := range parsed {
			if r.count(ctx, b, pieces) != nil {
				for range parsed { // it ends
				}
			}
		}
	}()
	r.feed(ctx, b, parsed)
	close(parsed)
	<-done
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout/5)
	defer cancel()
	b.close(closing)
}

// pause notes a failure and waits. It fails when ctx has ended.
func (r *reader) pause(ctx context.Context, wait time.Duration, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.fail(err)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}

// feed fetches and parses messages, until ctx ends.
func (r *reader) feed(ctx context.Context, b broker, to chan<- []piece) {
	p, err := newParser(r.of, r.service.Backend().Engine.Config().MaxAhead)
	if err != nil {
		r.fail(err) // it was checked: it can't be
		return
	}
	for wait := time.Second / 10; ctx.Err() == nil; {
		pieces, err := b.fetch(ctx)
		if err != nil {
			_ = r.pause(ctx, wait, err)
			wait = min(2*wait, retryMost)
			continue
		}
		r.fail(nil)
		wait = time.Second / 10
		for i := range pieces {
			r.waiting.Add(int64(len(pieces[i].messages)))
			r.parse(ctx, b, p, &pieces[i])
		}
		if len(pieces) == 0 {
			continue
		}
		select {
		case to <- pieces:
		case <-ctx.Done():
		}
	}
}

// parse makes hits of the messages of a piece. Those that can't be counted are buried before the position moves beyond them.
func (r *reader) parse(ctx context.Context, b broker, p *parser, of *piece) {
	known, _ := r.journal.Position(r.of.id(of.partition, of.life))
	of.ends = make([]int, len(of.messages))
	now := time.Now()
	for i := range of.messages {
		m := &of.messages[i]
		if m.offset >= known.Offset {
			if err := p.add(of, m, now); err != nil {
				r.bury(ctx, b, m, err)
			}
		}
		of.ends[i] = len(of.hits)
	}
}

// bury keeps a message that can't be counted, or at least says so.
func (r *reader) bury(ctx context.Context, b broker, m *message, why error) {
	r.bad.Add(1)
	if last := r.lastBad.Swap(&fault{why, time.Now()}); last == nil || time.Since(last.since) > badFor {
		r.log.Warn("a message of a topic can't be counted", "topic", r.of.name(), "offset", m.offset, "error", why, "dead", r.of.dead)
	}
	if r.of.dead == "" {
		return
	}
	var err error
	for range buryTries {
		if err = b.bury(ctx, m, why.Error()); err == nil || ctx.Err() != nil {
			return
		}
	}
	r.unburied.Add(1)
	r.log.Error("a message that can't be counted could not be kept", "topic", r.of.name(), "offset", m.offset, "dead", r.of.dead, "error", err)
}

// count counts pieces of different partitions, until the journal has them. It fails when ctx ends.
func (r *reader) count(ctx context.Context, b broker, pieces []piece) error {
	for left := pieces; len(left) > 0; {
		moved := false
		for i := range left {
			ok, err := r.advance(ctx, b, &left[i])
			if err != nil { // no hit may be counted now
				if r.pause(ctx, time.Second/10, err) != nil {
					return err
				}
			}
			moved = moved || ok
		}
		if err := r.sync(ctx); err != nil {
			return err
		}
		rest := left[:0:0]
		for _, p := range left {
			at, known := r.journal.Position(r.of.id(p.partition, p.life))
			end := replication.Position{Offset: p.messages[len(p.messages)-1].offset + 1}
			if known && !at.Before(end) {
				r.messages.Add(uint64(len(p.messages)))
				r.waiting.Add(-int64(len(p.messages)))
				b.commit(&p, at)
				continue
			}
			rest = append(rest, p)
		}
		if left = rest; len(left) > 0 && !moved { // the journal is behind, or a ceiling reached
			if err := r.pause(ctx, time.Second/10, errBackpressure); err != nil {
				return err
			}
		} else {
			r.fail(nil)
		}
	}
	return nil
}

// errBackpressure is why messages wait.
var errBackpressure = errors.New("no further hit is taken now: the journal is behind, or the identity has reached its ceiling")

// sync waits until the journal has what was counted, and this node knows what counts.
func (r *reader) sync(ctx context.Context) error {
	for {
		err := r.journal.SyncFollowed(ctx)
		if err == nil {
			return nil
		}
		if err := r.pause(ctx, time.Second/10, err); err != nil {
			return err
		}
	}
}

// advance counts a piece from the position on, up to where the engine takes its hits. moved is false if that is nothing.
func (r *reader) advance(ctx context.Context, b broker, p *piece) (moved bool, err error) {
	topic := r.of.id(p.partition, p.life)
	from, known := r.journal.Position(topic)
	first := 0
	if !known {
		from.Offset = p.messages[0].offset
	}
	for first < len(p.messages) && p.messages[first].offset < from.Offset {
		first++
	}
	if first > 0 && first < len(p.messages) && p.counted {
		r.outrun.Add(1)
	}
	t := &r.tally
	if err := r.service.Ingest(r.caller, t); err != nil {
		return false, err
	}
	var refused []int
	r.service.Advance(topic, t, func() replication.Move {
		to := from
		for i := first; i < len(p.messages); i++ {
			hits := p.hitsOf(i)
			at := replication.Position{Offset: p.messages[i].offset}
			if at.Offset == from.Offset {
				at.Hits = min(from.Hits, uint64(len(hits)))
			}
			bad := t.RejectedLines
			for _, h := range hits[at.Hits:] {
				t.Line++
				if err = r.service.Hit(t, time.Unix(h.at, 0), h.key, h.n); err != nil || t.RetryFrom > 0 {
					to = at
					return replication.Move{From: from, To: to}
				}
				at.Hits++
			}
			if t.RejectedLines > bad {
				refused = append(refused, i)
			}
			to = replication.Position{Offset: at.Offset + 1}
		}
		moved = true
		return replication.Move{From: from, To: to}
	})
	p.counted = true
	for _, i := range refused {
		r.bury(ctx, b, &p.messages[i], fmt.Errorf("the hits were refused: %s", t.LastRejected()))
	}
	return moved || t.Counted > 0, err
}

// hitsOf are the hits of a message.
func (p *piece) hitsOf(i int) []hit {
	if i == 0 {
		return p.hits[:p.ends[0]]
	}
	return p.hits[p.ends[i-1]:p.ends[i]]
}
