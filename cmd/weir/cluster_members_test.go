package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// members are nodes of a cluster whose number changes.
type members struct {
	t     *testing.T
	addrs []string // cluster ports
	dirs  []string
	nodes []*process // nil: it does not run
}

func (m *members) name(i int) string { return fmt.Sprint("n", i+1) }

// launch starts a node that knows the first known ones.
func (m *members) launch(i, known int) {
	m.t.Helper()
	m.nodes[i] = launch(m.t, m.dirs[i], "--cluster", "test", "--cluster-secret-file", secretFile(m.t), "--node", m.name(i), "--cluster-addr", m.addrs[i], "--peers", strings.Join(m.addrs[:known], ","))
}

// serving waits until a node does.
func (m *members) serving(i int) {
	m.t.Helper()
	p := m.nodes[i]
	if p.addr = <-p.serving; p.addr == "" {
		m.t.Fatalf("%s did not start:\n%s", m.name(i), <-p.log)
	}
}

func (m *members) kill(i int) {
	m.t.Helper()
	if _, err := m.nodes[i].end(m.t, syscall.SIGKILL); err == nil {
		m.t.Fatal("the process ended well in spite of SIGKILL")
	}
	m.nodes[i] = nil
}

// stop stops nodes at the same time: the last flush of each needs others.
func (m *members) stop(nodes ...int) {
	m.t.Helper()
	var stopping sync.WaitGroup
	for _, i := range nodes {
		p := m.nodes[i]
		m.nodes[i] = nil
		stopping.Go(func() {
			if log, err := p.end(m.t, syscall.SIGTERM); err != nil {
				m.t.Errorf("%s: %v\n%s", m.name(i), err, log)
			}
		})
	}
	stopping.Wait()
}

// settled waits until all nodes that run see a cluster of that size, with nobody late
// and answers that are of now.
func (m *members) settled(what string, size int) {
	m.t.Helper()
	began := time.Now()
	transporttest.Eventually(m.t, what, func() bool {
		for _, p := range m.nodes {
			if p == nil {
				continue
			}
			c, err := client.New(p.addr, client.Options{Retries: -1})
			if err != nil {
				m.t.Fatal(err)
			}
			if is, err := c.Cluster(m.t.Context()); err != nil || is.Size != size || len(is.Late) > 0 || is.Now.Sub(is.AsOf.Time) > 3*time.Second {
				return false
			}
		}
		return true
	})
	m.t.Logf("%5.2f s until %s", time.Since(began).Seconds(), what)
}

// count waits until all nodes give these totals.
func (m *members) count(want map[string]uint64) {
	m.t.Helper()
	for i, p := range m.nodes {
		transporttest.Eventually(m.t, m.name(i)+" counts all", func() bool {
			for key, n := range want {
				if p.count(m.t, key) != n {
					return false
				}
			}
			return true
		})
	}
}

