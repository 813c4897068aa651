package node_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

const clockPolicies = `limits:
  - {name: hourly, keys: "h:*", limit: 6, per: 1h, where: strict}
  - {name: ring, keys: "r:*", limit: 3, per: 1s, where: strict}
`

// clocked is three nodes of a cluster whose times of day are set, and whose monotonic clocks go on.
type clocked struct {
	t     *testing.T
	nodes []*node.Node
	off   [3]atomic.Int64 // ns by which each is ahead

	asked     atomic.Int64 // requests of ask that were admitted
	undecided int          // requests that nobody decided, of which some may be used up
}

func startClocked(t *testing.T) *clocked {
	t.Helper()
	c := &clocked{t: t, nodes: make([]*node.Node, 3)}
	members := transporttest.New(t, 3, nil)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte(clockPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	t.Cleanup(func() { nodetest.Close(t, c.nodes...) })
	startNodes(t, c.nodes, members, func(i int, cfg *node.Config) {
		cfg.Policies.File = file
		cfg.Engine.Now = func() time.Time { return time.Now().Add(time.Duration(c.off[i].Load())) }
		cfg.Engine.Elapsed = func() time.Duration { return time.Since(begin) }
	})
	return c
}

// set sets the times of day.
func (c *clocked) set(ahead ...time.Duration) {
	for i, by := range ahead {
		c.off[i].Store(int64(by))
	}
}

// take asks a node for one admission.
func (c *clocked) take(i int, key string) (status int, answer api.AllowAnswer, err error) {
	r, err := http.Post("http://"+c.nodes[i].Addr()+"/v1/allow", "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key)))
	if err != nil {
		return 0, answer, err
	}
	defer r.Body.Close()
	return r.StatusCode, answer, json.NewDecoder(r.Body).Decode(&answer)
}

// decided asks until some node decides, and returns whether the request was admitted.
func (c *clocked) decided(i int, key string) (admitted bool) {
	c.t.Helper()
	transporttest.Eventually(c.t, fmt.Sprintf("node %d has %s decided", i+1, key), func() bool {
		status, answer, err := c.take(i, key)
		if status == http.StatusServiceUnavailable {
			c.undecided++
			return false
		}
		if err != nil || len(answer.Limits) != 1 {
			c.t.Fatalf("%d, %+v, %v", status, answer, err)
		}
		if answer.Allowed != (status == http.StatusOK) || !answer.Allowed && status != http.StatusTooManyRequests {
			c.t.Fatalf("%d for %+v", status, answer)
		}
		admitted = answer.Allowed
		return true
	})
	return admitted
}

// says tells whether /readyz, the cluster's answer and the metrics of a node have an alarm.
func (c *clocked) says(i int, code string) (ready, cluster, metric bool) {
	c.t.Helper()
	get := func(path string) []byte {
		r, err := http.Get("http://" + c.nodes[i].Addr() + path)
		if err != nil {
			c.t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK { // a node whose clock is wrong still counts
			c.t.Fatalf("%s: %d %s, %v", path, r.StatusCode, body, err)
		}
		return body
	}
	named := func(alarms []api.Alarm) bool {
		return slices.ContainsFunc(alarms, func(a api.Alarm) bool { return a.Code == code && strings.Contains(a.Message, "NTP") })
	}
	var is api.Ready
	if err := json.Unmarshal(get("/readyz"), &is); err != nil {
		c.t.Fatal(err)
	}
	var answer struct{ Alarms []api.Alarm }
	if err := json.Unmarshal(get("/v1/cluster"), &answer); err != nil {
		c.t.Fatal(err)
	}
	return named(is.Alarms) && is.Status == "degraded", named(answer.Alarms), bytes.Contains(get("/metrics"), []byte(`weir_alarm{code="`+code+`"} 1`))
}

// want waits until a node says that it has an alarm in all places, or in none.
func (c *clocked) want(i int, code string, want bool) {
	c.t.Helper()
	transporttest.Eventually(c.t, fmt.Sprintf("node %d says %s: %v", i+1, code, want), func() bool {
		ready, cluster, metric := c.says(i, code)
		return ready == want && cluster == want && metric == want
	})
}

// Three nodes whose clocks differ by seconds, so that nobody knows the time: strict limits
// refuse, and each node says why. When the clocks are right again they are decided, and know what
// was admitted before. While only one clock is wrong, its node says so and all is decided. A
// limit is never over, whatever the clocks show and whenever they are set.
func TestStrictLimitsWhileClocksDiffer(t *testing.T) {
	t.Parallel()
	c := startClocked(t)
	over := make(chan struct{})
	var asking sync.WaitGroup
	asked := [3][]answered{}
	for i := range c.nodes {
		asking.Go(func() { asked[i] = c.ask(i, "r:all", over) })
	}
	admitted := 0
	takeAll := func(times int) {
		t.Helper()
		for range times {
			for i := range c.nodes {
				if c.decided(i, "h:1") {
					admitted++
				}
			}
		}
	}
	for i := range c.nodes { // each has a holder to ask
		c.decided(i, "h:0")
	}
	c.undecided = 0
	takeAll(1)
	if admitted > 3 || admitted+c.undecided < 3 {
		t.Errorf("%d of the first 3 admitted, and %d undecided", admitted, c.undecided)
	}

	c.set(0, 10*time.Second, -10*time.Second)
	for i := range c.nodes {
		c.want(i, "clocks_differ", true)
	}
	for range 3 {
		for i := range c.nodes {
			status, answer, err := c.take(i, "h:1")
			if status != http.StatusServiceUnavailable || answer.Allowed {
				t.Errorf("node %d, while nobody knows the time: %d %+v, %v", i+1, status, answer, err)
			}
		}
	}

	c.set(0, 0, -10*time.Second)
	c.want(2, "clock_wrong", true)
	for i := range c.nodes {
		c.want(i, "clocks_differ", false)
	}
	takeAll(1)

	c.set(0, 0, 0)
	c.want(2, "clock_wrong", false)
	takeAll(3)
	if admitted > 6 || admitted+c.undecided < 6 { // one whose answer was lost is used up nevertheless
		t.Errorf("%d of 6 an hour admitted, and %d undecided", admitted, c.undecided)
	}
	transporttest.Eventually(t, "enough are admitted to show something", func() bool { return c.asked.Load() >= 9 })
	close(over)
	asking.Wait()
	neverOver(t, slices.Concat(asked[:]...), 3, time.Second)
}

// answered is an admission that was made between two times.
type answered struct{ sent, answered time.Time }

// ask asks a node without a pause, until over is closed, and returns what was admitted.
func (c *clocked) ask(i int, key string, over <-chan struct{}) (admitted []answered) {
	for {
		sent := time.Now()
		_, answer, err := c.take(i, key)
		if err != nil {
			c.t.Error(err)
			return admitted
		}
		if answer.Allowed {
			admitted = append(admitted, answered{sent, time.Now()})
			c.asked.Add(1)
		}
		select {
		case <-over:
			return admitted
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// neverOver fails if more than burst certainly were admitted within an interval that begins
// with one of them.
func neverOver(t *testing.T, admitted []answered, burst int, interval time.Duration) {
	t.Helper()
	if len(admitted) < 3*burst {
		t.Errorf("only %d admitted: that shows little", len(admitted))
	}
	for _, first := range admitted {
		within := 0
		for _, a := range admitted {
			if !a.sent.Before(first.sent) && a.answered.Before(first.sent.Add(interval)) {
				within++
			}
		}
		if within > burst {
			t.Errorf("%d of %d admitted within %v", within, burst, interval)
		}
	}
}
