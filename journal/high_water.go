package journal

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir/internal/wire"
)

// highWaterSubject has the sequence of each flush that was acknowledged, an unsigned varint:
// who follows need not ask all the time. It is a hint: nothing is lost with it but time.
const highWaterSubject = "weir.told"

// highWater is the last sequence that this node was told of.
type highWater struct {
	last atomic.Uint64
	news chan struct{} // last has grown
}

// notifyHighWater tells the other nodes that a flush is in the journal.
func (j *Journal) notifyHighWater(sequence uint64) {
	if err := j.server.Conn().Publish(highWaterSubject, binary.AppendUvarint(nil, sequence)); err != nil {
		j.log.Debug("journal: could not notify the other nodes of a flush; they find it later", "error", err)
	}
}

// listenHighWater takes the hints of all nodes, this one's too, until the connection closes.
func (j *Journal) listenHighWater() error {
	j.highWater.news = make(chan struct{}, 1)
	_, err := j.server.Conn().Subscribe(highWaterSubject, func(msg *nats.Msg) {
		r := wire.NewReader(msg.Data)
		sequence := r.Uvarint()
		if r.Done() {
			j.highWater.hear(sequence)
		}
	})
	return err
}

// hear wakes the follower if a sequence is news.
func (t *highWater) hear(sequence uint64) {
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
