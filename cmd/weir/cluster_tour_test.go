package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// Four nodes become five, and three, while clients send durable hits and nodes are killed: whoever waits for
// /readyz?alarms=none between the steps never stops a partition's last holder, and each answered hit is counted
// once on every node after each step.
func TestReplicasTour(t *testing.T) {
	t.Parallel()
	g := newGrowing(t, 5)
	g.more = []string{"--replicas", "2", "--move-after", "1s"}
	g.up(4, 0, 1, 2, 3)
	g.awaitNoAlarm("four nodes")

	step := func(what string, loaded []int, do func()) {
		t.Helper()
		g.during(loaded, do)
		g.awaitNoAlarm(what)
		g.wantAll(what)
	}
	kill := func(i, size int) {
		_, _ = g.nodes[i].Swap(nil).end(t, syscall.SIGKILL)
		g.up(size, i)
	}
	step("four nodes, one killed", []int{0, 2}, func() { kill(1, 4) })
	step("a fifth node", []int{0, 1, 2, 3}, func() { g.up(5, 4) })
	step("five nodes, one killed", []int{0, 1, 4}, func() { kill(3, 5) })
	step("without the fifth", []int{0, 1, 2}, func() { g.leave(4) })
	step("without the fourth", []int{0, 1}, func() { g.leave(3) })
	step("three nodes, one killed", []int{0, 1}, func() { kill(2, 5) })
	g.down(0, 1, 2)
}

// leave stops a node for good. The others say meanwhile that what it held lacks a holder.
func (g *growing) leave(i int) {
	g.t.Helper()
	began := time.Now()
	said := make(chan struct{})
	go func() {
		defer close(said)
		transporttest.Eventually(g.t, "the alarm under_replicated", func() bool {
			status, body := g.readyz(0)
			return status == http.StatusServiceUnavailable && strings.Contains(body, `"under_replicated"`)
		})
	}()
	g.down(i)
	<-said
	asked, err := client.New(g.nodes[0].Load().addr, client.Options{Retries: -1})
	if err != nil {
		g.t.Fatal(err)
	}
	transporttest.Eventually(g.t, "a node that left is removed", func() bool {
		_, err := asked.RemoveNode(g.t.Context(), g.name(i))
		return err == nil
	})
	g.awaitNoAlarm(g.name(i) + " left")
	g.t.Logf("%6.2f s until the others hold what %s held", time.Since(began).Seconds(), g.name(i))
}

// awaitNoAlarm waits as a rolling update does.
func (g *growing) awaitNoAlarm(what string) {
	g.t.Helper()
	last := ""
	defer func() {
		if g.t.Failed() {
			g.t.Log(last)
		}
	}()
	transporttest.Eventually(g.t, what+": no node has an alarm", func() bool {
		for i := range g.nodes {
			if g.nodes[i].Load() == nil {
				continue
			}
			status, body := g.readyz(i)
			if status != http.StatusOK {
				last = fmt.Sprintf("%s: %d %s", g.name(i), status, body)
				return false
			}
		}
		return true
	})
}

// readyz asks a node whether nothing is wrong; 0: it does not answer.
func (g *growing) readyz(i int) (status int, body string) {
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "http://"+g.nodes[i].Load().addr+"/readyz?alarms=none", nil)
	if err != nil {
		return 0, ""
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, ""
	}
	return answer.StatusCode, string(data)
}
