package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/replica"
)

// clockSubject takes a request without content; every node answers it: 8 bytes
// origin, 8 bytes Unix ns, both little endian, and its name.
const clockSubject = "weir.clock"

// clockTime is how long Clocks waits for nodes that do not answer.
const clockTime = 300 * time.Millisecond

// serveClock answers other nodes, until the connection closes.
func (j *Journal) serveClock() error {
	_, err := j.server.Conn().Subscribe(clockSubject, func(msg *nats.Msg) {
		answer := binary.LittleEndian.AppendUint64(nil, j.life.Origin)
		answer = binary.LittleEndian.AppendUint64(answer, uint64(replication.Of(j.engine).UncorrectedWall().UnixNano()))
		if err := msg.Respond(append(answer, j.cfg.Join.Node...)); err != nil {
			j.log.Warn("journal: could not answer a node that asked for the time", "error", err)
		}
	})
	return err
}

// Clocks asks the other nodes for the time. It returns when as many have answered
// as are neither late nor gone, within 300 ms in any case.
func (j *Journal) Clocks(ctx context.Context) (clocks []replica.Clock, err error) {
	if !j.cfg.clustered() {
		return nil, nil
	}
	return j.askClocks(ctx, j.answering())
}

// askClocks returns when so many have answered, within 300 ms in any case.
func (j *Journal) askClocks(ctx context.Context, wanted int) (clocks []replica.Clock, err error) {
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	conn := j.server.Conn()
	inbox := conn.NewInbox()
	answers, err := conn.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("journal: clocks: %w", err)
	}
	defer func() { err = errors.Join(err, answers.Unsubscribe()) }()
	sent, ours := time.Now(), replication.Of(j.engine).UncorrectedWall()
	if err := conn.PublishRequest(clockSubject, inbox, nil); err != nil {
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
		if origin == j.life.Origin {
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
