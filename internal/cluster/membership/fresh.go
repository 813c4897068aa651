package membership

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/wire"
)

// A fresh answer has all hits that any node took before its question came. What was acknowledged in the journal,
// CatchUp would find; what a node took and has not yet flushed, it alone knows. So all nodes are asked to flush now,
// and each says up to which message of the journal its hits then are (fresh_answer.go). Meanwhile this node journals
// an empty flush, after which it knows every node there was. It then follows the journal up to the last of all these
// messages. A node that is known and says nothing may have taken hits: then there is no fresh answer.
//
// Questions share a round. One that comes while a round is under way waits for the
// next: that round's messages may have been sent before its hit.

const (
	// freshAgain is how often those are asked again who have not answered: a
	// connection may have been made again.
	freshAgain = 250 * time.Millisecond

	// freshPause is the least time between the beginnings of two rounds.
	freshPause = 5 * time.Millisecond
)

// Moment is a state of the journal that has all hits until a question came.
type Moment struct {
	UpTo uint64    // the last message of the journal that has some of them; 0: there is no other node
	Now  time.Time // the latest of the nodes' clocks, as the engine means it: no hit was taken at a later second
}

// notFresh says that a fresh answer is not to be had in time: hits of nodes may be missing, for a reason.
func notFresh(reason string, nodes ...string) *api.Error {
	return &api.Error{Code: api.CodeNotFresh, Field: "fresh", Missing: nodes, Message: fmt.Sprintf(
		"newer hits of %s may be missing: %s: wait longer, or ask without fresh for what is known", strings.Join(nodes, ", "), reason)}
}

// FreshnessConfig is what Freshness is made of.
type FreshnessConfig struct {
	Conn   *nats.Conn
	Log    *slog.Logger
	Origin uint64           // this node's
	Node   string           // and its name
	Now    func() time.Time // as the engine means it

	Flushes   *concurrency.Queue
	HighWater *HighWater

	Origins func() []replica.OriginStatus // the nodes that are known, by name
	Next    func() uint64                 // the first message of the journal that was not followed yet
	// AwaitFollowed returns when all up to a message of the journal was followed.
	AwaitFollowed func(ctx context.Context, last uint64) error
}

// Freshness makes rounds for fresh answers of this node, and flushes when other nodes make theirs.
type Freshness struct {
	FreshnessConfig

	kick    concurrency.Signal
	inbox   string // the number of a round follows
	number  uint64 // of the last round
	answers chan freshAnswer
	asked   chan *nats.Msg // by other nodes

	mu      sync.Mutex
	next    *freshRound // of callers that wait for the next round to begin; nil: nobody waits
	missing *api.Error  // why the round under way, or the last one, is not fresh yet; nil: it is not known
	ending  error       // why no round will begin any more

	rounds, failed atomic.Uint64
}

// freshRound is the callers that wait for one round.
type freshRound struct {
	done   chan struct{}
	moment Moment
	err    error

	waiting int                // guarded by Freshness.mu
	giveUp  context.CancelFunc // nil: not under way; guarded by Freshness.mu
}

// NewFreshness returns one whose loops, Run and RunAnswers, are the caller's to run.
func NewFreshness(cfg FreshnessConfig) *Freshness {
	return &Freshness{
		FreshnessConfig: cfg, kick: concurrency.NewSignal(), inbox: cfg.Conn.NewInbox(),
		answers: make(chan freshAnswer, maxFreshAsked), asked: make(chan *nats.Msg, maxFreshAsked),
	}
}

// Rounds is how many rounds were made, and how many of these ended without a fresh answer.
func (f *Freshness) Rounds() (all, failed uint64) { return f.rounds.Load(), f.failed.Load() }

// Await returns when all hits are counted here that any node took before the call,
// and until when that is. If ctx ends before, the error is an *api.Error of CodeNotFresh.
func (f *Freshness) Await(ctx context.Context) (Moment, error) {
	round := f.join()
	select {
	case <-round.done:
		return round.moment, round.err
	case <-ctx.Done():
		return Moment{}, f.leave(round)
	}
}

func (f *Freshness) join() *freshRound {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &freshRound{done: make(chan struct{})}
		if f.ending != nil {
			f.next.err = f.ending
			close(f.next.done)
		}
		f.kick.Raise()
	}
	f.next.waiting++
	return f.next
}

// leave ends a round that nobody waits for any more, and says whom it waited for.
func (f *Freshness) leave(round *freshRound) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if round.waiting--; round.waiting == 0 && round.giveUp != nil {
		round.giveUp()
	}
	if f.missing == nil {
		return notFresh("it is busy with the questions before", f.Node)
	}
	return f.missing
}

