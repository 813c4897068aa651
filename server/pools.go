package server

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/api"
)

// pools are those of all doors. Health and metrics have none: they always answer.
type pools struct {
	hits      *pool // bodies of hits that are there, while they are counted
	uploads   *pool // large bodies while they arrive
	buffered  *pool // bytes of large bodies while they arrive
	durable   *pool // hits that wait for the disk
	decisions *pool
	questions *pool // until their answers are taken
	fresh     *pool // those of them that wait for other nodes
	admin     *pool // stats, cluster and deletes
	backup    *pool
	restore   *pool
}

func newPools(cfg *Config) *pools {
	p := &pools{
		hits:      &pool{name: "hits", what: "requests with hits are counted", raise: "max-in-flight", bound: int64(cfg.MaxInFlight)},
		uploads:   &pool{name: "uploads", what: "large bodies, or bodies of no declared length, arrive", raise: "max-in-flight", bound: int64(cfg.MaxInFlight)},
		buffered:  &pool{name: "buffered_bytes", what: "large bodies arrive", raise: "max-buffered-bytes", bound: cfg.MaxBufferedBytes},
		durable:   &pool{name: "durable", what: "requests wait for the disk, so nothing of this one was counted", raise: "max-durable", bound: int64(cfg.MaxDurable)},
		decisions: &pool{name: "decisions", what: "decisions are made", raise: "max-in-flight", bound: int64(cfg.MaxInFlight)},
		questions: &pool{name: "questions", what: "questions are answered", raise: "max-in-flight", bound: int64(cfg.MaxInFlight)},
		fresh:     &pool{name: "fresh", what: "questions wait for the newest hits of other nodes", raise: "max-in-flight", bound: int64(max(1, cfg.MaxInFlight/maxFresh))},
		admin:     &pool{name: "admin", what: "requests about the server itself, or to delete, are handled", bound: maxAdmin},
		backup:    &pool{name: "backup", bound: 1},
		restore:   &pool{name: "restore", bound: 1},
	}
	for _, slow := range []*pool{p.uploads, p.durable, p.questions, p.admin} {
		slow.shared(1)
	}
	p.buffered.shared(2 * cfg.MaxBodyBytes)
	return p
}

// maxFresh is the part of the questions that may wait for other nodes: while one of these
// is away, those that ask for what is known go on.
const maxFresh = 4

// maxAdmin bounds requests that people and their scripts send.
const maxAdmin = 32

func (p *pools) all() []*pool {
	return []*pool{p.hits, p.uploads, p.buffered, p.durable, p.decisions, p.questions, p.fresh, p.admin, p.backup, p.restore}
}

// of is the pool that a route's requests are in from beginning to end; nil: none, or the
// handler enters some by itself.
func (p *pools) of(pattern string) *pool {
	switch pattern {
	case "GET /healthz", "GET /readyz", "GET /metrics", "/",
		"GET /docs", "GET /docs/page.js", "GET /docs/page.css", "GET /openapi.json", "GET /{$}", "GET /docs/{$}",
		"POST /v1/hits", "POST /v1/allow", "GET /v1/backup", "POST /v1/restore":
		return nil
	case "GET /v1/stats", "GET /v1/cluster", "DELETE /v1/keys/{key}", "DELETE /v1/cluster/nodes/{node}", "DELETE /v1/limits/inline":
		return p.admin
	}
	return p.questions
}

// codeCrowded is the code of a pool that is full.
var codeCrowded = map[string]api.Code{
	"hits": api.CodeOverloaded, "uploads": api.CodeOverloaded, "buffered_bytes": api.CodeOverloaded, "decisions": api.CodeOverloaded,
	"questions": api.CodeOverloaded, "fresh": api.CodeOverloaded, "admin": api.CodeOverloaded, "durable": api.CodeDurableFull, "backup": api.CodeBackupRunning, "restore": api.CodeRestoreRunning,
}

// crowdedFor is how long after its last refusal a pool is called crowded.
const crowdedFor = 15 * time.Second

// alarms are those of pools that refused a moment ago.
func (p *pools) alarms() (list []Alarm) {
	for _, pool := range p.all() {
		if pool == p.backup || pool == p.restore {
			continue // a second one is no fault of the server
		}
		if last := pool.last.Load(); last > 0 && time.Since(time.Unix(0, last)) < crowdedFor {
			list = append(list, Alarm{Code: "crowded_" + pool.name, Message: fmt.Sprintf("requests were refused because too many %s at once: %d of at most %d are in use; others go on. weir_pool_refused_total counts them, --%s is the bound",
				pool.what, pool.inUse.Load(), pool.bound, pool.setting())})
		}
	}
	return list
}

func (p *pool) setting() string {
	if p.raise == "" {
		return "max-in-flight"
	}
	return p.raise
}

// poolCollector tells of all pools.
type poolCollector struct {
	pools                 *pools
	inUse, bound, refused *prometheus.Desc
}

func newPoolCollector(p *pools) *poolCollector {
	label := []string{"pool"}
	return &poolCollector{
		pools:   p,
		inUse:   prometheus.NewDesc("weir_pool_in_use", "Places, or bytes, of a pool that are in use.", label, nil),
		bound:   prometheus.NewDesc("weir_pool_bound", "Places, or bytes, of a pool.", label, nil),
		refused: prometheus.NewDesc("weir_pool_refused_total", "Requests that were refused because a pool, or their client's share of it, was full.", label, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.inUse
	out <- c.bound
	out <- c.refused
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.pools.all() {
		out <- prometheus.MustNewConstMetric(c.inUse, prometheus.GaugeValue, float64(p.inUse.Load()), p.name)
		out <- prometheus.MustNewConstMetric(c.bound, prometheus.GaugeValue, float64(p.bound), p.name)
		out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(p.refused.Load()), p.name)
	}
}

// refusals is how many requests all pools have refused.
func (p *pools) refusals() (n uint64) {
	for _, pool := range p.all() {
		n += pool.refused.Load()
	}
	return n
}
