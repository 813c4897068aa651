// Package topics counts hits that come from topics of brokers: streams of NATS JetStream, and Kafka. It calls the service as a
// listener does; where a listener has clients, it has positions.
//
// Each message counts exactly once. The hits of some messages and the move of the position that they make are in one flush of the
// journal (Service.Advance), so that a crash has both or neither. Of two moves that begin at one position, the journal's first one
// counts, and all nodes leave out the hits of the other (package replica). So two nodes that read at once count nothing twice. Leases
// and consumer groups only make this rare.
//
// Invariants:
//   - A node makes a move from where the journal, as it has followed it, says that the topic is counted; and only once it has
//     followed its last move of the partition.
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
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
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
	retryAfter = 200 * time.Millisecond

	// gatherFor is how long a reader with few messages waits for more: each batch costs a write to disk.
	gatherFor = 50 * time.Millisecond

	failingFor = 5 * time.Second // before there is an alarm
	badFor     = time.Minute     // how long messages that can't be counted are an alarm
)

// Config says what to read. The zero value reads nothing.
type Config struct {
	From     []string // URLs of topics: docs/topics.md
	Insecure bool     // they may be on other machines without TLS
}

// Validate returns a *engine.Error that names the field at fault.
func (c Config) Validate() error {
	if _, err := parseSources(c.From, c.Insecure); err != nil {
		return settings.Invalid("From", err.Error())
	}
	return nil
}

// Reader reads one topic. It is a listener: New, and then Run once the node is ready.
type Reader struct {
	source  *source
	journal *durable.Journal
	service *service.Service
	caller  access.Caller
	log     *slog.Logger

	broker  atomic.Pointer[broker] // nil: none is open
	parser  *parser                // feed's
	tally   ingest.Tally           // count's
	role    ingest.Tally           // parse's
	waiting atomic.Int64           // messages that came and are not counted yet

	messages, bad, unburied, outrun atomic.Uint64
	failing, partly, lastBad        atomic.Pointer[fault] // partly: a partition fails, while others may not
}

// fault is something that goes wrong, since a time.
type fault struct {
	err         error
	since, last time.Time
	lost        bool // a message that can't be counted is not in dead
}

// New returns a Reader of a topic for a service with a journal. It fails if the tokens file has no such identity.
func New(s *service.Service, url string, log *slog.Logger) (*Reader, error) {
	from, err := parseSource(url)
	if err != nil {
		return nil, err
	}
	r := &Reader{source: from, service: s, log: log.With("topic", from.name())}
	r.journal = s.Backend().Journal.(*durable.Journal)
	if (s.Backend().Tokens != nil) != (from.identity != "") {
		return nil, fmt.Errorf("--from %s: identity=NAME, of the tokens file and with role ingest, belongs to --tokens: give both or neither", from.name())
	}
	if r.caller, err = s.WithName(access.Caller{}, from.identity); err != nil {
		return nil, fmt.Errorf("--from %s, identity=%s: %w", from.name(), from.identity, err)
	}
	r.parser, err = newParser(from, s.Backend().Engine.Config().MaxAhead)
	return r, err
}

// Listen, Addr and Close have nothing to do: a Reader calls others.
func (r *Reader) Listen() error { return nil }
func (r *Reader) Addr() string  { return "" }
func (r *Reader) Close() error  { return nil }

// Figures implements access.Listener.
func (r *Reader) Figures() access.ListenerFigures {
	lag := uint64(max(r.waiting.Load(), 0))
	if b := r.broker.Load(); b != nil {
		lag += (*b).lag()
	}
	return access.ListenerFigures{
		Name: r.source.name(), Lag: &lag, Requests: []access.ListenerRequests{{Kind: "message", Count: r.messages.Load()}},
		Rejected: []access.ListenerRequests{{Kind: "bad", Count: r.bad.Load()}, {Kind: "dead_letter_failed", Count: r.unburied.Load()}, {Kind: "counted_elsewhere", Count: r.outrun.Load()}},
	}
}

// Alarms implements access.Listener.
func (r *Reader) Alarms() (list []api.Alarm) {
	f := r.failing.Load()
	if p := r.partly.Load(); p != nil && (f == nil || p.since.Before(f.since)) && time.Since(p.last) < 2*failingFor {
		f = p
	}
	if f != nil && time.Since(f.since) > failingFor {
		list = append(list, api.Alarm{Code: "topic_failing", Message: fmt.Sprintf("%s has not been read since %s: %v; its messages wait there", r.source.name(), f.since.UTC().Format(time.RFC3339), f.err)})
	}
	if b := r.lastBad.Load(); b != nil && time.Since(b.since) < badFor {
		list = append(list, api.Alarm{Code: "topic_bad_messages", Message: fmt.Sprintf("%s has messages that can't be counted, such as: %v", r.source.name(), b.err)})
	}
	return list
}

