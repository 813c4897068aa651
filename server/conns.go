package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-counter/weir/service"
)

// limitConns returns a listener with at most limit connections open. A new one is always
// accepted: beyond the limit it takes the place of one that waits for its client, be it
// idle, silent from the start, or with a header or a body on the way. It is one of the client
// address that has most of these, and of them the one that has waited longest. So who
// opens connections and leaves them idle sheds its own, and the others come in.
// Only when none waits, all being in the middle of an answer, it is the one whose
// answer takes longest.
func limitConns(l net.Listener, limit int) *conns {
	return &conns{Listener: l, limit: limit, open: map[*conn]struct{}{}, by: map[service.Caller]int{}}
}

type conns struct {
	net.Listener
	limit int

	mu   sync.Mutex // guards all below
	open map[*conn]struct{}
	by   map[service.Caller]int // connections of each client
	shed uint64                 // so far
}

// conn is an open connection.
type conn struct {
	net.Conn
	of     *conns
	client service.Caller
	since  atomic.Int64 // ns from begin: it waits for its client since then; negated: it does not
	closed bool         // guarded by conns.mu
}

// begin is before every connection, so that times after it are more than 0.
var begin = time.Now().Add(-time.Second)

func (cs *conns) Accept() (net.Conn, error) {
	for {
		c, err := cs.Listener.Accept()
		switch {
		case err == nil:
			return cs.add(c), nil
		case !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || !cs.shedOne():
			return nil, err
		}
	}
}

func (cs *conns) add(raw net.Conn) net.Conn {
	c := &conn{Conn: raw, of: cs, client: service.CallerAt(raw.RemoteAddr().String())}
	c.waits(true)
	cs.mu.Lock()
	full := len(cs.open) >= cs.limit
	cs.mu.Unlock()
	if full {
		cs.shedOne()
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.open[c] = struct{}{}
	cs.by[c.client]++
	return c
}

// shedOne closes a connection, if there is one.
func (cs *conns) shedOne() bool {
	cs.mu.Lock()
	victim := cs.victim()
	if victim != nil {
		cs.shed++
	}
	cs.mu.Unlock()
	if victim == nil {
		return false
	}
	_ = victim.Close() // nobody is left to tell
	return true
}

// victim is the connection to close. Cost: O(connections), only when they are as many as
// may be. The caller holds mu.
func (cs *conns) victim() (worst *conn) {
	for c := range cs.open {
		if worst == nil || cs.before(c, worst) {
			worst = c
		}
	}
	return worst
}

// before tells whether c is to be closed rather than d. The caller holds mu.
func (cs *conns) before(c, d *conn) bool {
	one, other := c.since.Load(), d.since.Load()
	switch waiting := one > 0; {
	case waiting != (other > 0):
		return waiting
	case !waiting:
		return one > other // both negated
	case cs.by[c.client] != cs.by[d.client]:
		return cs.by[c.client] > cs.by[d.client]
	}
	return one < other
}

// count is how many connections are open, and how many were shed.
func (cs *conns) count() (open int, shed uint64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open), cs.shed
}

// Close may come more than once.
func (c *conn) Close() error {
	c.of.mu.Lock()
	if !c.closed {
		c.closed = true
		delete(c.of.open, c)
		if c.of.by[c.client]--; c.of.by[c.client] == 0 {
			delete(c.of.by, c.client)
		}
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// waits notes that the connection waits for its client from now on, or no longer. A nil
// conn is one of a caller's own server.
func (c *conn) waits(waiting bool) {
	switch since := int64(time.Since(begin)); {
	case c == nil:
	case waiting:
		c.since.Store(since)
	default:
		c.since.Store(-since)
	}
}

type connKey struct{}

// withConn is http.Server's ConnContext: handlers find their connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// connCollector tells of the connections of a listener.
type connCollector struct {
	conns             func() *conns // nil: there is no listener of ours
	open, bound, shed *prometheus.Desc
}

func newConnCollector(of func() *conns) *connCollector {
	return &connCollector{
		conns: of,
		open:  prometheus.NewDesc("weir_connections", "Open connections.", nil, nil),
		bound: prometheus.NewDesc("weir_connections_bound", "Most open connections.", nil, nil),
		shed:  prometheus.NewDesc("weir_connections_shed_total", "Connections that waited for their client and were closed to let others in.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *connCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.open
	out <- c.bound
	out <- c.shed
}

// Collect implements prometheus.Collector.
func (c *connCollector) Collect(out chan<- prometheus.Metric) {
	cs := c.conns()
	if cs == nil {
		return
	}
	open, shed := cs.count()
	out <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(open))
	out <- prometheus.MustNewConstMetric(c.bound, prometheus.GaugeValue, float64(cs.limit))
	out <- prometheus.MustNewConstMetric(c.shed, prometheus.CounterValue, float64(shed))
}
