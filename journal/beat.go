package journal

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/nats-io/nats.go"
)

// beatSubject has the beats of all nodes: 'B', version 1, 8 bytes origin, little endian,
// then as unsigned varints epoch, flush, age and promise in ms, and the node's name. A beat
// that is lost is followed by another.
const beatSubject = "weir.beat"

const (
	beatMagic   = 'B'
	beatVersion = 1
)

func (b beat) encode() []byte {
	data := []byte{beatMagic, beatVersion}
	data = binary.LittleEndian.AppendUint64(data, b.origin)
	data = binary.AppendUvarint(data, b.epoch)
	data = binary.AppendUvarint(data, b.flush)
	data = binary.AppendUvarint(data, uint64(max(0, b.age.Milliseconds())))
	data = binary.AppendUvarint(data, uint64(b.promise.Milliseconds()))
	return append(data, b.node...)
}

// longest bounds the times of a beat: beyond that it is made up.
const longest = 366 * 24 * time.Hour

// decodeBeat is false where it is cut, made up, or of another version.
func decodeBeat(data []byte) (b beat, ok bool) {
	if len(data) < 10 || data[0] != beatMagic || data[1] != beatVersion {
		return beat{}, false
	}
	b.origin = binary.LittleEndian.Uint64(data[2:])
	r := newReader(data[10:])
	b.epoch, b.flush = r.Uvarint(), r.Uvarint()
	b.age = time.Duration(r.AtMost(uint64(longest.Milliseconds()))) * time.Millisecond
	b.promise = time.Duration(r.AtMost(uint64(longest.Milliseconds()))) * time.Millisecond
	if r.Failed() || r.Len() > maxNodeBytes {
		return beat{}, false
	}
	b.node = string(r.Rest())
	return b, true
}

// written is the last flush of this life that is in the journal.
type written struct {
	flush uint64
	began time.Time // to be gathered
}

// beginBeats starts them with the hello of a life: what is left of a start may take as long
// as a node may be silent. They end with release.
func (j *Journal) beginBeats(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.runBeats(ctx)
	}()
	j.endBeats = func() {
		stop()
		<-done
	}
}

// runBeats says each heartbeat how far this node's flushes are in the journal, on a clock
// of its own: while they wait, and whatever their interval.
func (j *Journal) runBeats(ctx context.Context) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		now, last := time.Now(), j.flusher.written.Load()
		b := beat{life: j.life, node: j.cfg.Join.Node, promise: promised(j.cfg.FlushEvery), flush: last.flush, age: now.Sub(last.began)}
		j.replica.hear(now, b)
		if err := j.server.Conn().Publish(beatSubject, b.encode()); err != nil {
			j.log.Debug("journal: could not send this node's position to the others; will retry", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// listenBeats takes those of the others, until the connection closes.
func (j *Journal) listenBeats() error {
	_, err := j.server.Conn().Subscribe(beatSubject, func(msg *nats.Msg) {
		if b, ok := decodeBeat(msg.Data); ok && b.origin != j.life.origin {
			j.replica.hear(time.Now(), b)
		}
	})
	return err
}
