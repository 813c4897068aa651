package access

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy"
)

// Listener serves a protocol, and has figures and alarms of its own. It is attached (Attach), so that health and
// metrics, which another listener serves, have them too.
type Listener interface {
	Figures() ListenerFigures
	Alarms() []api.Alarm
}

// ListenerFigures are the figures of a listener, since its start.
type ListenerFigures struct {
	Name   string `label:"listener"` // of its protocol
	Open   int    `metric:"weir_listener_connections" doc:"Open connections."`
	Bound  int    `metric:"weir_listener_connections_bound" doc:"Most open connections."`
	Shed   uint64 `metric:"weir_listener_connections_shed_total" doc:"Connections that waited for their client and were closed to let others in."`
	Failed uint64 `metric:"weir_listener_requests_failed_total" doc:"Requests that were answered with an error."`

	Requests []ListenerRequests
	Now      []ListenerRequests // what lasts longer than a request and is open, by kind
	Rejected []ListenerRequests // parts of requests that were not taken, by reason, of listeners that can't answer their clients

	// Nil: the listener has none, or the system does not know.
	Lag     *uint64 `metric:"weir_listener_lag_messages" doc:"Uncounted messages of a topic (--from) in the partitions that this node reads."`
	Packets *uint64 `metric:"weir_listener_datagrams_total" doc:"Datagrams received."`
	Dropped *uint64 `metric:"weir_listener_datagrams_dropped_total" doc:"Datagrams that the kernel dropped because the buffer was full."`

	// Of counters that the listener keeps by itself.
	Keys       int64  `metric:"weir_listener_counters" doc:"Counters with an expiry, including expired ones that were not removed yet."`
	Bytes      int64  `metric:"weir_listener_counters_bytes" doc:"Memory of these counters."`
	BytesBound int64  `metric:"weir_listener_counters_bytes_bound" doc:"Most memory of these counters."`
	Refused    uint64 `metric:"weir_listener_counters_refused_total" doc:"New counters that were refused because memory was full."`
}

// ListenerRequests is how many requests of a kind there were.
type ListenerRequests struct {
	Kind  string // bounded: those that the listener knows, and "unknown"
	Count uint64
}

// ListenerLimited is a Listener that has limits of its own, in addition to the policies of the file.
type ListenerLimited interface {
	// Limits lists them as policies, whose Keys and By are for people to read.
	Limits() []policy.Policy
}

// ListenerList is the listeners that are attached. It does not change once they answer.
type ListenerList struct {
	all  []Listener
	time func(listener, command string) Timer // nil: nobody wants to know
}

// Timer takes the time that a request took, with the ID of its trace, or "".
type Timer func(took time.Duration, trace string)

// TimeRequests has Timer return what f does. It comes before the listeners are created.
func (l *ListenerList) TimeRequests(f func(listener, command string) Timer) { l.time = f }

// Timer returns what takes the times of a listener's command.
func (l *ListenerList) Timer(listener, command string) Timer {
	if l.time == nil {
		return func(time.Duration, string) {}
	}
	return l.time(listener, command)
}

func (l *ListenerList) Attach(d Listener) { l.all = append(l.all, d) }

func (l *ListenerList) Figures() (list []ListenerFigures) {
	for _, d := range l.all {
		list = append(list, d.Figures())
	}
	return list
}

func (l *ListenerList) Alarms() (list []api.Alarm) {
	for _, d := range l.all {
		list = append(list, d.Alarms()...)
	}
	return list
}

type ListenerLimit struct {
	policy.Policy
	Listener string // its name
}

// Limits are those that listeners have of their own.
func (l *ListenerList) Limits() (list []ListenerLimit) {
	for _, d := range l.all {
		limited, has := d.(ListenerLimited)
		if !has {
			continue
		}
		name := d.Figures().Name
		for _, p := range limited.Limits() {
			list = append(list, ListenerLimit{p, name})
		}
	}
	return list
}

