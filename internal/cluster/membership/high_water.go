package membership

import (
	"encoding/binary"
	"log/slog"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/wire"
)

// highWaterSubject has the sequence of each flush that was acknowledged, an unsigned varint:
// who follows need not ask all the time. It is a hint: nothing is lost with it but time.
const highWaterSubject = "weir.told"

// HighWater is the newest message of the journal that this node knows of. It is safe for many goroutines.
type HighWater struct {
	conn *nats.Conn
	log  *slog.Logger

	last atomic.Uint64
	news chan struct{} // last has grown
}

// NewHighWater returns a HighWater that knows of no message yet.
func NewHighWater(conn *nats.Conn, log *slog.Logger) *HighWater {
	return &HighWater{conn: conn, log: log, news: make(chan struct{}, 1)}
}

// Notify tells the other nodes that a flush is in the journal.
func (h *HighWater) Notify(sequence uint64) {
	if err := h.conn.Publish(highWaterSubject, binary.AppendUvarint(nil, sequence)); err != nil {
		h.log.Debug("journal: could not notify the other nodes of a flush; they find it later", "error", err)
	}
}

// Listen takes the hints of all nodes, this one's too, until the connection closes.
func (h *HighWater) Listen() error {
	_, err := h.conn.Subscribe(highWaterSubject, func(msg *nats.Msg) {
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
			select {
			case h.news <- struct{}{}:
			default:
			}
			return
		}
	}
}

// Last is the highest sequence that this node knows of; 0: none.
func (h *HighWater) Last() uint64 { return h.last.Load() }

// News has a value when Last has grown. It has one reader.
func (h *HighWater) News() <-chan struct{} { return h.news }
