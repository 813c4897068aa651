package replica

import (
	"errors"
	"time"
)

// This part is a small world for simulation tests: a clock that is an event
// queue, a network that loses, repeats, reorders, delays and cuts, a replicated
// log, and registers that are replaced only by who knows what is in them. All of
// it is one goroutine and one seed: the same seed gives the same trace.

// Log is a replicated log with the semantics of a JetStream stream: one order of
// messages, by sequence from 1; a message is there once most replicas have it, and
// only then acknowledged; the acknowledgement may be lost, and a message sent
// again is there twice; reads are answered by any replica, which may lag, or may
// have lost a message on its disk and pass over it in silence.
type Log struct {
	w        *World
	net      *Network
	replicas []*replica
	messages [][]byte // all that ever were; sequence-1 is the index
	first    uint64   // those before are trimmed
	bytes    int      // of the others

	// MaxBytes is how many bytes of messages it keeps at most: it refuses more, as a
	// full disk does, and the sender hears nothing. 0: there is no bound.
	MaxBytes int

	// Appended, if not nil, is called with each message when it is there.
	Appended func(sequence uint64, data []byte)
}

type replica struct {
	node string
	have uint64 // all up to here, but lost
	lost map[uint64]bool

	disk   Disk
	failed bool // it stores nothing until Restart
}

var (
	// ErrUnreachable is the answer where nobody answers.
	ErrUnreachable = errors.New("sim: no replica can be reached")
	// ErrNoMessage is the answer of a replica that has no such message.
	ErrNoMessage = errors.New("sim: no such message")
)

// catchUpEvery is how often a replica that lags asks one that does not.
const catchUpEvery = 300 * time.Millisecond

// NewLog has its replicas on some nodes.
func NewLog(w *World, net *Network, nodes []string) *Log {
	l := &Log{w: w, net: net, first: 1}
	for _, node := range nodes {
		l.replicas = append(l.replicas, &replica{node: node, lost: map[uint64]bool{}})
	}
	w.Every(catchUpEvery, func() bool {
		if leader := l.leader(); leader != nil {
			for _, r := range l.replicas {
				if net.Reach(leader.node, r.node) && !r.failed && l.HasSpace(r.node) {
					r.have = leader.have
				}
			}
		}
		return true
	})
	return l
}

// leader is a replica that has all, and reaches most; nil: there is none.
func (l *Log) leader() *replica {
	for _, r := range l.replicas {
		if r.have == l.Last() && len(l.followers(r))+1 > len(l.replicas)/2 && !l.net.down[r.node] && !r.failed {
			return r
		}
	}
	for _, r := range l.replicas { // the newest of a majority has all, and tells the others
		if len(l.followers(r))+1 <= len(l.replicas)/2 || l.net.down[r.node] || r.failed {
			continue
		}
		for _, other := range l.followers(r) {
			if other.have == l.Last() {
				r.have = other.have
				return r
			}
		}
	}
	return nil
}

func (l *Log) followers(leader *replica) (list []*replica) {
	for _, r := range l.replicas {
		if r != leader && l.net.Reach(leader.node, r.node) && !r.failed {
			list = append(list, r)
		}
	}
	return list
}

// leaderFor is the leader, if a node can ask it.
func (l *Log) leaderFor(node string) *replica {
	leader := l.leader()
	if leader == nil || !l.net.Reach(node, leader.node) {
		return nil
	}
	return leader
}

// First is the sequence of the oldest message that was not trimmed.
func (l *Log) First() uint64 { return l.first }

// Last is the sequence of the newest message.
func (l *Log) Last() uint64 { return uint64(len(l.messages)) }

// Publish sends a message. acked runs at its node if the acknowledgement comes;
// who waits for it in vain sends again.
func (l *Log) Publish(from string, data []byte, acked func(sequence uint64)) {
	l.write(from)
	leader := l.leaderFor(from)
	if leader == nil {
		return
	}
	l.net.Send(from, leader.node, func() {
		l.stored(leader, func() {
			now := l.leader() // another one, perhaps
			if now == nil || !l.net.Reach(leader.node, now.node) {
				return
			}
			if l.MaxBytes > 0 && l.bytes+len(data) > l.MaxBytes {
				return
			}
			sequence := l.append(now, data)
			l.net.Send(now.node, from, func() { acked(sequence) })
		})
	})
}

