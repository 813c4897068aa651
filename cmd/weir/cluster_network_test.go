package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// network is what nodes reach each other by.
type network interface {
	// setCut cuts a node off as a cable is: nothing arrives any more, and no
	// connection ends.
	setCut(node string, cut bool)
	// within is what the command line of node i begins with.
	within(i int) []string
	// reach is where this process reaches what node i serves at addr.
	reach(i int, addr string) string
}

// proxies stand between the cluster ports of nodes on loopback. What was sent during a
// cut arrives when it is healed, as TCP sends it again.
type proxies struct {
	mu      sync.Mutex
	cut     map[string]bool // nodes
	changed chan struct{}   // closed when cut changes
	done    chan struct{}   // closed when the test ends
	copying sync.WaitGroup
}

func newProxies(t *testing.T) *proxies {
	n := &proxies{cut: map[string]bool{}, changed: make(chan struct{}), done: make(chan struct{})}
	t.Cleanup(func() {
		close(n.done)
		n.copying.Wait()
	})
	return n
}

func (n *proxies) setCut(node string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[node] = cut
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *proxies) within(int) []string { return nil }

func (n *proxies) reach(_ int, addr string) string { return addr }

// pass returns when neither of two nodes is cut off, or false at the end.
func (n *proxies) pass(a, b string) bool {
	for {
		n.mu.Lock()
		cut, changed := n.cut[a] || n.cut[b], n.changed
		n.mu.Unlock()
		if !cut {
			return true
		}
		select {
		case <-changed:
		case <-n.done:
			return false
		}
	}
}

// proxy lets other nodes reach node by addr, which listens at target.
func (n *proxies) proxy(t *testing.T, node, addr, target string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			n.copying.Go(func() { n.carry(from, node, target) })
		}
	}()
}

// A node says its name when it connects to another.
var connectName = regexp.MustCompile(`^CONNECT .*"user":"([^"]+)"`)

func (n *proxies) carry(from net.Conn, node, target string) {
	to, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", target)
	if err != nil {
		from.Close()
		return
	}
	end := sync.OnceFunc(func() { from.Close(); to.Close() })
	ended := make(chan struct{})
	defer close(ended)
	n.copying.Go(func() {
		select {
		case <-n.done:
		case <-ended:
		}
		end()
	})
	var dialer atomic.Pointer[string]
	dialer.Store(&node) // until it is known
	n.copying.Go(func() {
		defer end()
		n.copy(from, to, &dialer, node)
	})
	defer end()
	in := bufio.NewReaderSize(from, 64<<10)
	line, err := in.ReadString('\n')
	name := connectName.FindStringSubmatch(line)
	if err != nil || name == nil || !n.pass(name[1], node) {
		return
	}
	dialer.Store(&name[1])
	if _, err := io.WriteString(to, line); err == nil {
		n.copy(to, in, &dialer, node)
	}
}

// copy carries what one of two nodes says to the other.
func (n *proxies) copy(to io.Writer, from io.Reader, dialer *atomic.Pointer[string], node string) {
	buffer := make([]byte, 64<<10)
	for {
		count, err := from.Read(buffer)
		if count > 0 {
			if !n.pass(*dialer.Load(), node) {
				return
			}
			if _, err := to.Write(buffer[:count]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
