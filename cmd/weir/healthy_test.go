package main

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// readiness is what /readyz says.
type readiness struct {
	code   int
	Status any // "ok" or "degraded"; of a problem document the number
	Alarms []api.Alarm
}

func (r readiness) alarm(code, words string) bool {
	return slices.ContainsFunc(r.Alarms, func(a api.Alarm) bool { return a.Code == code && strings.Contains(a.Message, words) })
}

// ready asks a process for its health; ok is false if it does not answer.
func (p *process) ready() (r readiness, ok bool) {
	resp, err := http.Get("http://" + p.addr + "/readyz")
	if err != nil {
		return r, false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	r.code = resp.StatusCode
	return r, err == nil && json.Unmarshal(body, &r) == nil
}

// ready is that of a node of the cluster.
func (c *processes) ready(i int) (r readiness, ok bool) {
	if p := c.nodes[i].Load(); p != nil {
		return p.ready()
	}
	return r, false
}

// wantAlarm waits until a node says that something is wrong: in /readyz, in its metrics
// and in its view of the cluster.
func (c *processes) wantAlarm(i int, code, words string) {
	c.t.Helper()
	transporttest.Eventually(c.t, c.name(i)+" has the alarm "+code+" of "+words, func() bool {
		r, ok := c.ready(i)
		return ok && r.alarm(code, words)
	})
	var metrics string
	transporttest.Eventually(c.t, c.name(i)+" has metrics", func() bool {
		metrics = ""
		if p := c.nodes[i].Load(); p != nil {
			if resp, err := http.Get("http://" + p.addr + "/metrics"); err == nil {
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				metrics = string(body)
			}
		}
		return metrics != ""
	})
	if !strings.Contains(metrics, `weir_alarm{code="`+code+`"} 1`) {
		c.t.Errorf("%s: no metric of the alarm %s", c.name(i), code)
	}
	if cluster, ok := c.cluster(i); !ok || !slices.ContainsFunc(cluster.Alarms, func(a api.Alarm) bool { return a.Code == code }) {
		c.t.Errorf("%s: GET /v1/cluster has no alarm %s: %+v", c.name(i), code, cluster.Alarms)
	}
}

// healthy is the oracle of every fault: once it is over, all nodes take durable hits,
// count the same, call nobody late, and have no alarm, within a minute, by themselves.
// It returns how long that took.
func (c *processes) healthy(what string) time.Duration {
	c.t.Helper()
	began := time.Now()
	c.converge(what)
	last := make([]readiness, len(c.nodes))
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%s: the nodes last said %+v", what, last)
		}
	}()
	transporttest.Eventually(c.t, what+": no node has an alarm", func() bool {
		for i := range c.nodes {
			var ok bool
			if last[i], ok = c.ready(i); !ok || last[i].code != http.StatusOK || last[i].Status != "ok" || len(last[i].Alarms) > 0 {
				return false
			}
		}
		return true
	})
	took := time.Since(began)
	c.t.Logf("%6.2f s until healthy: %s", took.Seconds(), what)
	return took
}

// wantEqual wants a key's hits to be as many on all nodes.
func (c *processes) wantEqual(t *testing.T, key string, want uint64) {
	t.Helper()
	transporttest.Eventually(t, key+" is counted equally", func() bool {
		return !slices.ContainsFunc(c.counts(key), func(n uint64) bool { return n != want })
	})
}

var lostEntries = regexp.MustCompile(`([0-9]+) entries .*lost`)

// wantLost wants a log to end with how many entries are lost, at least so many.
func wantLost(t *testing.T, log string, least int) {
	t.Helper()
	said := lostEntries.FindStringSubmatch(log)
	if said == nil {
		t.Errorf("nothing is said of what is lost:\n%s", log)
		return
	}
	if n, err := strconv.Atoi(said[1]); err != nil || n < least {
		t.Errorf("it says that %s entries are lost, of at least %d", said[1], least)
	}
}
