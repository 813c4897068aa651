package main

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// wan stands between regions on loopback: what one says is heard by the other so much later, and no faster than the rate; or,
// while a region is cut off, once that is over.
type wan struct {
	t      *testing.T
	oneWay time.Duration
	rate   int64 // bytes per second of each connection and way; 0: any

	mu      sync.Mutex
	cut     map[string]bool
	changed chan struct{}
}

func newWAN(t *testing.T, roundTrip time.Duration, rate int64) *wan {
	return &wan{t: t, oneWay: roundTrip / 2, rate: rate, cut: map[string]bool{}, changed: make(chan struct{})}
}

// cutOff cuts a region off from all others, or heals it. No connection ends.
func (w *wan) cutOff(region string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[region] = cut
	close(w.changed)
	w.changed = make(chan struct{})
}

// pass returns when neither of two regions is cut off, or false at the end.
func (w *wan) pass(a, b string) bool {
	for {
		w.mu.Lock()
		cut, changed := w.cut[a] || w.cut[b], w.changed
		w.mu.Unlock()
		if !cut {
			return true
		}
		select {
		case <-changed:
		case <-w.t.Context().Done():
			return false
		}
	}
}

// link is an address at which a region reaches another, whose listeners are targets: the first that answers.
func (w *wan) link(from, to string, targets []string) (addr string) {
	w.t.Helper()
	l, err := new(net.ListenConfig).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(in, from, to, targets)
		}
	}()
	return l.Addr().String()
}

func (w *wan) carry(in net.Conn, from, to string, targets []string) {
	defer func() { _ = in.Close() }()
	if !w.pass(from, to) {
		return
	}
	var dialer net.Dialer
	for _, target := range targets {
		out, err := dialer.DialContext(w.t.Context(), "tcp", target)
		if err != nil {
			continue
		}
		defer func() { _ = out.Close() }()
		ended := make(chan struct{}, 2)
		go w.copy(out, in, from, to, ended)
		go w.copy(in, out, from, to, ended)
		select {
		case <-ended:
		case <-w.t.Context().Done():
		}
		return
	}
}

// heard is what arrives, and when.
type heard struct {
	at   time.Time
	data []byte
}

func (w *wan) copy(to io.Writer, from io.Reader, a, b string, ended chan<- struct{}) {
	way := make(chan heard, 1024)
	go func() {
		defer func() { ended <- struct{}{} }()
		for h := range way {
			time.Sleep(time.Until(h.at))
			if !w.pass(a, b) {
				return
			}
			if _, err := to.Write(h.data); err != nil {
				return
			}
		}
	}()
	defer close(way)
	free := time.Now()
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if n > 0 {
			if now := time.Now(); free.Before(now) {
				free = now
			}
			if w.rate > 0 {
				free = free.Add(time.Duration(n) * time.Second / time.Duration(w.rate))
			}
			select {
			case way <- heard{free.Add(w.oneWay), data[:n]}:
			case <-w.t.Context().Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
