package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/replica"
)

// clockSubject takes a request with the 8 bytes of the asker's origin, little endian, and its name, or
// without content of a node that starts; every node answers it: 8 bytes origin, 8 bytes Unix ns, both little endian, and its name.
const clockSubject = "weir.clock"

// clockTime is how long Ask waits for nodes that do not answer.
const clockTime = 300 * time.Millisecond

// Clocks compares this node's clock with those of the others (clock_watch.go). It is safe for
// many goroutines.
type Clocks struct {
	Conn   *nats.Conn
	Log    *slog.Logger
	Origin uint64 // this node's
	Node   string // and its name
	Clock  replication.Clock

	Origins func() []replica.OriginStatus // the nodes that are known

	runs atomic.Bool // Run was called: the start was not refused

	mu       sync.Mutex
	is       replica.ClockVerdict // of the last exchange
	warned   bool
	namesake namesake
}

// Serve answers other nodes, until the connection closes.
func (c *Clocks) Serve() error {
	_, err := c.Conn.Subscribe(clockSubject, func(msg *nats.Msg) {
		if len(msg.Data) >= 8 {
			c.heard(binary.LittleEndian.Uint64(msg.Data), string(msg.Data[8:]))
		}
		answer := binary.LittleEndian.AppendUint64(nil, c.Origin)
		answer = binary.LittleEndian.AppendUint64(answer, uint64(c.Clock.UncorrectedWall().UnixNano()))
		if err := msg.Respond(append(answer, c.Node...)); err != nil {
			c.Log.Warn("journal: could not answer a node that asked for the time", "error", err)
		}
	})
	return err
}

// All asks the other nodes for the time. It returns when as many have answered
// as are neither late nor gone, within 300 ms in any case.
func (c *Clocks) All(ctx context.Context) ([]replica.Clock, error) { return c.Ask(ctx, c.answering()) }

// Ask returns when so many have answered, within 300 ms in any case.
func (c *Clocks) Ask(ctx context.Context, wanted int) (clocks []replica.Clock, err error) {
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	inbox := c.Conn.NewInbox()
	answers, err := c.Conn.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("journal: clocks: %w", err)
	}
	defer func() { err = errors.Join(err, answers.Unsubscribe()) }()
	sent, ours := time.Now(), c.Clock.UncorrectedWall()
	var asker []byte
	if c.runs.Load() {
		asker = append(binary.LittleEndian.AppendUint64(nil, c.Origin), c.Node...)
	}
	if err := c.Conn.PublishRequest(clockSubject, inbox, asker); err != nil {
		return nil, fmt.Errorf("journal: clocks: %w", err)
	}
	for len(clocks) < wanted {
		msg, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			break // the others are silent
		}
		rtt := time.Since(sent)
		if len(msg.Data) < 16 {
			continue
		}
		origin := binary.LittleEndian.Uint64(msg.Data)
		if origin == c.Origin {
			continue
		}
		theirs := time.Unix(0, int64(binary.LittleEndian.Uint64(msg.Data[8:])))
		clocks = append(clocks, replica.Clock{
			Node: string(msg.Data[16:]), Origin: fmt.Sprintf("%016x", origin), RTT: rtt,
			Skew: theirs.Sub(ours.Add(rtt / 2)),
		})
	}
	return clocks, nil
}

// answering is how many other nodes should answer.
func (c *Clocks) answering() (wanted int) {
	for _, o := range c.Origins() {
		if !o.Self && !o.Left && !o.Late {
			wanted++
		}
	}
	return wanted
}