// broker is what has the topic: NATS or Kafka. One goroutine calls fetch and bury, another one commit and bury.
type broker interface {
	// fetch waits for messages, for some time. Messages of a partition come in order, and begin at Reader.position or before it.
	fetch(ctx context.Context) ([]piece, error)
	// commit says that the messages of a piece are in the journal.
	commit(p *piece, at replication.Position)
	// bury writes a message where dead ones go.
	bury(ctx context.Context, m *message, why string) error
	lag() uint64
	close(ctx context.Context)
}

// note notes that a partition fails. It is over when it was not noted for some time.
func (r *Reader) note(err error) {
	f := &fault{err: err, since: time.Now(), last: time.Now()}
	if was := r.partly.Load(); was != nil && f.last.Sub(was.last) < 2*failingFor {
		f.since = was.since
	} else {
		r.log.Warn("a partition of a topic can't be read; will retry, its messages wait there", "error", err)
	}
	r.partly.Store(f)
}

// retry notes why the topic is not read, and waits. It fails once ctx has ended.
func (r *Reader) retry(ctx context.Context, err error) error {
	f := &fault{err: err, since: time.Now()}
	if was := r.failing.Load(); was != nil {
		f.since = was.since
	} else if ctx.Err() == nil {
		r.log.Warn("a topic can't be read; will retry, its messages wait there", "error", err)
	}
	r.failing.Store(f)
	return concurrency.Sleep(ctx, retryAfter)
}

// position is where the journal has the topic, with all that other nodes wrote before the call if they can be heard. Where it is not known,
// the error says why the topic may not be read from its beginning; nil: it may.
func (r *Reader) position(ctx context.Context, topic replication.RequestID) (at replication.Position, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_ = r.journal.SyncFollowed(ctx) // an older position costs work, and counts nothing twice
	err = r.journal.MayBegin()      // before the position is looked up, which a node that joins may bring
	if at, known = r.journal.Position(topic); known {
		err = nil
	}
	return at, known, err
}

// Run reads until ctx ends. What is counted then and not in the journal yet comes with its last flush.
func (r *Reader) Run(ctx context.Context) error {
	open := openNATS
	if r.source.kafka {
		open = openKafka
	}
	b, err := open(ctx, r.source, r)
	for err != nil {
		if r.retry(ctx, err) != nil {
			return nil
		}
		b, err = open(ctx, r.source, r)
	}
	r.broker.Store(&b)
	r.log.Info("reading a topic", "format", r.source.format, "keys", r.source.keys)
	parsed, done := make(chan []piece), make(chan struct{})
	go func() {
		defer close(done)
		for pieces := range parsed {
			if r.count(ctx, b, pieces) != nil {
				return
			}
		}
	}()
	r.feed(ctx, b, parsed)
	close(parsed)
	<-done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout/5)
	defer cancel()
	b.close(ctx)
	return nil
}

// feed fetches and parses messages, until ctx ends.
func (r *Reader) feed(ctx context.Context, b broker, to chan<- []piece) {
	for ctx.Err() == nil {
		pieces, err := b.fetch(ctx)
		came := 0
		for i := range pieces {
			came += len(pieces[i].messages)
			r.waiting.Add(int64(len(pieces[i].messages)))
			r.parse(ctx, b, &pieces[i])
		}
		switch {
		case came > 0 && ctx.Err() == nil: // else some may not be buried
			select {
			case to <- pieces:
			case <-ctx.Done():
			}
		case err == nil && r.waiting.Load() == 0:
			r.failing.Store(nil)
		}
		switch { // the loop looks whether ctx has ended
		case err != nil: // what came before is counted, so that it is not read again
			for r.retry(ctx, err) == nil && r.waiting.Load() > 0 {
			}
		case came > 0 && came < batchMessages/10:
			_ = concurrency.Sleep(ctx, gatherFor)
		}
	}
}

// parse makes hits of the messages of a piece. Those that can't be counted are buried before the position moves beyond them.
func (r *Reader) parse(ctx context.Context, b broker, into *piece) {
	p := r.parser
	known, _ := r.journal.Position(r.source.id(into.partition, into.life))
	into.ends = make([]int, len(into.messages))
	if p.role = &r.role; r.service.Ingest(r.caller, p.role) != nil {
		p.role = nil // count retries until the identity may count again
	}
	now := time.Now()
	for i := range into.messages {
		if m := &into.messages[i]; m.offset >= known.Offset {
			if err := p.add(into, m, now); err != nil {
				r.bury(ctx, b, m, err)
			}
		}
		into.ends[i] = len(into.hits)
	}
}