func (l *Log) append(leader *replica, data []byte) uint64 {
	l.messages = append(l.messages, data)
	l.bytes += len(data)
	leader.have = l.Last()
	followers := l.followers(leader)
	l.w.Shuffle(len(followers), func(i, j int) { followers[i], followers[j] = followers[j], followers[i] })
	for _, r := range followers[:len(l.replicas)/2] {
		r.have = l.Last() // the others lag
	}
	if l.Appended != nil {
		l.Appended(l.Last(), data)
	}
	return l.Last()
}

// Next reads the first message at or after a sequence from some replica, the
// node's own one most often.
func (l *Log) Next(node string, sequence uint64) (at uint64, data []byte, err error) {
	r := l.ask(node)
	if r == nil {
		return 0, nil, ErrUnreachable
	}
	for at := max(sequence, l.first); at <= r.have; at++ {
		if !r.lost[at] {
			return at, l.messages[at-1], nil
		}
	}
	return 0, nil, ErrNoMessage
}

// Message is one of the log.
type Message struct {
	Sequence uint64
	Data     []byte
}

// Read asks some replica for the messages from a sequence on, of which it has pending more.
// The answer comes some time later, or never.
func (l *Log) Read(node string, from uint64, most int, answer func(list []Message, pending int, err error)) {
	r := l.ask(node)
	if r == nil {
		answer(nil, 0, ErrUnreachable)
		return
	}
	l.net.Send(node, r.node, func() {
		var list []Message
		pending := 0
		for at := max(from, l.first); at <= r.have; at++ {
			switch {
			case r.lost[at]:
			case len(list) < most:
				list = append(list, Message{at, l.messages[at-1]})
			default:
				pending++
			}
		}
		l.net.Send(r.node, node, func() { answer(list, pending, nil) })
	})
}

// Get reads one message from some replica.
func (l *Log) Get(node string, sequence uint64) ([]byte, error) {
	at, data, err := l.Next(node, sequence)
	if err == nil && at != sequence {
		err = ErrNoMessage
	}
	return data, err
}

func (l *Log) ask(node string) *replica {
	var there []*replica
	for _, r := range l.replicas {
		if !l.net.Reach(node, r.node) || r.disk == DiskBroken {
			continue
		}
		if r.node == node && l.w.Chance(.7) {
			return r
		}
		there = append(there, r)
	}
	if len(there) == 0 {
		return nil
	}
	return there[l.w.IntN(len(there))]
}

// Bounds are the first and the last message, which the leader knows.
func (l *Log) Bounds(node string) (first, last uint64, err error) {
	if l.leaderFor(node) == nil {
		return 0, 0, ErrUnreachable
	}
	return l.first, l.Last(), nil
}

// Trim removes the messages up to and including a sequence.
func (l *Log) Trim(node string, upTo uint64) error {
	if l.leaderFor(node) == nil {
		return ErrUnreachable
	}
	for ; l.first <= min(upTo, l.Last()); l.first++ {
		l.bytes -= len(l.messages[l.first-1])
	}
	return nil
}

// Retained is how many bytes there are, which the leader knows.
func (l *Log) Retained(node string) (bytes int, err error) {
	if l.leaderFor(node) == nil {
		return 0, ErrUnreachable
	}
	return l.bytes, nil
}

// Lose takes a message from some of the replicas' disks.
func (l *Log) Lose(sequence uint64, replicas int) {
	for i, at := range l.w.Perm(len(l.replicas)) {
		if i < replicas {
			l.replicas[at].lost[sequence] = true
		}
	}
}