// Pools bound what may be under way at once at all listeners together: requests of each kind, and bytes of large
// bodies.
//
// Invariants: a pool never has more in use than its bound. Of a pool that lasts as long as a client likes one caller
// has no more than its share, so that a client that fills one leaves others their answers. A request that does not fit
// is refused at once and counted, never queued.
//
// A listener takes a place before the work and gives it back when the client has its answer.

// Pool bounds what may be under way at once at one listener: places, or bytes. Listeners have pools of their own, so
// that clients who fill one do not stop the others. A pool whose work lasts as long as a client likes also bounds what one
// client, an identity or an address, may occupy: three quarters. The last quarter is for other clients. Clients behind one
// proxy, which share an address, lose no more than that.
type Pool struct {
	name  string
	what  string   // that is full, for messages; of a bound of 1 what is under way
	fixed bool     // --max-in-flight does not make it larger
	code  api.Code // of a caller that is refused
	bound int64
	share int64 // for one client address; 0: no bound

	inUse   atomic.Int64
	refused atomic.Uint64
	last    atomic.Int64 // when it last refused, ns of the Unix epoch; 0: never

	mu sync.Mutex
	by CallerCounts // of those with something in use; only with a share
}

// shared gives a pool its share of one client, at least least.
func (p *Pool) shared(least int64) *Pool {
	p.share, p.by = max(p.bound-p.bound/4, least), CallerCounts{}
	return p
}

// Enter takes n of the pool for a client, or fails when the pool is full. Leave must follow if it did not fail.
func (p *Pool) Enter(client Caller, n int64) error {
	if p.inUse.Add(n) > p.bound || !p.enterShare(client, n) {
		p.inUse.Add(-n)
		p.refused.Add(1)
		p.last.Store(time.Now().UnixNano())
		return p.full()
	}
	return nil
}

func (p *Pool) enterShare(client Caller, n int64) bool {
	if p.share == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by.Of(client)+n > p.share {
		return false
	}
	p.by.Add(client, n)
	return true
}

// Leave gives n back.
func (p *Pool) Leave(client Caller, n int64) {
	p.inUse.Add(-n)
	if p.share == 0 || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by.Add(client, -n)
}

// full is the error of a caller that is refused.
func (p *Pool) full() error {
	if p.bound == 1 && p.fixed {
		return &api.Error{Code: p.code, Message: p.what + ", and there is one at a time: wait for its end"}
	}
	detail := "too many " + p.what + " at once: try again later"
	if !p.fixed {
		detail += ", or start the server with a larger --max-in-flight"
	}
	return &api.Error{Code: p.code, Message: detail}
}

type PoolFigures struct {
	Name    string `label:"pool"`
	InUse   int64  `metric:"weir_pool_in_use" doc:"Places, or bytes, of a pool that are in use."`
	Bound   int64  `metric:"weir_pool_bound" doc:"Places, or bytes, of a pool."`
	Share   int64  // the most for one client; 0: all
	Refused uint64 `metric:"weir_pool_refused_total" doc:"Requests that were refused because a pool, or the client's share of the pool, was full."`
}

func (p *Pool) Stats() PoolFigures {
	return PoolFigures{p.name, p.inUse.Load(), p.bound, p.share, p.refused.Load()}
}

// Within does what takes one place of a pool.
func (p *Pool) Within(client Caller, do func() error) error {
	if err := p.Enter(client, 1); err != nil {
		return err
	}
	defer p.Leave(client, 1)
	return do()
}

// Pools are for all listeners. Health and metrics have none: they always answer.
type Pools struct {
	Hits      *Pool // bodies of hits that are there, while they are counted
	Uploads   *Pool // large bodies while they arrive
	Buffered  *Pool // bytes of large bodies while they arrive
	Durable   *Pool // hits that wait for the disk
	Decisions *Pool
	Waiting   *Pool // decisions that wait for their turn
	Questions *Pool // until their answers are taken
	Fresh     *Pool // questions that wait for other nodes
	Admin     *Pool // stats, cluster and deletes
	Backup    *Pool
	Restore   *Pool
	Export    *Pool
}

