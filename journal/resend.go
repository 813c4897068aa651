package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ring keeps the newest flushes of this process for nodes that miss one: what the
// stream lost for one reader, its origin still has.
type ring struct {
	mu    sync.Mutex
	parts map[uint64][][]byte // by flush
	first uint64              // the oldest flush there; 0: none yet
	bytes int
}

// ringBytes bounds the ring: many minutes of a common load.
const ringBytes = 32 << 20

func (r *ring) add(flush uint64, parts [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts, r.first = map[uint64][][]byte{}, flush
	}
	r.parts[flush] = parts
	r.bytes += sizeOf(parts)
	for r.bytes > ringBytes && r.first < flush {
		r.bytes -= sizeOf(r.parts[r.first])
		delete(r.parts, r.first)
		r.first++
	}
}

func (r *ring) get(flush uint64) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parts[flush]
}

func sizeOf(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// A request for a part of a flush goes to the subject of its origin: epoch,
// flush, part, as unsigned varints. The answer is the part, or empty.
func resendSubject(origin uint64) string { return fmt.Sprintf("weir.resend.%016x", origin) }

// serveResends answers other nodes from the ring, until the connection closes.
func (j *Journal) serveResends() error {
	_, err := j.server.Conn().Subscribe(resendSubject(j.life.origin), func(msg *nats.Msg) {
		r := reader{rest: msg.Data}
		epoch, flush, part := r.uvarint(), r.uvarint(), r.uvarint()
		var answer []byte
		if parts := j.ring.get(flush); r.end() == nil && epoch == j.life.epoch && part < uint64(len(parts)) {
			answer = parts[part]
		}
		if err := msg.Respond(answer); err != nil {
			j.log.Warn("journal: a node that misses a flush got no answer", "error", err)
		}
	})
	return err
}

const (
	// resendTimeout bounds the wait for an origin that may be gone.
	resendTimeout = time.Second
	// maxResend is how many flushes a gap may have to be asked for.
	maxResend = 1000
)

// repair asks the origin of a message for the flushes between the last one here
// and the message's, and applies them. What it does not get, the audit finds.
func (j *Journal) repair(ctx context.Context, audit *auditor, data []byte) {
	p, err := decodeHead(data)
	if err != nil || p.life == j.life {
		return
	}
	from, ok := audit.lane(p.origin).gap(p)
	if !ok || p.flush-from > maxResend {
		return
	}
	for flush := from; flush <= p.flush; flush++ {
		for part := uint64(0); flush < p.flush || part < p.part; part++ {
			again, err := j.askResend(ctx, p.life, flush, part)
			if err != nil {
				j.log.Warn("journal: a missing flush could not be had from its origin", "origin", fmt.Sprintf("%016x", p.origin), "flush", flush, "error", err)
				return
			}
			got, err := decodePart(again)
			if err != nil || got.life != p.life || got.flush != flush || got.part != part {
				return
			}
			if err := audit.applyParts(j.engine, audit.lane(p.origin).part("a flush sent again", got)); err != nil {
				return
			}
			if got.last {
				j.stats.repaired.Add(1)
				break
			}
		}
	}
}

func (j *Journal) askResend(ctx context.Context, of life, flush, part uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, resendTimeout)
	defer cancel()
	ask := binary.AppendUvarint(nil, of.epoch)
	ask = binary.AppendUvarint(ask, flush)
	ask = binary.AppendUvarint(ask, part)
	msg, err := j.server.Conn().RequestWithContext(ctx, resendSubject(of.origin), ask)
	if err != nil {
		return nil, err
	}
	if len(msg.Data) == 0 {
		return nil, fmt.Errorf("it is older than the %d MiB that the origin keeps", ringBytes>>20)
	}
	return msg.Data, nil
}