// GetOfLeader reads one message from the leader, which is one that has not lost it
// if there is any.
func (l *Log) GetOfLeader(node string, sequence uint64) ([]byte, error) {
	leader := l.leaderFor(node)
	switch {
	case leader == nil:
		return nil, ErrUnreachable
	case sequence < l.first || sequence > leader.have || l.lostByAll(sequence):
		return nil, ErrNoMessage
	}
	return l.messages[sequence-1], nil
}

func (l *Log) lostByAll(sequence uint64) bool {
	for _, r := range l.replicas {
		if !r.lost[sequence] {
			return false
		}
	}
	return true
}

// Message is one message that was ever appended, whoever has it still.
func (l *Log) Message(sequence uint64) []byte { return l.messages[sequence-1] }

// Disk is what a replica's disk does.
type Disk uint8

const (
	// DiskSound stores and reads.
	DiskSound Disk = iota
	// DiskFull stores nothing, and what it has can be read.
	DiskFull
	// DiskBroken neither stores nor reads (EIO).
	DiskBroken
	// DiskSlow takes up to a second for what it stores.
	DiskSlow
	// DiskTorn loses the message that it is about to store when its node crashes, which
	// was not acknowledged for its sake.
	DiskTorn
	// DiskLying loses the last messages when its node crashes, though it said that they
	// were stored. A log of three survives one of them at a time.
	DiskLying
)

// lies is how many messages a crash may take from a disk that lies.
const lies = 5

// slowest is what a slow disk takes at most for a message.
const slowest = time.Second

// SetDisk changes a node's disk. A replica that has failed to store goes on only after
// Restart, whatever its disk does then. It tells whether the node has a replica, and for
// DiskLying whether the others could do without it.
func (l *Log) SetDisk(node string, disk Disk) bool {
	r := l.replicaOf(node)
	if r == nil {
		return false
	}
	if disk == DiskLying {
		for _, other := range l.replicas {
			if other != r && (other.have < l.Last() || other.disk == DiskLying) {
				return false
			}
		}
		if len(l.replicas) < 3 {
			return false
		}
	}
	r.disk = disk
	return true
}

// Stores tells whether a node's replica stores, and up to which message it has all; replica
// is false if the node has none.
func (l *Log) Stores(node string) (stores bool, have uint64, replica bool) {
	r := l.replicaOf(node)
	if r == nil {
		return true, l.Last(), false
	}
	return !r.failed, r.have, true
}

// HasSpace tells whether a node's disk takes something.
func (l *Log) HasSpace(node string) bool {
	r := l.replicaOf(node)
	return r == nil || r.disk != DiskFull && r.disk != DiskBroken
}

// Led tells whether there is a leader.
func (l *Log) Led() bool { return l.leader() != nil }

// Restart has a replica that failed to store go on.
func (l *Log) Restart(node string) {
	if r := l.replicaOf(node); r != nil {
		r.failed = !l.HasSpace(node)
	}
}

// Crash takes from a node's disk what a crash may take.
func (l *Log) Crash(node string) {
	r := l.replicaOf(node)
	if r == nil {
		return
	}
	switch r.disk {
	case DiskTorn:
		if r.have > 0 && l.othersHave(r, r.have) { // else it was stored, and acknowledged
			r.have--
		}
	case DiskLying:
		r.have -= min(r.have, uint64(l.w.IntN(lies)))
	}
}

func (l *Log) othersHave(but *replica, sequence uint64) bool {
	n := 0
	for _, r := range l.replicas {
		if r != but && r.have >= sequence {
			n++
		}
	}
	return n > len(l.replicas)/2
}

func (l *Log) replicaOf(node string) *replica {
	for _, r := range l.replicas {
		if r.node == node {
			return r
		}
	}
	return nil
}

// write has the replicas that a message comes to find out that they can't store it.
func (l *Log) write(from string) {
	for _, r := range l.replicas {
		if l.net.Reach(from, r.node) && !l.HasSpace(r.node) {
			r.failed = true
		}
	}
}

// stored runs then once the leader's disk has a message.
func (l *Log) stored(leader *replica, then func()) {
	if leader.disk != DiskSlow {
		then()
		return
	}
	l.w.After(l.w.Between(0, slowest), then)
}
