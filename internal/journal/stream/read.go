package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// fetchWait is how long the next message may take to come before it is asked for
// by its number.
const fetchWait = 250 * time.Millisecond

// Read calls f with each message of the journal from one sequence to another, in
// order. Those the server can't read are passed over in silence: f sees it by
// the sequences.
func (s *Store) Read(ctx context.Context, from, last uint64, f func(sequence uint64, data []byte) error) error {
	return retryWhileUnavailable(ctx, func() error {
		return s.readOn(ctx, &from, last, f)
	})
}

// readOn reads from next on, and leaves in next where to go on after an error.
func (s *Store) readOn(ctx context.Context, next *uint64, last uint64, f func(sequence uint64, data []byte) error) (err error) {
	if *next > last {
		return nil
	}
	flushes := s.at.Load().flushes
	var consumer jetstream.Consumer
	err = askWithin(ctx, AskTime, func(ctx context.Context) (err error) {
		consumer, err = flushes.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:   *next,
			// Else a fetch would try to make it again for ever, whatever ctx says.
			MaxResetAttempts: maxResets,
		})
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		if !IsUnavailable(err) { // else it goes by itself, after five idle minutes
			s.removeConsumer(ctx, flushes, consumer)
		}
	}()
	for *next <= last {
		before := *next
		batch, err := consumer.Fetch(fetchMessages, jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return err
		}
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if sequence := meta.Sequence.Stream; sequence <= last {
				if err := f(sequence, msg.Data()); err != nil {
					return err
				}
				*next = sequence + 1
			}
			if meta.Sequence.Stream >= last {
				return nil
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoMessages) {
			return err
		}
		if *next == before { // the server counts messages that it can't read
			return s.readSingly(ctx, next, last, f)
		}
	}
	return nil
}

// removeConsumer ends a consumer that has read all: on the server it would hold memory
// and three goroutines for five minutes more, for each backup that somebody takes.
func (s *Store) removeConsumer(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AskTime)
	defer cancel()
	if info := consumer.CachedInfo(); info != nil {
		_ = stream.DeleteConsumer(ctx, info.Name) // else it goes by itself
	}
}

// maxResets is how often a consumer that was lost is made again within a fetch; then
// retryWhileUnavailable decides.
const maxResets = 3

// fetchMessages bounds what is read ahead: some 40 MiB of the largest messages.
const fetchMessages = 64

