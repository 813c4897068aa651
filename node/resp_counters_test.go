package node_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// redis is a connection of a client of Redis.
type redis struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func dialRedis(t testing.TB, n *node.Node) *redis {
	t.Helper()
	conn, err := net.Dial("tcp", n.RESPAddr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &redis{t, conn, bufio.NewReader(conn)}
}

// do sends commands together, and returns the replies, each in one line.
func (r *redis) do(commands ...string) (replies []string) {
	r.t.Helper()
	if _, err := io.WriteString(r.conn, strings.Join(commands, "\r\n")+"\r\n"); err != nil {
		r.t.Fatal(err)
	}
	for range commands {
		replies = append(replies, r.reply())
	}
	return replies
}

func (r *redis) reply() string {
	r.t.Helper()
	line, err := r.in.ReadString('\n')
	if err != nil {
		r.t.Fatal(err)
	}
	line = strings.TrimSpace(line)
	var n int
	switch _, _ = fmt.Sscan(line[1:], &n); {
	case line[0] == '$' && n >= 0:
		text := make([]byte, n+2)
		if _, err := io.ReadFull(r.in, text); err != nil {
			r.t.Fatal(err)
		}
		return string(text[:n])
	case line[0] == '*':
		list := make([]string, n)
		for i := range list {
			list[i] = r.reply()
		}
		return fmt.Sprint(list)
	}
	return line
}

// says checks the replies of a client that repeats what a busy cluster refused, and nothing else: a command, or a
// transaction as a whole.
func (r *redis) says(want string, commands ...string) {
	r.t.Helper()
	replies := r.do(commands...)
	for begin := 0; begin < len(commands); {
		end := begin + 1
		if commands[begin] == "MULTI" {
			end = begin + slices.Index(commands[begin:], "EXEC") + 1
		}
		transporttest.Eventually(r.t, fmt.Sprintf("%q is answered", commands[begin:end]), func() bool {
			if !strings.Contains(fmt.Sprint(replies[begin:end]), "-TRYAGAIN") {
				return true
			}
			copy(replies[begin:], r.do(commands[begin:end]...))
			return false
		})
		begin = end
	}
	if got := fmt.Sprint(replies); got != want {
		r.t.Fatalf("%q: %s, want %s", commands, got, want)
	}
}

// Counters of Redis commands survive a restart: totals, and windows with what is left of their time.
func TestCountersSurviveARestart(t *testing.T) {
	t.Parallel()
	cfg := config(t, t.TempDir())
	cfg.RESP.Addr, cfg.RESP.CountPrefix = "127.0.0.1:0", "page:"
	n := nodetest.Open(t, cfg)
	c := dialRedis(t, n)
	c.says("[:5 :1 :1 +OK :1]", "INCRBY page:/home 5", "INCR login:bob", "EXPIRE login:bob 600", "SET gone 1", "DEL gone")
	c.says("[:-2 :1]", "INCRBY page:/home -7", "INCRBY page:/home 3")
	c.do("EVALSHA 51d8e63a380bf7a715e9cc96b2fa6ad9e2e8788b 1 log 1000 60000 5")
	if got := count(t, n, "page:/home"); got != 8 {
		t.Errorf("%d hits, want those of 5 and 3", got)
	}
	long := strings.Repeat("k", 5000)
	c.says("[+OK]", "SET "+long+" 7")
	nodetest.Close(t, n)
	n = nodetest.Open(t, cfg)
	c = dialRedis(t, n)
	c.says("[1 1 $-1 7 :2]", "GET page:/home", "GET login:bob", "GET gone", "GET "+long, "INCR login:bob")
	c.says("[+zset]", "TYPE log")
	var left int
	if _, _ = fmt.Sscanf(c.do("TTL login:bob")[0], ":%d", &left); left < 400 || left > 600 {
		t.Errorf("%d s are left, of 600", left)
	}
	if got := count(t, n, "page:/home"); got != 8 {
		t.Errorf("%d hits after a restart", got)
	}
}

// In a cluster, any node answers for counters, and one of them keeps them: commands, transactions and scripts on any
// keys are one step, a pipeline is one message, and a planned restart loses nothing.
// It is not parallel, because an owner that does not get the processor for a second leaves requests undecided.
func TestCountersOfACluster(t *testing.T) {
	members := transporttest.New(t, 3, nil)
	nodes := make([]*node.Node, 3)
	start := func(i int) {
		cfg := config(t, members.Configs[i].Dir)
		cfg.Journal.Join = members.Configs[i]
		if cfg.RESP.CountPrefix = "page:"; i < 2 { // the third has no clients of Redis
			cfg.RESP.Addr = "127.0.0.1:0"
		}
		var err error
		if nodes[i], err = node.Start(t.Context(), cfg); err != nil {
			t.Error(err)
		}
	}
	var starting sync.WaitGroup
	for i := range nodes {
		starting.Go(func() { start(i) })
	}
	starting.Wait()
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	if t.Failed() {
		t.FailNow()
	}
	clients := []*redis{dialRedis(t, nodes[0]), dialRedis(t, nodes[1])}
	clients[0].says("[:1]", "INCR a")
	clients[1].says("[:2 :1 1 2 [1 $-1 2]]", "INCR a", "INCR b", "GET b", "GET a", "MGET b none a")
	clients[0].says("[+OK +QUEUED +QUEUED +QUEUED +QUEUED +QUEUED [:3 :1 hello :2 -ERR increment or decrement would overflow]]",
		"MULTI", "INCR a", "HIT page:/x", "ECHO hello", "EXISTS a b", "INCRBY a 9223372036854775807", "EXEC")
	clients[1].says("[:1 +PONG :1 :4]", "EXPIRE b 600", "PING", "HIT page:/x", "INCR a")
	// @upstash/ratelimit, a sliding window: two keys.
	clients[1].says("[[:9 :10]]", "EVALSHA 74740bb3d7792848093cdef586b6b6037c455fd6 2 u:2 u:1 10 1000 60000 1")
	clients[0].says("[1]", "GET u:2")
	clients[0].says("[:3 +OK +QUEUED +QUEUED [:2 :0] :0]", "INCRBY page:/x 3", "MULTI", "DEL b u:2 none", "EXISTS b", "EXEC", "DEL b")
	transporttest.Eventually(t, "the hits of both nodes are there", func() bool { return count(t, nodes[0], "page:/x") == 5 })
	transporttest.Eventually(t, "all nodes follow", func() bool {
		return clients[0].do("DBSIZE")[0] == ":2" && fmt.Sprint(clients[1].do("SCAN 0 MATCH a COUNT 1000000")) == "[[0 [a]]]"
	})
	pipeline := make([]string, 300)
	for i := range pipeline {
		pipeline[i] = "INCR piped"
	}
	if replies := clients[1].do(pipeline...); replies[299] != ":300" {
		t.Errorf("the last of a pipeline: %s", replies[299])
	}
	for round, i := range []int{0, 1, 2} {
		nodetest.Close(t, nodes[i])
		start(i)
		if i < 2 {
			clients[i] = dialRedis(t, nodes[i])
		}
		clients[1-round%2].says(fmt.Sprintf("[:%d]", 301+round), "INCR piped")
	}
	clients[0].says("[+OK]", "FLUSHDB")
	clients[1].says("[$-1 :0]", "GET piped", "EXISTS a")
}