// take begins the next round; later callers of join wait for the one after it. nil:
// nobody waits for one.
func (f *Freshness) take(giveUp context.CancelFunc) *freshRound {
	f.mu.Lock()
	defer f.mu.Unlock()
	round := f.next
	f.next, f.missing = nil, nil
	if round == nil || round.waiting == 0 {
		return nil
	}
	round.giveUp = giveUp
	return round
}

func (f *Freshness) finish(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ending = cause
	if f.next != nil {
		f.next.err = cause
		close(f.next.done)
	}
}

func (f *Freshness) waitsFor(reason string, nodes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missing = notFresh(reason, nodes...)
}

// freshSubject takes the request to flush now: the origin of the node that asks, 8 bytes little
// endian, and the number of its round. Each node answers once it has flushed:
//
//	+--------+-------+------+-----+
//	| origin | round | UpTo | now |
//	+--------+-------+------+-----+
//	origin  8 bytes, little endian
//	round   of the request; this and the next are unsigned varints
//	UpTo    the last message of the journal that this node has written
//	now     Unix seconds: what its engine calls now
const freshSubject = "weir.fresh"

// maxFreshAsked is how many requests of others may wait for a flush. What is beyond is
// dropped, and asked again.
const maxFreshAsked = 1024

// freshAnswer is what a node says.
type freshAnswer struct {
	origin string // 16 hex digits
	round  uint64
	upTo   uint64
	now    time.Time
}

func readFreshAnswer(b []byte) (a freshAnswer, err error) {
	if len(b) < 8 {
		return a, record.ErrDamaged
	}
	a.origin = fmt.Sprintf("%016x", binary.LittleEndian.Uint64(b))
	r := wire.NewReader(b[8:])
	a.round, a.upTo, a.now = r.Uvarint(), r.Uvarint(), time.Unix(int64(r.Uvarint()), 0)
	if !r.Done() {
		return a, record.ErrDamaged
	}
	return a, nil
}

// Listen takes the requests of other nodes and the answers to this one's, until
// the connection closes.
func (f *Freshness) Listen() error {
	if _, err := f.Conn.Subscribe(f.inbox+".*", func(msg *nats.Msg) {
		if a, err := readFreshAnswer(msg.Data); err == nil {
			select {
			case f.answers <- a:
			default: // of rounds that nobody waits for
			}
		}
	}); err != nil {
		return err
	}
	_, err := f.Conn.Subscribe(freshSubject, func(msg *nats.Msg) {
		if len(msg.Data) < 8 || binary.LittleEndian.Uint64(msg.Data) == f.Origin {
			return
		}
		select {
		case f.asked <- msg:
		default:
		}
	})
	return err
}

// RunAnswers flushes for other nodes, and tells them, until ctx ends. All who ask
// meanwhile share the next flush.
func (f *Freshness) RunAnswers(ctx context.Context) {
	for {
		var asked []*nats.Msg
		select {
		case <-ctx.Done():
			return
		case msg := <-f.asked:
			asked = append(asked, msg)
		}
		for more := true; more; {
			select {
			case msg := <-f.asked:
				asked = append(asked, msg)
			default:
				more = false
			}
		}
		group := f.Flushes.Join()
		select {
		case <-group.Done:
		case <-ctx.Done():
			return
		}
		if group.Err == nil { // else the journal closes, or is full, and they ask again
			f.answer(asked, group.Last)
		}
	}
}

func (f *Freshness) answer(asked []*nats.Msg, upTo uint64) {
	now := max(0, f.Now().Unix())
	for _, msg := range asked {
		r := wire.NewReader(msg.Data[8:])
		round := r.Uvarint()
		if !r.Done() {
			continue
		}
		b := binary.LittleEndian.AppendUint64(nil, f.Origin)
		b = binary.AppendUvarint(b, round)
		b = binary.AppendUvarint(b, upTo)
		if err := msg.Respond(binary.AppendUvarint(b, uint64(now))); err != nil {
			f.Log.Debug("journal: could not answer a node that asked for a flush; it asks again", "error", err)
		}
	}
}

// Run makes the rounds, until ctx ends.
func (f *Freshness) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			f.finish(context.Cause(ctx))
			return
		case <-f.kick:
		}
		began := time.Now()
		f.runRound(ctx)
		_ = concurrency.Sleep(ctx, time.Until(began.Add(freshPause)))
	}
}

func (f *Freshness) runRound(ctx context.Context) {
	within, giveUp := context.WithCancel(ctx)
	defer giveUp()
	round := f.take(giveUp)
	if round == nil {
		return
	}
	round.moment, round.err = f.round(within)
	f.rounds.Add(1)
	if round.err != nil {
		f.failed.Add(1)
	}
	close(round.done)
}

