package pools

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
)

// Pools are those of all doors. Health and metrics have none: they always answer.
type Pools struct {
	Hits      *Pool // bodies of hits that are there, while they are counted
	Uploads   *Pool // large bodies while they arrive
	Buffered  *Pool // bytes of large bodies while they arrive
	Durable   *Pool // hits that wait for the disk
	Decisions *Pool
	Waiting   *Pool // those of them that wait for their turn
	Questions *Pool // until their answers are taken
	Fresh     *Pool // those of them that wait for other nodes
	Views     *Pool // pages that are open
	Admin     *Pool // stats, cluster and deletes
	Backup    *Pool
	Restore   *Pool
	Export    *Pool
}

// Bounds are of what they are made.
type Bounds struct {
	InFlight      int   // requests of each kind at the same time
	Durable       int   // requests that wait for the disk
	BufferedBytes int64 // of large bodies that arrive
	BodyBytes     int64 // of one body
}

// New makes all pools.
func New(b Bounds) *Pools {
	p := &Pools{
		Hits:      &Pool{name: "hits", code: api.CodeOverloaded, what: "requests with hits are counted", raise: "max-in-flight", bound: int64(b.InFlight)},
		Uploads:   &Pool{name: "uploads", code: api.CodeOverloaded, what: "large bodies, or bodies of no declared length, arrive", raise: "max-in-flight", bound: int64(b.InFlight)},
		Buffered:  &Pool{name: "buffered_bytes", code: api.CodeOverloaded, what: "large bodies arrive", raise: "max-buffered-bytes", bound: b.BufferedBytes},
		Durable:   &Pool{name: "durable", code: api.CodeDurableFull, what: "requests wait for the disk, so nothing of this one was counted", raise: "max-durable", bound: int64(b.Durable)},
		Decisions: &Pool{name: "decisions", code: api.CodeOverloaded, what: "decisions are made", raise: "max-in-flight", bound: int64(b.InFlight)},
		Waiting:   &Pool{name: "waiting", code: api.CodeOverloaded, what: "decisions wait for their turn", raise: "max-in-flight", bound: int64(b.InFlight)},
		Questions: &Pool{name: "questions", code: api.CodeOverloaded, what: "questions are answered", raise: "max-in-flight", bound: int64(b.InFlight)},
		Fresh:     &Pool{name: "fresh", code: api.CodeOverloaded, what: "questions wait for the newest hits of other nodes", raise: "max-in-flight", bound: int64(max(1, b.InFlight/maxFresh))},
		Views:     &Pool{name: "views", code: api.CodeOverloaded, what: "pages are open", raise: "max-in-flight", bound: int64(b.InFlight)},
		Admin:     &Pool{name: "admin", code: api.CodeOverloaded, what: "requests about the server itself, or to delete, are handled", bound: maxAdmin},
		Backup:    &Pool{name: "backup", code: api.CodeBackupRunning, what: "another backup is being taken", bound: 1},
		Export:    &Pool{name: "export", code: api.CodeOverloaded, what: "exports of history are made", bound: maxExports},
		Restore:   &Pool{name: "restore", code: api.CodeRestoreRunning, what: "another backup is being restored", bound: 1},
	}
	for _, slow := range []*Pool{p.Uploads, p.Durable, p.Waiting, p.Questions, p.Views, p.Admin} {
		slow.shared(1)
	}
	p.Buffered.shared(2 * b.BodyBytes)
	return p
}

// maxFresh is the part of the questions that may wait for other nodes: while one of these
// is away, those that ask for what is known go on.
const maxFresh = 4

// maxAdmin bounds requests that people and their scripts send.
const maxAdmin = 32

// maxExports bounds exports of history, each of which reads much of it.
const maxExports = 2

// All lists them.
func (p *Pools) All() []*Pool {
	return []*Pool{p.Hits, p.Uploads, p.Buffered, p.Durable, p.Decisions, p.Waiting, p.Questions, p.Fresh, p.Views, p.Admin, p.Backup, p.Restore, p.Export}
}

// crowdedFor is how long after its last refusal a pool is called crowded.
const crowdedFor = 15 * time.Second

// Alarms are those of pools that refused a moment ago.
func (p *Pools) Alarms() (list []api.Alarm) {
	for _, pool := range p.All() {
		if pool == p.Backup || pool == p.Restore {
			continue // a second one is no fault of the server
		}
		if last := pool.last.Load(); last > 0 && time.Since(time.Unix(0, last)) < crowdedFor {
			list = append(list, api.Alarm{Code: "crowded_" + pool.name, Message: fmt.Sprintf("requests were refused because too many %s at once: %d of at most %d are in use; others go on. weir_pool_refused_total counts them, --%s is the bound",
				pool.what, pool.inUse.Load(), pool.bound, pool.setting())})
		}
	}
	return list
}

func (p *Pool) setting() string {
	if p.raise == "" {
		return "max-in-flight"
	}
	return p.raise
}

// Refusals is how many requests all pools have refused.
func (p *Pools) Refusals() (n uint64) {
	for _, pool := range p.All() {
		n += pool.refused.Load()
	}
	return n
}
