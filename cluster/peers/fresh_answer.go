package peers

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/journal/record"
)

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