// writer sends durable hits of one key to a node until stop, each until it is answered, with
// the pause of -cluster-pace between them.
func (p *process) writer(t *testing.T, key string, stop *atomic.Bool) (answered uint64) {
	for ; !stop.Load(); answered++ {
		<-time.After(*clusterPace)
		id, end := fmt.Sprintf("%s-%d", key, answered), time.Now().Add(transporttest.Patience)
		for !p.post(key, 1, id, true) {
			if time.Now().After(end) {
				t.Errorf("%s: no durable hit within %v", key, transporttest.Patience)
				return answered
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	return answered
}

func (p *process) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + p.addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Three nodes become four, under hits; one dies and is removed, so that of the other
// three one more may die; it comes back nevertheless, and is served by the three; all
// are started again. Every durable hit that was answered is counted once.
func TestAnotherNumberOfNodes(t *testing.T) {
	t.Parallel()
	m := &members{t: t, addrs: transporttest.Addrs(t, 4), nodes: make([]*process, 4)}
	for range 4 {
		m.dirs = append(m.dirs, t.TempDir())
	}

	m.launch(0, 3)
	first := m.nodes[0]
	first.addr = <-first.listening
	transporttest.Eventually(t, "it says who it waits for", func() bool {
		_, body := first.get(t, "/healthz")
		return strings.Contains(body, "1 of 3 nodes are running (n1)")
	})
	if status, body := first.get(t, "/healthz"); status != http.StatusOK || !strings.Contains(body, `"status":"joining"`) {
		t.Errorf("/healthz while joining: %d %s", status, body)
	}
	if status, body := first.get(t, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "1 of 3 nodes are running (n1)") {
		t.Errorf("/readyz while joining: %d %s", status, body)
	}
	m.launch(1, 3)
	m.launch(2, 3)
	for i := range 3 {
		m.serving(i)
	}
	m.settled("three nodes are here", 3)

	var stop atomic.Bool
	var answered [2]uint64
	var writing sync.WaitGroup
	for i := range answered {
		p := m.nodes[i]
		writing.Go(func() { answered[i] = p.writer(t, m.name(i), &stop) })
	}
	began := time.Now()
	m.launch(3, 4)
	m.serving(3)
	t.Logf("%5.2f s until the fourth node serves", time.Since(began).Seconds())
	m.settled("four nodes are here", 4)

	remove := func(node string) (int, string) {
		code, stdout, stderr := weirOf(t, nil, "", "cluster", "remove", node, "--server", m.nodes[3].addr)
		return code, stdout + stderr
	}
	if code, out := remove("n3"); code != exitFailure || !strings.Contains(out, "n3") || !strings.Contains(out, "is running") {
		t.Errorf("remove a node that runs: exit %d, %s", code, out)
	}
	if code, out := remove("n9"); code != exitFailure || !strings.Contains(out, "n9") {
		t.Errorf("remove nobody: exit %d, %s", code, out)
	}
	m.kill(2)
	began = time.Now()
	var out string
	transporttest.Eventually(t, "the dead node is removed", func() bool {
		var code int
		code, out = remove("n3")
		return code == exitOK
	})
	t.Logf("%5.2f s until it was removed:\n%s", time.Since(began).Seconds(), out)
	if !strings.Contains(out, "quorums are counted without it") || !strings.Contains(out, "WEIR_JOURNAL") || strings.Contains(out, "n3,") {
		t.Errorf("removed:\n%s", out)
	}
	m.settled("nobody waits for it", 3)
	stop.Store(true)
	writing.Wait()

	// Of n1, n2 and n4 one more may die.
	m.kill(1)
	if !m.nodes[0].post("after", 1, "", true) || !m.nodes[3].post("after", 1, "", true) {
		t.Error("two of three took no durable hit")
	}
	m.launch(1, 4)
	m.serving(1)
	m.stop(0)
	m.launch(0, 4) // with the longer list
	m.serving(0)
	m.settled("three are here again", 3)

	m.launch(2, 3)
	m.serving(2)
	if !m.nodes[2].post("after", 1, "", true) {
		t.Error("the node that came back took no hit")
	}
	m.count(map[string]uint64{"n1": answered[0], "n2": answered[1], "after": 3})
	transporttest.Eventually(t, "it is waited for again", func() bool {
		_, body := m.nodes[0].get(t, "/v1/cluster")
		return !strings.Contains(body, `"left":true`) && !strings.Contains(body, `"late":true`)
	})
	t.Logf("%d and %d durable hits", answered[0], answered[1])
	m.stop(0, 1, 2, 3)

	for i, known := range []int{4, 4, 3, 4} { // all again
		m.launch(i, known)
	}
	for i := range m.nodes {
		m.serving(i)
	}
	m.count(map[string]uint64{"n1": answered[0], "n2": answered[1], "after": 3})
	m.stop(0, 1, 2, 3)
}

// A node is cut off, and removed as if it were dead. It is not, and comes back: what
// it counted meanwhile is counted by all, and so is what it takes from then on.
func TestRemovedWhileCutOff(t *testing.T) {
	t.Parallel()
	c := newProcesses(t)
	c.start(0, 1, 2)
	c.converge("start")
	c.network.Cut("n3", true)
	if !c.nodes[2].Load().post("alone", 1, "", false) {
		t.Fatal("n3 took no hit")
	}
	began := time.Now()
	transporttest.Eventually(t, "n3 is removed", func() bool {
		code, stdout, _ := weirOf(t, nil, "", "cluster", "remove", "n3", "--server", c.nodes[0].Load().addr)
		return code == exitOK && strings.Contains(stdout, "quorums are counted without it")
	})
	t.Logf("%5.2f s until it was removed", time.Since(began).Seconds())
	c.network.Cut("n3", false)
	transporttest.Eventually(t, "what it counted alone is counted by all", func() bool {
		for _, n := range c.counts("alone") {
			if n != 1 {
				return false
			}
		}
		return true
	})
	t.Logf("%5.2f s until all agree", c.converge("it is back").Seconds())
	c.stop(2)
	c.start(2)
	t.Logf("%5.2f s until all agree after its restart", c.converge("it is back").Seconds())
	c.stop(0, 1, 2)
}
