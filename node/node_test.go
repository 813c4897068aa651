package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// config is of a node alone that keeps its hits in dir.
func config(t *testing.T, dir string) node.Config {
	return node.Config{
		Engine:  weir.Config{Memory: 32 << 20, LimitMemory: 8 << 20},
		Journal: durable.Config{Dir: dir, MaxBytes: 256 << 20},
		HTTP:    httpapi.Config{Addr: "127.0.0.1:0"},
		Logger:  transporttest.Logger(t, slog.LevelError),
	}
}

// startNodes starts nodes of a cluster side by side: those of these places, or all. change, if not nil, may change a node's configuration before.
func startNodes(t *testing.T, nodes []*node.Node, members *transporttest.Cluster, change func(i int, cfg *node.Config), places ...int) {
	t.Helper()
	var starting sync.WaitGroup
	for i := range nodes {
		if len(places) > 0 && !slices.Contains(places, i) {
			continue
		}
		cfg := config(t, members.Configs[i].Dir)
		cfg.Journal.Join = members.Configs[i]
		if change != nil {
			change(i, &cfg)
		}
		starting.Go(func() {
			var err error
			if nodes[i], err = node.Start(t.Context(), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	if starting.Wait(); t.Failed() {
		t.FailNow()
	}
}

func ask(t *testing.T, n *node.Node) *client.Client {
	t.Helper()
	c, err := client.New(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func hit(t *testing.T, n *node.Node, key string, times uint64) {
	t.Helper()
	if _, err := ask(t, n).Send(t.Context(), []client.Hit{{Key: key, N: times}}); err != nil {
		t.Fatal(err)
	}
}

// count is the hits of the last hour, all that any node has.
func count(t *testing.T, n *node.Node, key string) uint64 {
	t.Helper()
	counts, err := ask(t, n).Count(t.Context(), client.CountQuery{Keys: []string{key}, Windows: []time.Duration{time.Hour}, Fresh: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return counts[0].Estimate
}

// What was hit is there after a stop and another start, by whichever listener it came.
func TestANodeStartsAgainWithItsCounts(t *testing.T) {
	t.Parallel()
	cfg := config(t, t.TempDir())
	for life := range uint64(2) {
		n := nodetest.Open(t, cfg)
		if got := count(t, n, "a"); got != 3*life {
			t.Errorf("life %d began with %d", life, got)
		}
		hit(t, n, "a", 2)
		if err := n.Engine().Hit("a"); err != nil {
			t.Fatal(err)
		}
		if n.Err() != nil {
			t.Error(n.Err())
		}
		nodetest.Close(t, n)
		select {
		case <-n.Done():
		default:
			t.Error("a node that is closed is not done")
		}
		if n.Err() != nil {
			t.Error("a node that was closed has failed", n.Err())
		}
		if _, err := http.Get("http://" + n.Addr() + "/healthz"); err == nil {
			t.Error("a node that is closed answers")
		}
		nodetest.Close(t, n) // again: the same
	}
}

// An ephemeral node has no directory, and forgets.
func TestAnEphemeralNode(t *testing.T) {
	t.Parallel()
	cfg := config(t, "")
	cfg.Ephemeral = true
	for range 2 {
		n := nodetest.Open(t, cfg)
		if got := count(t, n, "a"); got != 0 {
			t.Errorf("it began with %d", got)
		}
		hit(t, n, "a", 1)
		if got := count(t, n, "a"); got != 1 {
			t.Errorf("%d hits of one", got)
		}
		nodetest.Close(t, n)
	}
}

// Three nodes of one process are a cluster: each takes hits and answers for all, also while one
// is away, and that one has all when it is back.
// It is not parallel, because an owner that does not get the processor for a second leaves requests undecided.
func TestThreeNodesOfOneProcess(t *testing.T) {
	members := transporttest.New(t, 3, nil)
	nodes := make([]*node.Node, 3)
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	up := func(which ...int) {
		t.Helper()
		startNodes(t, nodes, members, nil, which...)
	}
	up(0, 1, 2)
	for i, n := range nodes {
		hit(t, n, "a", uint64(1+i))
	}
	for i, n := range nodes {
		if got := count(t, n, "a"); got != 6 {
			t.Errorf("node %d counts %d of 6", i, got)
		}
	}
	putTogether(t, nodes)
	settleElsewhere(t, nodes)
	nodetest.Close(t, nodes[2])
	put(t, nodes[1], 10, client.PolicyVersion{Is: 2})
	hit(t, nodes[0], "a", 10)
	if got := count(t, nodes[1], "a"); got != 16 {
		t.Errorf("%d of 16 while a node is away", got)
	}
	up(2)
	if got := count(t, nodes[2], "a"); got != 16 {
		t.Errorf("the node that was away counts %d of 16", got)
	}
	for _, n := range nodes {
		wantPolicy(t, n, 3, 10)
	}
}

func clientOf(t *testing.T, n *node.Node) *client.Client {
	t.Helper()
	c, err := client.New("http://"+n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// settleElsewhere settles reservations of three limits at other nodes than those that made them, at once: all of them or, asked too early,
// none.
func settleElsewhere(t *testing.T, nodes []*node.Node) {
	t.Helper()
	for i := range 6 {
		var checks []client.Check
		for _, name := range []string{"settled", "settled-2", "settled-3"} {
			checks = append(checks, client.Check{Key: name, N: 5, Limit: name, Inline: &client.Limit{N: 100, Per: time.Hour}})
		}
		made, err := clientOf(t, nodes[i%3]).Reserve(t.Context(), client.Reservation{TTL: time.Hour}, checks...)
		if err != nil || made.ID == "" {
			t.Fatalf("reserve: %+v, %v", made, err)
		}
		transporttest.Eventually(t, "a reservation is settled at another node", func() bool { // a busy cluster may say to ask again
			done, err := clientOf(t, nodes[(i+1)%3]).Settle(t.Context(), made.ID, 1, false)
			return err == nil && len(done.Limits) == 3 && done.Limits[0].Used == 1 && done.Limits[2].Used == 1
		})
	}
}

// A start that fails, or is interrupted, leaves nothing open: the address and the directory
// can be had again.
func TestAStartThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	cfg := config(t, t.TempDir())
	cfg.HTTP.Addr = transporttest.Addrs(t, 1)[0] // which nobody else is given meanwhile
	first := nodetest.Open(t, cfg)
	if _, err := node.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "choose another address") {
		t.Errorf("on an address that is taken: %v", err)
	}
	other := cfg
	other.HTTP.Addr = "127.0.0.1:0"
	if _, err := node.Start(t.Context(), other); err == nil {
		t.Error("two nodes opened one directory")
	}
	nodetest.Close(t, first)
	interrupted, interrupt := context.WithCancelCause(t.Context())
	cause := errors.New("somebody pressed a key")
	interrupt(cause)
	if _, err := node.Start(interrupted, cfg); !errors.Is(err, cause) {
		t.Errorf("an interrupted start: %v", err)
	}
	nodetest.Open(t, cfg)
}

// A Config that can't work is refused before anything is opened, by the field at fault.
func TestConfigsThatAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for field, change := range map[string]func(*node.Config){
		"HTTP.Addr":          func(c *node.Config) { c.HTTP.Addr = "nowhere" },
		"Journal.Dir":        func(c *node.Config) { c.Journal.Dir = "" },
		"Journal.FlushEvery": func(c *node.Config) { c.Journal.FlushEvery = time.Hour },
		"Journal.MaxBytes":   func(c *node.Config) { c.Engine.Memory = 1 << 30 },
		"Journal.Join":       func(c *node.Config) { c.Journal.Join.Peers = []string{"127.0.0.1:1"} },
		"Journal.Join.Node":  func(c *node.Config) { c.Journal.Join.URL = "nats://127.0.0.1:1" },
		"Engine.Retention":   func(c *node.Config) { c.Engine.Retention = time.Millisecond },
		"Ephemeral":          func(c *node.Config) { c.Ephemeral, c.Journal.Join.Cluster = true, "c" },
		"CloseTimeout":       func(c *node.Config) { c.CloseTimeout = -1 },
	} {
		cfg := config(t, dir)
		change(&cfg)
		_, err := node.Start(t.Context(), cfg)
		for _, err := range []error{err, cfg.Validate()} {
			if fault, ok := errors.AsType[*engine.Error](err); !ok || fault.Code != api.CodeInvalidConfig || fault.Field != field {
				t.Errorf("%s: %#v", field, err)
			}
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
}

// Budgets that nobody gave shrink with the disk, those that were given stay.
func TestBudgetsFitTheDisk(t *testing.T) {
	t.Parallel()
	cfg := config(t, t.TempDir())
	cfg.Engine.Memory, cfg.Engine.LimitMemory = 0, 0
	n := nodetest.Open(t, cfg)
	has := n.Engine().Config()
	if most := durable.MaxMemory(cfg.Journal.MaxBytes); has.Memory+has.LimitMemory > most || has.Memory < most/2 {
		t.Errorf("%d and %d of %d bytes", has.Memory, has.LimitMemory, most)
	}
	if has.OnceMemory > durable.MaxReceipts(cfg.Journal.MaxBytes) {
		t.Errorf("%d bytes of receipts have no space in snapshots within %d", has.OnceMemory, cfg.Journal.MaxBytes)
	}
	cfg = config(t, t.TempDir())
	cfg.Engine.OnceMemory = 64 << 20
	if _, err := node.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "--idempotency-memory") || !strings.Contains(err.Error(), "--max-disk") {
		t.Errorf("64 MiB of receipts within %d bytes of disk: %v", cfg.Journal.MaxBytes, err)
	}
	cfg = config(t, t.TempDir())
	cfg.Engine.LimitMemory = 0
	if has := nodetest.Open(t, cfg).Engine().Config(); has.Memory != 32<<20 || has.LimitMemory >= 256<<20 {
		t.Errorf("given 32 MiB for counters: %d and %d", has.Memory, has.LimitMemory)
	}
	for memory, warned := range map[int64]bool{48 << 20: false, 73 << 20: true} { // of 73.1 MiB
		cfg = config(t, t.TempDir())
		cfg.Engine.Memory, cfg.Engine.LimitMemory = memory, 0
		var log bytes.Buffer
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		nodetest.Close(t, nodetest.Open(t, cfg))
		if is := strings.Contains(log.String(), "--memory leaves hardly any of --max-disk"); is != warned {
			t.Errorf("--memory of %d bytes: %s", memory, log.String())
		}
	}
}

// The policy file is read at the start and at Reload.
func TestPoliciesOfANode(t *testing.T) {
	t.Parallel()
	cfg := config(t, "")
	cfg.Ephemeral = true
	cfg.Policies.File = filepath.Join(t.TempDir(), "limits.yaml")
	write := func(n int) {
		t.Helper()
		text := fmt.Sprintf("limits:\n  - {name: each, keys: \"user:{id}\", limit: %d, per: 1h}\n", n)
		if err := os.WriteFile(cfg.Policies.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := node.Start(t.Context(), cfg); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its policy file: %v", err)
	}
	write(1)
	n := nodetest.Open(t, cfg)
	allowed := func(key string) bool {
		t.Helper()
		d, err := ask(t, n).Allow(t.Context(), client.Check{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return d.Allowed
	}
	if !allowed("user:1") || allowed("user:1") {
		t.Error("the limit of the file does not hold")
	}
	write(1000)
	n.Reload()
	transporttest.Eventually(t, "the new limit holds", func() bool { return allowed("user:1") })
}
