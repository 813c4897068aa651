package transporttest

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

	"github.com/weir-counter/weir/internal/cluster/transport"
)

// Network stands between the cluster ports of nodes on loopback. It delays what each end sends by oneWay, in order. If
// one end is cut off, it delivers the data once that is over, as TCP would send it again. Nothing is lost, and TCP
// alone bounds how much is on its way.
type Network struct {
	oneWay  time.Duration
	done    chan struct{} // closed when the test ends
	copying sync.WaitGroup

	mu      sync.Mutex
	cut     map[string]bool // nodes
	changed chan struct{}   // closed when cut changes
}

// NewNetwork is for nodes with a round trip time between them, until the test ends.
func NewNetwork(t testing.TB, roundTrip time.Duration) *Network {
	n := &Network{oneWay: roundTrip / 2, done: make(chan struct{}), cut: map[string]bool{}, changed: make(chan struct{})}
	t.Cleanup(func() {
		close(n.done)
		n.copying.Wait()
	})
	return n
}

// Cut cuts a node off as a cable is, or heals it: nothing arrives any more, and no connection ends.
func (n *Network) Cut(node string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[node] = cut
	close(n.changed)
	n.changed = make(chan struct{})
}

// pass returns when neither of two nodes is cut off, or false at the end.
func (n *Network) pass(a, b string) bool {
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

// Between puts it before the nodes of some configurations, which have their Node, Addr and Peers set.
func (n *Network) Between(t testing.TB, configs []*transport.Config) {
	t.Helper()
	for i, listen := range Addrs(t, len(configs)) {
		configs[i].Listen = listen
		n.Before(t, configs[i].Node, configs[i].Addr, listen)
	}
}

// Before lets other nodes reach at addr a node that listens at target.
func (n *Network) Before(t testing.TB, node, addr, target string) {
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

// way is one connection between two nodes.
type way struct {
	*Network
	node   string                 // whose port it is
	dialer atomic.Pointer[string] // who dialled; node until that is known
}

func (n *Network) carry(from net.Conn, node, target string) {
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
	w := &way{Network: n, node: node}
	w.dialer.Store(&node)
	n.copying.Go(func() {
		defer end()
		w.copy(from, to, nil)
	})
	defer end()
	in := bufio.NewReaderSize(from, 64<<10)
	line, err := w.learnDialer(in)
	if err == nil {
		w.copy(to, in, line)
	}
}

const connect = "CONNECT "

// A node says its name when it connects to another, unless it speaks TLS.
var connectName = regexp.MustCompile(`^` + connect + `.*"user":"([^"]+)"`)

// learnDialer reads what a node says first.
func (w *way) learnDialer(in *bufio.Reader) (line []byte, err error) {
	if start, err := in.Peek(len(connect)); err != nil || string(start) != connect {
		return nil, err
	}
	line, err = in.ReadBytes('\n')
	if name := connectName.FindSubmatch(line); name != nil {
		dialer := string(name[1])
		w.dialer.Store(&dialer)
	}
	return line, err
}

// said is what was read at once, and when it is heard.
type said struct {
	what []byte
	at   time.Time
}

// chunks is how many pieces may be on their way in one direction, between nodes that are far from each other.
const chunks = 4096

// copy carries what one of two nodes says to the other: first, and then what is read.
func (w *way) copy(to io.Writer, from io.Reader, first []byte) {
	heard := make(chan said)
	if w.oneWay > 0 {
		heard = make(chan said, chunks)
	}
	w.copying.Go(func() {
		broken := false
		for s := range heard {
			if broken { // the other side ends soon
				continue
			}
			select {
			case <-time.After(time.Until(s.at)):
			case <-w.done:
			}
			if broken = !w.pass(*w.dialer.Load(), w.node); !broken {
				_, err := to.Write(s.what)
				broken = err != nil
			}
		}
	})
	defer close(heard)
	say := func(what []byte) bool {
		select {
		case heard <- said{what, time.Now().Add(w.oneWay)}:
			return true
		case <-w.done:
			return false
		}
	}
	if len(first) > 0 && !say(first) {
		return
	}
	buffer := make([]byte, 64<<10)
	for {
		count, err := from.Read(buffer)
		if count > 0 && !say(append([]byte(nil), buffer[:count]...)) {
			return
		}
		if err != nil {
			return
		}
	}
}
