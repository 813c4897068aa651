package statsd

import (
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// socketOf is the inode of a socket, 0 if it is not known.
func socketOf(c *net.UDPConn) (inode uint64) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	var st syscall.Stat_t
	if raw.Control(func(fd uintptr) { err = syscall.Fstat(int(fd), &st) }) != nil || err != nil {
		return 0
	}
	return st.Ino
}

// droppedBy is how many datagrams of a socket were dropped, because its buffer was full.
// It is the last column of the line of /proc/net/udp whose tenth column is the inode.
func droppedBy(inode uint64) (n uint64, known bool) {
	want := strconv.FormatUint(inode, 10)
	for _, table := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		text, _ := os.ReadFile(table) // a system may have only one of them
		for line := range strings.Lines(string(text)) {
			const inodeColumn, dropsColumn = 9, 12
			if columns := strings.Fields(line); len(columns) > dropsColumn && columns[inodeColumn] == want {
				n, err := strconv.ParseUint(columns[dropsColumn], 10, 64)
				return n, err == nil
			}
		}
	}
	return 0, false
}
