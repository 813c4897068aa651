package node

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

// Who may not listen on a port gets an error that says which are free to all. (A test of root can't be refused.)
func TestWordsOfPermission(t *testing.T) {
	t.Parallel()
	err := addressHint(&net.OpError{Op: "listen", Err: syscall.EACCES}, "http")
	if !strings.Contains(err.Error(), "ports below 1024 are for root, or need CAP_NET_BIND_SERVICE: choose another with --http") {
		t.Error(err)
	}
}
