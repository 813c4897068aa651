//go:build !linux

package statsd

import "net"

// socketOf is 0: only Linux says what it dropped from a socket.
func socketOf(*net.UDPConn) uint64 { return 0 }

func droppedBy(uint64) (n uint64, known bool) { return 0, false }
