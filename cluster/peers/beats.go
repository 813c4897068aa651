package peers

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
)

// beatSubject has the beats of all nodes. A beat that is lost is followed by another.
const beatSubject = "weir.beat"

// Beats are the heartbeats of all nodes: this one's are sent, those of the others heard.
type Beats struct {
	Conn    *nats.Conn
	Log     *slog.Logger
	Own     record.Incarnation
	Node    string
	Promise time.Duration           // within which this node says something (replica.Promised)
	Written func() *replica.Written // the last flush of this node that is in the journal
	Replica *replica.Replica        // that hears them
}

// Begin starts this node's with the hello of a life: what is left of a start may take as long
// as a node may be silent. end stops them, and returns when they have ended.
func (b *Beats) Begin(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.run(ctx)
	}()
	return func() {
		stop()
		<-done
	}
}

// run says each heartbeat how far this node's flushes are in the journal, on a clock
// of its own: while they wait, and whatever their interval.
func (b *Beats) run(ctx context.Context) {
	tick := time.NewTicker(replica.HeartbeatEvery)
	defer tick.Stop()
	for {
		now, last := time.Now(), b.Written()
		beat := replica.Heartbeat{Incarnation: b.Own, Node: b.Node, Promise: b.Promise, Flush: last.Flush, Age: now.Sub(last.Began)}
		b.Replica.Hear(now, beat)
		if err := b.Conn.Publish(beatSubject, beat.Encode()); err != nil {
			b.Log.Debug("journal: could not send this node's position to the others; will retry", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Listen takes those of the others, until the connection closes.
func (b *Beats) Listen() error {
	_, err := b.Conn.Subscribe(beatSubject, func(msg *nats.Msg) {
		if beat, ok := replica.DecodeHeartbeat(msg.Data); ok && beat.Origin != b.Own.Origin {
			b.Replica.Hear(time.Now(), beat)
		}
	})
	return err
}
