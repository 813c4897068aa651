package statsd

import (
	"net"
	"sync"
	"time"
)

// drops tells how many datagrams the kernel has dropped for want of room.
type drops struct {
	mu     sync.Mutex // guards all below
	socket uint64     // inode; 0: not known
	most   uint64     // that were read
	seen   uint64     // at grew
	grew   time.Time  // when more were found
}

// watch begins with a socket.
func (d *drops) watch(of *net.UDPConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.socket = socketOf(of)
}

// read is how many were dropped so far; false: the system does not tell.
func (d *drops) read() (n uint64, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look(time.Now())
}

func (d *drops) look(now time.Time) (n uint64, known bool) {
	if d.socket == 0 {
		return 0, false
	}
	n, known = droppedBy(d.socket)
	if !known {
		return d.most, d.most > 0 // the socket is closed
	}
	if n > d.most {
		if now.Sub(d.grew) > droppedFor {
			d.seen = d.most
		}
		d.most, d.grew = n, now
	}
	return d.most, true
}

// lately is how long ago datagrams were found dropped, and how many in that minute.
func (d *drops) lately(now time.Time) (since time.Duration, n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look(now)
	return now.Sub(d.grew), d.most - d.seen
}