// readSingly asks for each message by its number.
func (s *Store) readSingly(ctx context.Context, next *uint64, last uint64, f func(sequence uint64, data []byte) error) error {
	for ; *next <= last; *next++ {
		var data []byte
		err := askWithin(ctx, AskTime, func(ctx context.Context) (err error) {
			data, err = s.Get(ctx, *next)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && IsUnavailable(err):
			return err
		case err == nil:
			if err := f(*next, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Get reads one message, from any replica, or from the leader if that one does
// not have it.
func (s *Store) Get(ctx context.Context, sequence uint64) ([]byte, error) {
	msg, err := s.at.Load().flushes.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		_, data, err := s.at.Load().fromLeader(ctx, FlushStream, wanted{Sequence: sequence})
		return data, err
	}
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}

// GetNear reads one message from any replica, this node's own if it has one: what that one
// does not have, is not found.
func (s *Store) GetNear(ctx context.Context, sequence uint64) ([]byte, error) {
	msg, err := s.at.Load().flushes.GetMsg(ctx, sequence)
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}

// Asker asks for ranges of the journal's messages, without waiting for one before it
// asks for the next: JetStream's batched direct get, which any replica answers, this
// node's own first of all. The client library has it for one message only.
//
// What it asks for is bounded by ahead, and so is what may wait in answers.
type Asker struct {
	conn    *nats.Conn // of sub; it may be replaced by another
	sub     *nats.Subscription
	inbox   string
	Answers chan *nats.Msg
	asks    map[string]*replica.Ask // by the last token of the inbox
	made    uint64
}

// answersAtOnce is room for all that may come of asks, and for what comes of some that
// were given up. What has no room is dropped, and asked for again.
const answersAtOnce = 2 * replica.AsksAtOnce * (replica.AskMessages + 1)

// Send asks for a range.
func (r *Asker) Send(conn *nats.Conn, of *replica.Ask) error {
	if err := r.listen(conn); err != nil {
		return err
	}
	request, err := json.Marshal(struct {
		Sequence uint64 `json:"seq"`
		Next     string `json:"next_by_subj"` // goes on after what is lost, on servers without batches too
		Batch    uint64 `json:"batch"`
		MaxBytes int    `json:"max_bytes"`
	}{of.From, flushSubject, of.To - of.From + 1, replica.AskBytes})
	if err != nil {
		return err
	}
	r.made++
	token := strconv.FormatUint(r.made, 36)
	if err := conn.PublishRequest("$JS.API.DIRECT.GET."+FlushStream, r.inbox+token, request); err != nil {
		return err
	}
	r.asks[token] = of
	return nil
}

func (r *Asker) listen(conn *nats.Conn) (err error) {
	if r.conn == conn {
		return nil
	}
	r.Close()
	r.inbox = conn.NewInbox() + "."
	if r.sub, err = conn.ChanSubscribe(r.inbox+"*", r.Answers); err != nil {
		return err
	}
	r.conn = conn
	return nil
}

// NewAsker returns one; it subscribes with the first ask.
func NewAsker() *Asker {
	return &Asker{Answers: make(chan *nats.Msg, answersAtOnce), asks: map[string]*replica.Ask{}}
}

// Close ends it; what was asked for does not come any more.
func (r *Asker) Close() {
	if r.sub != nil {
		_ = r.sub.Unsubscribe() // fails with the connection only, which ends it too
	}
	r.conn, r.sub = nil, nil
}

// GiveUp forgets an ask.
func (r *Asker) GiveUp(of *replica.Ask) {
	for token, one := range r.asks {
		if one == of {
			delete(r.asks, token)
		}
	}
}

// answer is one message of a replica.
type answer struct {
	of       *replica.Ask
	sequence uint64 // 0: there is no message in it
	data     []byte
	ends     bool   // nothing more comes of the ask
	pending  uint64 // messages that the replica has after this
	err      error
}

// read takes a replica's message apart. Of an ask that was given up it returns nil.
func (r *Asker) read(msg *nats.Msg) *answer {
	token := strings.TrimPrefix(msg.Subject, r.inbox)
	of := r.asks[token]
	if of == nil {
		return nil
	}
	a := &answer{of: of}
	number := func(field string) (n uint64) {
		n, _ = strconv.ParseUint(msg.Header.Get(field), 10, 64)
		return n
	}
	batched := msg.Header.Get("Nats-Num-Pending") != ""
	a.pending = number("Nats-Num-Pending")
	switch status := msg.Header.Get("Status"); status {
	case "":
		a.sequence, a.data = number(jetstream.SequenceHeader), msg.Data
		if a.sequence == 0 {
			a.ends, a.err = true, errors.New("an answer without a sequence")
		} else if !batched { // of a server that knows no batches
			a.ends, a.pending = true, 1
		}
	case "204": // the end of a batch
		a.ends = true
	case "404":
		a.ends, a.pending = true, 0
	case "503":
		a.ends, a.err = true, nats.ErrNoResponders
	default:
		a.ends, a.err = true, fmt.Errorf("JetStream: %s %s", status, msg.Header.Get("Description"))
	}
	if a.ends {
		delete(r.asks, token)
	}
	return a
}

// Deliver hands what a replica sent to who asked. first: the error is a new one.
func (r *Asker) Deliver(to *replica.ReadAhead, now time.Time, next uint64, msg *nats.Msg) (first bool, err error) {
	a := r.read(msg)
	if a == nil {
		return false, nil
	}
	if a.err != nil {
		return to.Fail(now, a.of), a.err
	}
	if a.sequence > 0 {
		to.Take(now, a.of, next, a.sequence, a.data)
	}
	if a.ends {
		to.End(now, a.of, a.pending)
	}
	return false, nil
}
