package stream

import (
	"cmp"
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

// Read calls f with each message of the journal from one sequence to another, in
// order. It skips messages that no replica can read: f sees the gap in the sequences.
//
// It asks for ranges, one after the other, and leaves no consumer on a server. Each range may be asked for again for as long as
// retryWhileUnavailable allows. While f works, the next messages come.
func (s *Store) Read(ctx context.Context, from, last uint64, f func(sequence uint64, data []byte) error) (err error) {
	type message struct {
		sequence uint64
		data     []byte
	}
	ctx, end := context.WithCancelCause(ctx)
	came, failed := make(chan message, readAhead), error(nil)
	go func() {
		defer close(came)
		for from <= last && failed == nil {
			failed = retryWhileUnavailable(ctx, func() error {
				return s.readRange(ctx, &from, last, func(sequence uint64, data []byte) error {
					select {
					case came <- message{sequence, data}:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
			})
		}
	}()
	for m := range came {
		if err == nil {
			if err = f(m.sequence, m.data); err != nil {
				end(err)
			}
		}
	}
	end(nil)
	return cmp.Or(err, failed)
}

// readAhead is how many messages wait for f, in addition to one answer: 8 MiB at most.
const readAhead = 16

// readRange reads the next messages, as many as one answer has, and leaves in next where to go on, after an
// error too.
func (s *Store) readRange(ctx context.Context, next *uint64, last uint64, f func(sequence uint64, data []byte) error) error {
	before := *next
	_, err := GetRange(ctx, s.Conn(), FlushStream, flushSubject, *next, min(last-*next+1, replica.AskMessages), func(sequence uint64, msg *nats.Msg) error {
		if err := s.readMissing(ctx, next, min(last, sequence-1), f); err != nil || sequence > last {
			return err
		}
		if err := f(sequence, msg.Data); err != nil {
			return err
		}
		*next = sequence + 1
		return nil
	})
	if err == nil && *next == before {
		err = s.readMissing(ctx, next, min(last, *next+singly-1), f)
	}
	return err
}

// readMissing reads what a replica does not have: it is behind, its disk is damaged, or the journal was trimmed. What the leader
// says was trimmed is passed over at once.
func (s *Store) readMissing(ctx context.Context, next *uint64, last uint64, f func(sequence uint64, data []byte) error) error {
	if *next > last {
		return nil
	}
	var first uint64
	if err := askWithin(ctx, AskTime, func(ctx context.Context) error {
		info, err := s.flushes.Info(ctx)
		if err == nil {
			first = info.State.FirstSeq
		}
		return err
	}); err != nil {
		return err
	}
	*next = max(*next, first)
	return s.readSingly(ctx, next, last, f)
}

// singly is how many messages are asked for one by one where a replica has none of a range.
const singly = 64

// GetRange asks for the messages of a stream from a sequence on, most of them at most, and calls f with each in order. Any
// replica answers, this node's own first of all; it skips what it can't read. No server keeps anything of the request.
// pending is how many messages the replica has after the last one.
func GetRange(ctx context.Context, conn *nats.Conn, stream, subject string, from, most uint64, f func(sequence uint64, msg *nats.Msg) error) (pending uint64, err error) {
	request, err := rangeRequest(subject, from, most)
	if err != nil {
		return 0, err
	}
	broken := conn.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer conn.RemoveStatusListener(broken)
	inbox, answers := conn.NewInbox(), make(chan *nats.Msg, most+2)
	sub, err := conn.ChanSubscribe(inbox, answers)
	if err != nil {
		return 0, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails with the connection only, which ends it too
	if err := conn.PublishRequest(directGet+stream, inbox, request); err != nil {
		return 0, err
	}
	silent := time.NewTimer(AskTime)
	defer silent.Stop()
	for last := uint64(0); ; silent.Reset(AskTime) {
		var msg *nats.Msg
		select {
		case msg = <-answers:
		case <-broken:
			if conn.IsClosed() {
				return 0, nats.ErrConnectionClosed
			}
			return 0, nats.ErrDisconnected
		case <-silent.C:
			return 0, nats.ErrTimeout
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		p := parsePart(msg, last)
		if p.err != nil {
			return 0, p.err
		}
		if p.sequence > 0 {
			if err := f(p.sequence, msg); err != nil {
				return 0, err
			}
			last = p.sequence
		}
		if p.ends {
			return p.pending, nil
		}
	}
}

const directGet = "$JS.API.DIRECT.GET."

// rangeRequest is JetStream's batched direct get.
func rangeRequest(subject string, from, most uint64) ([]byte, error) {
	return json.Marshal(struct {
		Sequence uint64 `json:"seq"`
		Next     string `json:"next_by_subj"` // goes on after what is lost, on servers without batches too
		Batch    uint64 `json:"batch"`
		MaxBytes int    `json:"max_bytes"`
	}{from, subject, most, replica.AskBytes})
}

// readSingly asks for each message by its number.
func (s *Store) readSingly(ctx context.Context, next *uint64, last uint64, f func(sequence uint64, data []byte) error) error {
	for ; *next <= last; *next++ {
		var data []byte
		err := askWithin(ctx, AskTime, func(ctx context.Context) (err error) {
			data, err = s.getNearOrLed(ctx, *next)
			return err
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			data, err = s.ask(ctx, *next)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			if err := f(*next, data); err != nil {
				return err
			}
		case !errors.Is(err, replica.ErrLost) && IsUnavailable(err):
			return err
		}
	}
	return nil
}

// Asker asks for ranges of the journal's messages, several at a time. It uses JetStream's batched direct get, which any replica answers, this
// node's own first of all. The client library has it for one message only.
//
// replica.ReadAhead bounds what it asks for, and so what may wait in Answers.
type Asker struct {
	conn    *nats.Conn // of sub; it may be replaced by another
	sub     *nats.Subscription
	inbox   string
	Answers chan *nats.Msg
	asks    map[string]*asked // by the last token of the inbox
	made    uint64
}

// asked is a range that was asked for.
type asked struct {
	ask  *replica.Ask
	last uint64 // sequence of the newest message that came of it; 0: none did
}

// answersAtOnce is enough for all that may come of asks, and for what comes of some that
// were given up. What does not fit is dropped, and asked for again.
const answersAtOnce = 2 * replica.AsksAtOnce * (replica.AskMessages + 1)

// Send asks for a range.
func (r *Asker) Send(conn *nats.Conn, ask *replica.Ask) error {
	if err := r.listen(conn); err != nil {
		return err
	}
	request, err := rangeRequest(flushSubject, ask.From, ask.To-ask.From+1)
	if err != nil {
		return err
	}
	r.made++
	token := strconv.FormatUint(r.made, 36)
	if err := conn.PublishRequest(directGet+FlushStream, r.inbox+token, request); err != nil {
		return err
	}
	r.asks[token] = &asked{ask: ask}
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
	return &Asker{Answers: make(chan *nats.Msg, answersAtOnce), asks: map[string]*asked{}}
}

// Close ends it; what was asked for does not come any more.
func (r *Asker) Close() {
	if r.sub != nil {
		_ = r.sub.Unsubscribe() // fails with the connection only, which ends it too
	}
	r.conn, r.sub = nil, nil
}

// GiveUp forgets an ask.
func (r *Asker) GiveUp(ask *replica.Ask) {
	for token, one := range r.asks {
		if one.ask == ask {
			delete(r.asks, token)
		}
	}
}

// part is one message of the answer to a rangeRequest.
type part struct {
	sequence uint64 // 0: there is no message in it
	data     []byte
	ends     bool   // nothing more comes of the request
	pending  uint64 // messages that the replica has after this
	err      error
}

// errPartLost is why the rest of an answer is not taken.
var errPartLost = fmt.Errorf("%w: a part of the answer was lost on its way", nats.ErrTimeout)

// parsePart takes a message apart that came after one of the sequence last; 0: it is the first. A replica says after
// which message it sent each: where a connection was cut, those between are lost, and not missing in the journal.
func parsePart(msg *nats.Msg, last uint64) (p part) {
	number := func(field string) (n uint64) {
		n, _ = strconv.ParseUint(msg.Header.Get(field), 10, 64)
		return n
	}
	batched := msg.Header.Get("Nats-Num-Pending") != ""
	p.pending = number("Nats-Num-Pending")
	switch status := msg.Header.Get("Status"); status {
	case "":
		p.sequence, p.data = number(jetstream.SequenceHeader), msg.Data
		if p.sequence == 0 {
			p.ends, p.err = true, errors.New("an answer without a sequence")
		} else if !batched { // of a server that knows no batches
			p.ends, p.pending = true, 1
		}
	case "204": // the end of a batch
		p.ends = true
	case "404":
		p.ends, p.pending = true, 0
	case "503":
		p.ends, p.err = true, nats.ErrNoResponders
	default:
		p.ends, p.err = true, fmt.Errorf("JetStream: %s %s", status, msg.Header.Get("Description"))
	}
	if p.err == nil && msg.Header.Get("Nats-Last-Sequence") != "" && number("Nats-Last-Sequence") != last {
		p.ends, p.err = true, errPartLost
	}
	return p
}

// read finds the ask that a replica's message answers; nil if it was given up.
func (r *Asker) read(msg *nats.Msg) (*replica.Ask, part) {
	token := strings.TrimPrefix(msg.Subject, r.inbox)
	a := r.asks[token]
	if a == nil {
		return nil, part{}
	}
	p := parsePart(msg, a.last)
	a.last = max(a.last, p.sequence)
	if p.ends {
		delete(r.asks, token)
	}
	return a.ask, p
}

// Deliver hands what a replica sent to the ask that it answers. first says that the error is new.
func (r *Asker) Deliver(to *replica.ReadAhead, now time.Time, next uint64, msg *nats.Msg) (first bool, err error) {
	ask, p := r.read(msg)
	if ask == nil {
		return false, nil
	}
	if p.err != nil {
		return to.Fail(now, ask), p.err
	}
	if p.sequence > 0 {
		to.Take(now, ask, next, p.sequence, p.data)
	}
	if p.ends {
		to.End(now, ask, p.pending)
	}
	return false, nil
}
