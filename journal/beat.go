package journal

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/journal/replica"
)

// beatSubject has the beats of all nodes. A beat that is lost is followed by another.
const beatSubject = "weir.beat"

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
	tick := time.NewTicker(replica.HeartbeatEvery)
	defer tick.Stop()
	for {
		now, last := time.Now(), j.flusher.Written()
		b := replica.Heartbeat{Incarnation: j.life, Node: j.cfg.Join.Node, Promise: replica.Promised(j.cfg.FlushEvery), Flush: last.Flush, Age: now.Sub(last.Began)}
		j.replica.Hear(now, b)
		if err := j.server.Conn().Publish(beatSubject, b.Encode()); err != nil {
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
		if b, ok := replica.DecodeHeartbeat(msg.Data); ok && b.Origin != j.life.Origin {
			j.replica.Hear(time.Now(), b)
		}
	})
	return err
}