// round is one round. It ends without a result only when nobody waits for it,
// or the journal closes.
func (f *Freshness) round(ctx context.Context) (m Moment, err error) {
	f.number++
	own := f.Flushes.JoinSpeaking()
	again := time.NewTicker(freshAgain)
	defer again.Stop()
	said := map[string]bool{} // by origin
	for ask, flushed := true, false; ; {
		if ask {
			if err := f.ask(f.number); err != nil {
				return m, err
			}
			ask = false
		}
		switch missing := f.notSaid(said); {
		case !flushed:
			f.waitsFor("the journal has not acknowledged a flush", append(missing, f.Node)...)
		case len(missing) > 0:
			f.waitsFor("they have not confirmed that their newest hits are in the journal", missing...)
		case f.Next() <= m.UpTo:
			f.waitsFor("this node has not yet followed the journal so far", f.Node)
			f.HighWater.Hear(m.UpTo)
			if err := f.AwaitFollowed(ctx, m.UpTo); err != nil {
				return m, err
			}
			continue // and now knows all nodes
		default:
			m.Now = replica.Later(m.Now, f.Now())
			return m, nil
		}
		var acknowledged <-chan struct{}
		if !flushed {
			acknowledged = own.Done
		}
		select {
		case <-acknowledged:
			if errors.Is(own.Err, concurrency.ErrQueueFull) { // the others have the same journal
				return m, notFresh("the journal is full, and takes nothing before it is trimmed", f.Node)
			}
			if own.Err != nil {
				return m, own.Err
			}
			flushed, m.UpTo = true, max(m.UpTo, own.Last)
		case a := <-f.answers:
			if a.round == f.number { // else it is one of a round before
				said[a.origin] = true
				m.UpTo, m.Now = max(m.UpTo, a.upTo), replica.Later(m.Now, a.now)
			}
		case <-again.C:
			ask = true
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
	}
}

// notSaid returns, by name, the nodes that may have taken hits and have not reported up to where their hits are in the
// journal. A node that was restarted after its report has taken its other hits since.
func (f *Freshness) notSaid(said map[string]bool) (missing []string) {
	for _, o := range f.Origins() {
		if !o.Self && !o.Left && !said[o.Origin] {
			missing = append(missing, cmp.Or(o.Node, o.Origin))
		}
	}
	return slices.Compact(missing) // by name
}

func (f *Freshness) ask(number uint64) error {
	ask := binary.AppendUvarint(binary.LittleEndian.AppendUint64(nil, f.Origin), number)
	err := f.Conn.PublishRequest(freshSubject, fmt.Sprintf("%s.%d", f.inbox, number), ask)
	if err != nil && !errors.Is(err, nats.ErrConnectionReconnecting) && !errors.Is(err, nats.ErrReconnectBufExceeded) {
		return fmt.Errorf("ask the other nodes to flush: %w", err)
	}
	return nil
}

// FlushesSubject has the sequence of each flush that was acknowledged.
const FlushesSubject = "weir.written"

// HighWater is the newest message of a stream, such as the journal, that this node knows of. A subject has the sequence of each message that was
// stored, an unsigned varint: who follows need not ask all the time. It is a hint: nothing is lost with it but time. It is safe for many
// goroutines.
type HighWater struct {
	conn    *nats.Conn
	log     *slog.Logger
	subject string

	last atomic.Uint64
	news concurrency.Signal // last has grown
}

// NewHighWater returns a HighWater that knows of no message yet.
func NewHighWater(conn *nats.Conn, log *slog.Logger, subject string) *HighWater {
	return &HighWater{conn: conn, log: log, subject: subject, news: concurrency.NewSignal()}
}

// Notify tells the other nodes that a message was stored.
func (h *HighWater) Notify(sequence uint64) {
	if err := h.conn.Publish(h.subject, binary.AppendUvarint(nil, sequence)); err != nil {
		h.log.Debug("journal: could not notify the other nodes of a message; they find it later", "subject", h.subject, "error", err)
	}
}

// Listen takes the hints of all nodes, this one's too, until the connection closes.
func (h *HighWater) Listen() error {
	_, err := h.conn.Subscribe(h.subject, func(msg *nats.Msg) {
		r := wire.NewReader(msg.Data)
		sequence := r.Uvarint()
		if r.Done() {
			h.Hear(sequence)
		}
	})
	return err
}

// Hear wakes the follower if a sequence is news.
func (h *HighWater) Hear(sequence uint64) {
	for was := h.last.Load(); sequence > was; was = h.last.Load() {
		if h.last.CompareAndSwap(was, sequence) {
			h.news.Raise()
			return
		}
	}
}

// Last is the highest sequence that this node knows of; 0: none.
func (h *HighWater) Last() uint64 { return h.last.Load() }

// News has a value when Last has grown. It has one reader.
func (h *HighWater) News() <-chan struct{} { return h.news }