// PoolBounds are of what they are made.
type PoolBounds struct {
	InFlight      int   // requests of each kind at the same time
	Durable       int   // requests that wait for the disk
	BufferedBytes int64 // of large bodies that arrive
	BodyBytes     int64 // of one body
}

func NewPools(b PoolBounds) *Pools {
	p := &Pools{
		Hits:      &Pool{name: "hits", code: api.CodeOverloaded, what: "requests with hits are counted", bound: int64(b.InFlight)},
		Uploads:   &Pool{name: "uploads", code: api.CodeOverloaded, what: "large bodies, or bodies of no declared length, arrive", bound: int64(b.InFlight)},
		Buffered:  &Pool{name: "buffered_bytes", code: api.CodeOverloaded, what: "large bodies arrive", bound: b.BufferedBytes},
		Durable:   &Pool{name: "durable", code: api.CodeDurableFull, what: "requests wait for the disk, so nothing of this one was counted", bound: int64(b.Durable)},
		Decisions: &Pool{name: "decisions", code: api.CodeOverloaded, what: "decisions are made", bound: int64(b.InFlight)},
		Waiting:   &Pool{name: "waiting", code: api.CodeOverloaded, what: "decisions wait for their turn", bound: int64(b.InFlight)},
		Questions: &Pool{name: "questions", code: api.CodeOverloaded, what: "questions are answered", bound: int64(b.InFlight)},
		Fresh:     &Pool{name: "fresh", code: api.CodeOverloaded, what: "questions wait for the newest hits of other nodes", bound: int64(max(1, b.InFlight/maxFresh))},
		Admin:     &Pool{name: "admin", code: api.CodeOverloaded, what: "requests about the server itself, or to delete, are handled", fixed: true, bound: maxAdmin},
		Backup:    &Pool{name: "backup", code: api.CodeBackupRunning, what: "another backup is being taken", fixed: true, bound: 1},
		Export:    &Pool{name: "export", code: api.CodeOverloaded, what: "exports of history are made", fixed: true, bound: maxExports},
		Restore:   &Pool{name: "restore", code: api.CodeRestoreRunning, what: "another backup is being restored", fixed: true, bound: 1},
	}
	for _, slow := range []*Pool{p.Uploads, p.Durable, p.Waiting, p.Questions, p.Admin} {
		slow.shared(1)
	}
	p.Buffered.shared(2 * b.BodyBytes)
	return p
}

// maxFresh is the part of the questions that may wait for other nodes: while such a node
// is unreachable, questions that this node can answer go on.
const maxFresh = 4

// maxAdmin bounds requests that people and their scripts send.
const maxAdmin = 32

// maxExports bounds exports of history, each of which reads much of it.
const maxExports = 2

// All lists them.
func (p *Pools) All() []*Pool {
	return []*Pool{p.Hits, p.Uploads, p.Buffered, p.Durable, p.Decisions, p.Waiting, p.Questions, p.Fresh, p.Admin, p.Backup, p.Restore, p.Export}
}

// crowdedFor is how long after its last refusal a pool is called crowded.
const crowdedFor = 15 * time.Second

// Alarms are raised by pools that refused a moment ago.
func (p *Pools) Alarms() (list []api.Alarm) {
	for _, pool := range p.All() {
		if pool == p.Backup || pool == p.Restore {
			continue // a second one is no fault of the server
		}
		if last := pool.last.Load(); last > 0 && time.Since(time.Unix(0, last)) < crowdedFor {
			list = append(list, api.Alarm{Code: "crowded_" + pool.name, Message: fmt.Sprintf("requests were refused because too many %s at once: %d of at most %d are in use; others go on. weir_pool_refused_total counts them, --max-in-flight is the bound",
				pool.what, pool.inUse.Load(), pool.bound)})
		}
	}
	return list
}

// Stats are the figures of all pools.
func (p *Pools) Stats() (list []PoolFigures) {
	for _, pool := range p.All() {
		list = append(list, pool.Stats())
	}
	return list
}
