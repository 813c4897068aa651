package journal

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// toldSubject has the sequence of each flush that was acknowledged, an unsigned varint:
// who follows need not ask all the time. It is a hint: nothing is lost with it but time.
const toldSubject = "weir.told"

// told is the last sequence that this node was told of.
type told struct {
	last atomic.Uint64
	news chan struct{} // last has grown
}

// tell tells the other nodes that a flush is in the journal.
func (j *Journal) tell(sequence uint64) {
	if err := j.server.Conn().Publish(toldSubject, binary.AppendUvarint(nil, sequence)); err != nil {
		j.log.Debug("journal: could not notify the other nodes of a flush; they find it later", "error", err)
	}
}

// listen takes the hints of all nodes, this one's too, until the connection closes.
func (j *Journal) listen() error {
	j.told.news = make(chan struct{}, 1)
	_, err := j.server.Conn().Subscribe(toldSubject, func(msg *nats.Msg) {
		r := newReader(msg.Data)
		sequence := r.Uvarint()
		if r.end() == nil {
			j.told.hear(sequence)
		}
	})
	return err
}

// hear wakes the follower if a sequence is news.
func (t *told) hear(sequence uint64) {
	for was := t.last.Load(); sequence > was; was = t.last.Load() {
		if t.last.CompareAndSwap(was, sequence) {
			select {
			case t.news <- struct{}{}:
			default:
			}
			return
		}
	}
}
