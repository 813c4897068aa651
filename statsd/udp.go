package statsd

import (
	"errors"
	"net"
	"os"
)

// maxDatagram is more than a datagram of UDP has.
const maxDatagram = 64 << 10

// receive counts datagrams until the server stops.
func (s *Server) receive() error {
	c, buffer := newCounting(s), make([]byte, maxDatagram)
	for {
		n, _, err := s.packets.ReadFromUDPAddrPort(buffer)
		switch {
		case err == nil:
			s.datagrams.Add(1)
			c.count(buffer[:n])
		case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed):
			return nil // it stops
		default: // of one datagram: the next one may do better
			s.log.Warn("could not receive a StatsD datagram", "error", err)
			s.pause()
		}
	}
}
