package membership

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// clockSubject takes an empty request. Every node answers: 8 bytes origin, 8 bytes Unix ns, both little endian, and its name.
const clockSubject = "weir.clock"

// clockTime is how long Ask waits for nodes that do not answer.
const clockTime = 300 * time.Millisecond

// Clocks compares this node's clock with the clocks of the other nodes (clock_watch.go). It is safe for many
// goroutines.
type Clocks struct {
	Conn   *nats.Conn
	Log    *slog.Logger
	Origin uint64 // this node's
	Node   string // and its name
	Clock  *keyspace.Wall

	Origins func() []replica.OriginStatus // the nodes that are known

	mu     sync.Mutex
	is     replica.ClockVerdict // of the last exchange
	warned bool
}

// Serve answers other nodes, until the connection closes.
func (c *Clocks) Serve() error {
	_, err := c.Conn.Subscribe(clockSubject, func(msg *nats.Msg) {
		answer := binary.LittleEndian.AppendUint64(nil, c.Origin)
		answer = binary.LittleEndian.AppendUint64(answer, uint64(c.Clock.Raw().UnixNano()))
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
	sent, ours := time.Now(), c.Clock.Raw()
	if err := c.Conn.PublishRequest(clockSubject, inbox, nil); err != nil {
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

// A clustered node compares its clock with the other nodes' clocks, at its start before it reads the journal, and then
// again and again. If most nodes that answer, itself included, agree and its clock differs, it counts by their time of
// day until its own is right again. So a clock that is wrong at boot neither stamps hits nor makes the hits of others
// seem ahead. All nodes compare uncorrected clocks, so that no two nodes follow each other.
//
// Where no majority agrees, nobody can know the time: nothing is corrected, the alarm
// says so, and strict limits are not decided here (package strict).

const (
	// clocksSound is how far strict limits let them differ: their slack.
	clocksSound = time.Second

	// clocksEvery is how often they are compared at most, and clockEach how much time there
	// is between two exchanges for each node that answers.
	clocksEvery = 2 * time.Second
	clockEach   = 100 * time.Millisecond

	// clockLook is how often a node looks whether its own clock was set, which is compared
	// at once.
	clockLook = 250 * time.Millisecond
)

// Compare asks as many other nodes as wanted, and corrects this one's clock.
func (c *Clocks) Compare(ctx context.Context, wanted int) {
	clocks, err := c.Ask(ctx, wanted)
	if err != nil || len(clocks) == 0 {
		return // what was known last still holds
	}
	v := replica.JudgeClocks(clocks)
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.is
	c.is = v
	if v.Spread > 0 {
		c.is.Correction = was.Correction // nobody knows better
	} else if was := c.Clock.Corrected(); v.Correction != 0 || was != 0 {
		if change := v.Correction - was; v.Correction == 0 || change.Abs() > replica.ClocksAgree/10 {
			c.Clock.Correct(v.Correction)
		}
	}
	wrong := v.Spread > 0 || v.Correction != 0
	if wrong != c.warned {
		if c.warned = wrong; wrong {
			c.Log.Warn("journal: the clocks of the nodes differ: correct them (NTP)", "behind_the_others_by", v.Correction, "no_majority_apart_by", v.Spread)
		} else {
			c.Log.Info("journal: the clocks of the nodes agree again")
		}
	}
}

// Run compares clocks until ctx is done.
func (c *Clocks) Run(ctx context.Context) {
	compared := time.Now()
	off := c.off(compared)
	concurrency.Every(ctx, clockLook, func() bool {
		now := time.Now()
		wanted := c.answering()
		every := max(clocksEvery, time.Duration(wanted)*clockEach)
		was := off
		if off = c.off(now); (off-was).Abs() < replica.ClocksAgree && now.Sub(compared) < every {
			return true
		}
		c.Compare(ctx, wanted)
		compared = now
		return true
	})
}

// off is how far the clock is from one that is not set.
func (c *Clocks) off(now time.Time) time.Duration {
	return c.Clock.Raw().Round(0).Sub(clockBase.Round(0)) - now.Sub(clockBase)
}

// clockBase has a time of day and a monotonic time of one moment.
var clockBase = time.Now()

// Sound reports whether strict limits may be decided here: the time of day of this node
// is known to a second.
func (c *Clocks) Sound() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.is.Spread <= clocksSound
}

// Alarms tell that clocks must be set.
func (c *Clocks) Alarms() (alarms []api.Alarm) {
	c.mu.Lock()
	spread := c.is.Spread
	c.mu.Unlock()
	correction := c.Clock.Corrected()
	by := func(d time.Duration) time.Duration { return d.Abs().Round(time.Millisecond) }
	switch {
	case spread > 0:
		alarms = append(alarms, api.Alarm{Code: "clocks_differ", Message: fmt.Sprintf(
			"the clocks of the nodes differ by up to %v, and no majority of them agrees, so strict limits are not decided here: set the clocks right (NTP)", by(spread))})
	case correction < 0:
		alarms = append(alarms, api.Alarm{Code: "clock_wrong", Message: fmt.Sprintf("this node's clock is %v ahead of most other nodes: it counts by their time; correct the clock (NTP)", by(correction))})
	case correction > 0:
		alarms = append(alarms, api.Alarm{Code: "clock_wrong", Message: fmt.Sprintf("this node's clock is %v behind most other nodes: it counts by their time; correct the clock (NTP)", by(correction))})
	}
	return alarms
}

// beatSubject has the beats of all nodes. A beat that is lost is followed by another.
const beatSubject = "weir.beat"

// Beats sends this node's heartbeats and receives the heartbeats of the others.
type Beats struct {
	Conn    *nats.Conn
	Log     *slog.Logger
	Own     record.Incarnation
	Node    string
	Promise time.Duration           // within which this node says something (replica.Promised)
	Written func() *replica.Written // the last flush of this node that is in the journal
	Replica *replica.Replica        // that hears them
	Stores  *replica.Stores         // that knows whose replicas store

	mu       sync.Mutex
	namesake uint64    // origin of another process that has this node's name
	heard    time.Time // when it sent a heartbeat last; zero: never
}

// Begin starts this node's heartbeats once its hello is written: the rest of a start may take longer than a node may
// be silent. end stops them, and returns when they have ended.
func (b *Beats) Begin(ctx context.Context) (end func()) {
	return concurrency.Background(context.WithoutCancel(ctx), b.run)
}

// run sends each heartbeat how far this node's flushes are in the journal. It has its own ticker, so it also sends
// while flushes wait, and whatever their interval.
func (b *Beats) run(ctx context.Context) {
	concurrency.Repeat(ctx, replica.HeartbeatEvery, func() {
		now, last := time.Now(), b.Written()
		beat := replica.Heartbeat{Incarnation: b.Own, Node: b.Node, Promise: b.Promise, Flush: last.Flush, Age: now.Sub(last.Began)}
		beat.Wrong, _ = b.Stores.OwnWrong(now)
		b.Replica.Hear(now, beat)
		if err := b.Conn.Publish(beatSubject, beat.Encode()); err != nil {
			b.Log.Debug("journal: could not send this node's position to the others; will retry", "error", err)
		}
	})
}

// Listen receives the heartbeats of the others, until the connection closes.
func (b *Beats) Listen() error {
	_, err := b.Conn.Subscribe(beatSubject, func(msg *nats.Msg) {
		beat, ok := replica.DecodeHeartbeat(msg.Data)
		if !ok || beat.Origin == b.Own.Origin {
			return
		}
		b.Replica.Hear(time.Now(), beat)
		if beat.Node == b.Node {
			b.hearNamesake(beat.Origin)
		} else {
			b.Stores.Hear(time.Now(), beat.Node, beat.Wrong)
		}
	})
	return err
}

// A namesake counts as present for so long after its last heartbeat.
const namesakeFor = 30 * time.Second

// hearNamesake takes note of another node of this name that runs. A start that finds its name taken ends (RefuseNamesake); two get here
// if one of them was silent meanwhile.
func (b *Beats) hearNamesake(origin uint64) {
	b.mu.Lock()
	known := b.namesake == origin && time.Since(b.heard) < namesakeFor
	b.namesake, b.heard = origin, time.Now()
	b.mu.Unlock()
	if !known {
		b.Log.Error("journal: another running node has the same name. Stop one of them, and give each node its own --node", "node", b.Node, "its_origin", fmt.Sprintf("%016x", origin))
	}
}

// Alarms tell of another node of this name that runs.
func (b *Beats) Alarms() []api.Alarm {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heard.IsZero() || time.Since(b.heard) > namesakeFor {
		return nil
	}
	return []api.Alarm{{Code: "node_name_twice", Message: fmt.Sprintf(
		"another node that runs is called %s too (its data directory is origin %016x, this one's is %016x), and freshness may miss what one of them took: stop one, and give it its own --node", b.Node, b.namesake, b.Own.Origin)}}
}