// bury keeps a message that can't be counted, or at least says so.
func (r *Reader) bury(ctx context.Context, b broker, m *message, why error) {
	r.bad.Add(1)
	f := &fault{since: time.Now()}
	fate := "it is in " + r.source.dead
	switch {
	case r.source.dead == "":
		fate = "it is dropped; dead=NAME in the topic's URL keeps such messages"
	case strings.HasPrefix(m.header("Weir-Source"), r.source.topic+" "): // else it would come back forever
		fate, f.lost = "it is dropped, since it is a dead letter of this topic already", true
	default:
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if err := b.bury(ctx, m, why.Error()); err != nil {
			fate, f.lost = fmt.Sprintf("it is dropped, since %s does not take it: %v", r.source.dead, err), true
		}
	}
	if f.err = fmt.Errorf("%w; %s", why, fate); f.lost {
		r.unburied.Add(1)
	}
	last := r.lastBad.Load()
	begins := last == nil || f.since.Sub(last.since) > badFor
	if f.lost || begins {
		r.log.Warn("a message of a topic can't be counted", "offset", m.offset, "error", f.err)
	}
	if f.lost || begins || !last.lost { // the alarm is about one that is lost, if any is
		r.lastBad.Store(f)
	}
}

// count counts pieces of different partitions, until the journal has them. It fails when ctx ends.
func (r *Reader) count(ctx context.Context, b broker, pieces []piece) error {
	for len(pieces) > 0 {
		counted := false
		for i := range pieces {
			some, err := r.advance(ctx, b, &pieces[i])
			if err != nil && r.retry(ctx, err) != nil {
				return err
			}
			counted = counted || some
		}
		if !counted { // the journal is behind, or a ceiling reached
			if err := r.retry(ctx, errBackpressure); err != nil {
				return err
			}
		}
		for err := r.journal.SyncFollowed(ctx); err != nil; err = r.journal.SyncFollowed(ctx) {
			if err := r.retry(ctx, err); err != nil {
				return err
			}
		}
		pieces = slices.DeleteFunc(pieces, func(p piece) bool {
			at, known := r.journal.Position(r.source.id(p.partition, p.life))
			if known && at != p.to {
				r.outrun.Add(1)
			}
			if !known || at.Offset <= p.messages[len(p.messages)-1].offset {
				return false
			}
			r.failing.Store(nil)
			r.messages.Add(uint64(len(p.messages)))
			r.waiting.Add(-int64(len(p.messages)))
			b.commit(&p, at)
			return true
		})
	}
	return nil
}

// errBackpressure is why messages wait.
var errBackpressure = errors.New("no further hit is taken now: the journal is behind, or the identity has reached its ceiling")

// advance counts a piece from the position on, up to where the engine takes its hits; false: that is nothing.
func (r *Reader) advance(ctx context.Context, b broker, p *piece) (some bool, err error) {
	topic, t := r.source.id(p.partition, p.life), &r.tally
	from, known := r.journal.Position(topic)
	if !known {
		from.Offset = p.messages[0].offset
	}
	first := 0
	for first < len(p.messages) && p.messages[first].offset < from.Offset {
		first++
	}
	if err := r.service.Ingest(r.caller, t); err != nil {
		return false, err
	}
	var refused *message // the position stays before it until it is buried
	to := from
	r.service.Advance(topic, t, func() replication.Move {
		for i := first; i < len(p.messages); i++ {
			m, bad := &p.messages[i], t.RejectedLines
			hits := p.hits[:p.ends[i]]
			if i > 0 {
				hits = hits[p.ends[i-1]:]
			}
			done := uint64(0)
			if m.offset == from.Offset {
				done = min(from.Hits, uint64(len(hits)))
			}
			for _, h := range hits[done:] {
				t.Line++
				err = r.service.Hit(t, time.Unix(h.at, 0), h.key, h.n)
				wait := err != nil || t.RetryFrom > 0 || t.RejectedLines > bad && t.LastRejected() == api.CodeCeiling
				if !wait && t.RejectedLines > bad && p.buried != m {
					refused = m
				}
				if wait || refused != nil {
					to = replication.Position{Offset: m.offset, Hits: done}
					return replication.Move{From: from, To: to}
				}
				done++
			}
			to = replication.Position{Offset: m.offset + 1}
		}
		return replication.Move{From: from, To: to}
	})
	if refused != nil {
		r.bury(ctx, b, refused, fmt.Errorf("a hit was refused: %s", t.LastRejected()))
		p.buried = refused
	}
	p.to = to
	return to != from || refused != nil || first == len(p.messages), err
}
