package history

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/wire"
)

// Peers carries messages between the nodes of a journal. Package durable has the one over NATS.
type Peers interface {
	// Publish sends a message to all nodes that Serve its subject, this one too.
	Publish(subject string, data []byte) error
	// Serve calls f with each message of a subject, one after the other. Its result is the answer; nil: there is none.
	Serve(subject string, f func(data []byte) (answer []byte)) error
	// Request returns the answer of one node.
	Request(ctx context.Context, subject string, data []byte) (answer []byte, err error)
}

const (
	hurrySubject = "weir.history.hurry" // asks the writer of a shared database to write what the journal has
	stateSubject = "weir.history.state" // states of histories
	copySubject  = "weir.history.copy." // and the node's origin: asks for its file

	stateMagic, stateVersion = 'H', 3

	stateEvery  = time.Second      // how often a node publishes the state of its history
	stateFor    = 10 * time.Second // for how long another node relies on it
	settleAfter = 3 * stateEvery   // after the start, all nodes that run have published theirs
	absentFor   = time.Minute      // a node that was silent, or could not go on, for so long is waited for only if no other is further
	forgetFor   = 10 * time.Minute // a node that was silent for so long is not waited for at all

	// clockMargin is by how much clocks of nodes may differ where it is asked whether a history has a hit.
	clockMargin = 5 * time.Second

	maxPeers  = 10_000
	maxOrigin = 64 // bytes
	maxSpans  = 64
	maxSecond = 1 << 40
)

// peerState is the state of a node's history.
//
// Encoded, with numbers as unsigned varints: magic and version; origin; needed, kept, asOf, known, journals, bytes; the number of gaps,
// and of each its first second and length; stuck.
type peerState struct {
	origin   string
	needed   uint64 // the first message that is not written
	kept     uint64 // the first message with requests that may come again, here or in a copy that is under way; at most needed
	asOf     int64  // Unix ms: all hits that were taken until then are in
	known    uint64 // the message up to which gaps are known
	journals uint64 // that have rows; 0: there is no file to copy
	bytes    int64  // of a copy, at most
	gaps     []span
	stuck    bool // it does not go on
	seen     time.Time
}

func (s *peerState) encode() []byte { return wire.Append([]byte{stateMagic, stateVersion}, s.fields) }

func decodeState(data []byte) (s peerState, ok bool) {
	r := wire.NewReader(data)
	if r.Byte() != stateMagic || r.Byte() != stateVersion {
		return s, false
	}
	wire.Read(r, s.fields)
	return s, r.Done()
}

func (s *peerState) fields(c *wire.Codec) {
	c.Text(&s.origin, maxOrigin)
	c.Uvarints(&s.needed, &s.kept)
	wire.Number(c, &s.asOf, math.MaxInt64)
	c.Uvarints(&s.known, &s.journals)
	wire.Number(c, &s.bytes, math.MaxInt64)
	wire.List(c, &s.gaps, maxSpans, func(g *span) {
		length := g.last - g.first
		wire.Number(c, &g.first, maxSecond)
		wire.Number(c, &length, maxSecond)
		g.last = g.first + length
	})
	c.Bool(&s.stuck)
}

// lacksPast reports whether hits older than the retention that were taken until a time, Unix ms, may not be written.
func (s *peerState) lacksPast(past int64) bool {
	return past > 0 && past+clockMargin.Milliseconds() > s.asOf
}

// neededOf returns the first message of the journal that some history needs, by the states of all nodes; 0: there is none. With
// haste it is the first message that must stay even if the journal gets full: one with hits older than the retention, which
// snapshots do not have. Then a history that is absent or stuck is not waited for if another one is further: its file is copied
// later.
func neededOf(all []peerState, haste bool, past int64, now time.Time) (first uint64) {
	absent := func(s peerState) bool { return s.stuck || now.Sub(s.seen) > absentFor }
	for _, s := range all {
		needed := min(s.needed, s.kept)
		if haste {
			needed = s.needed
			if !s.lacksPast(past) || absent(s) && slices.ContainsFunc(all, func(o peerState) bool { return !absent(o) && o.needed > s.needed }) {
				continue
			}
		}
		if first == 0 || needed < first {
			first = needed
		}
	}
	return first
}

// Others knows the states of the other nodes' histories. A node that keeps no history needs it too: any node may be the one
// that trims the journal.
type Others struct {
	Peers
	began time.Time

	mu     sync.Mutex
	states map[string]peerState // by origin
}

// Watch returns the Others, and takes their states from now on.
func Watch(peers Peers) (*Others, error) {
	o := &Others{Peers: peers, began: time.Now(), states: map[string]peerState{}}
	return o, peers.Serve(stateSubject, func(data []byte) []byte {
		o.take(data, time.Now())
		return nil
	})
}

// take takes a state that a node published. This node's own is among them.
func (o *Others) take(data []byte, now time.Time) {
	s, ok := decodeState(data)
	if !ok {
		return
	}
	s.seen = now
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.states[s.origin]; known || len(o.states) < maxPeers {
		o.states[s.origin] = s
	}
}

// all are the states of nodes that were silent for at most forgetFor.
func (o *Others) all(now time.Time) (list []peerState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for origin, s := range o.states {
		if now.Sub(s.seen) > forgetFor {
			delete(o.states, origin)
			continue
		}
		list = append(list, s)
	}
	return list
}

// Needed is History.Needed of a node that keeps no history.
func (o *Others) Needed(haste bool, past int64) uint64 { return o.needed(nil, haste, past, time.Now()) }

// needed is the first message of the journal that the history of some node needs, own ones included (neededOf). It is the first of all
// until the others have published their states, unless haste asks for hits that there are none of.
func (o *Others) needed(own []peerState, haste bool, past int64, now time.Time) uint64 {
	if now.Sub(o.began) < settleAfter && (!haste || past > 0) {
		return 1
	}
	return neededOf(append(own, o.all(now)...), haste, past, now)
}
