package sim

import "time"

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

// Room tells whether a node's disk takes something.
func (l *Log) Room(node string) bool {
	r := l.replicaOf(node)
	return r == nil || r.disk != DiskFull && r.disk != DiskBroken
}

// Led tells whether there is a leader.
func (l *Log) Led() bool { return l.leader() != nil }

// Restart has a replica that failed to store go on.
func (l *Log) Restart(node string) {
	if r := l.replicaOf(node); r != nil {
		r.failed = !l.Room(node)
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
		if r.have > 0 && l.othersHave(r, r.have) { // else it was stored, and told
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
		if l.net.Reach(from, r.node) && !l.Room(r.node) {
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
