package statsd

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/server/listener"
)

// follow counts the lines of a connection until it ends or is silent for too long.
func (s *Server) follow(c *listener.Conn) {
	counting, buffer, have := newCounting(s), make([]byte, s.cfg.MaxLineBytes+1), 0
	skips := false // the rest of a line that was too long
	begins := true
	for {
		if err := c.SetReadDeadline(time.Now().Add(s.cfg.IdleTimeout)); err != nil || s.stopping() {
			return
		}
		n, err := c.Read(buffer[have:])
		c.Waits(false)
		have += n
		whole := bytes.LastIndexByte(buffer[:have], '\n') + 1
		if whole > 0 || have == len(buffer) || err != nil {
			if begins && speaksHTTP(buffer[:have]) {
				s.log.Warn("a StatsD connection was closed: its client speaks HTTP, maybe for a web page that attacks this server", "remote", c.RemoteAddr().String())
				s.refused.add(malformed, 1, buffer[:have])
				return
			}
			begins = false
		}
		switch {
		case errors.Is(err, io.EOF):
			whole = have // the last line may have no end; one that broke off is none
		case whole == 0 && have == len(buffer):
			if !skips {
				s.refused.add(longLine, 1, buffer)
			}
			skips, have = true, 0
		}
		text := buffer[:whole]
		if skips && whole > 0 {
			_, text, _ = bytes.Cut(text, []byte{'\n'})
			skips = false
		}
		counting.count(text)
		have = copy(buffer, buffer[whole:have])
		c.Waits(true)
		if err != nil {
			return
		}
	}
}

// speaksHTTP tells whether what a connection begins with is a request of HTTP. A page in a browser can have
// one sent to any port, with lines of its own in the body.
func speaksHTTP(begin []byte) bool {
	method, rest, found := bytes.Cut(begin, []byte{' '})
	if !found || len(method) == 0 || len(bytes.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) > 0 {
		return false
	}
	line, _, whole := bytes.Cut(rest, []byte{'\n'})
	return !whole || bytes.HasSuffix(bytes.TrimRight(line, "\r"), []byte(" HTTP/1.1")) || bytes.HasSuffix(bytes.TrimRight(line, "\r"), []byte(" HTTP/1.0"))
}

// maxDatagram is more than a datagram of UDP has.
const maxDatagram = 64 << 10

// receive counts datagrams until the server stops.
func (s *Server) receive() error {
	c, buffer := newCounting(s), make([]byte, maxDatagram)
	var end time.Time // of the datagrams that the kernel has when the server stops
	for {
		if !end.IsZero() {
			// Set right before the read: a deadline that passed before it hides what the kernel has.
			_ = s.packets.SetReadDeadline(time.Now().Add(drain))
		}
		n, _, err := s.packets.ReadFromUDPAddrPort(buffer)
		switch {
		case err == nil:
			s.datagrams.Add(1)
			c.count(buffer[:n])
			if !end.IsZero() && time.Now().After(end) {
				return nil
			}
		case errors.Is(err, os.ErrDeadlineExceeded) && end.IsZero():
			end = time.Now().Add(drainMost)
		case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed):
			return nil
		default: // of one datagram: the next one may do better
			s.log.Warn("could not receive a StatsD datagram", "error", err)
			s.pause()
		}
	}
}

// drops tells how many datagrams the kernel has dropped because its buffer was full.
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
