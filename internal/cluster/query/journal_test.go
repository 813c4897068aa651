package query

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
)

// journaled is a node with a journal, which holds its share.
type journaled struct {
	engine  *engine.Engine
	journal *durable.Journal
	*Router
	crashed bool
}

func openJournaled(t testing.TB, cfg durable.Config) *journaled {
	e, err := engine.New(engine.Config{Partitions: 32, Gather: true})
	if err != nil {
		t.Error(err)
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	n := &journaled{engine: e}
	if n.journal, err = durable.Open(ctx, e, cfg, nil); err != nil {
		t.Error(err)
		return nil
	}
	self := ""
	for _, o := range n.journal.Origins() {
		if o.Self {
			self = o.Origin
		}
	}
	n.Router, err = Open(Config{
		Engine: e, Conn: n.journal.Joined().Conn(), Self: self, Holders: n.journal.Holders().WhomToAsk,
		Flush: n.journal.Sync, Followed: n.journal.Followed, FlushEvery: cfg.FlushEvery, Deadline: 3 * time.Second,
		Freshness: n.journal.Freshness,
	})
	if err != nil {
		t.Error(err)
		return nil
	}
	return n
}

// openThree starts nodes n0 to n2, and returns when each holds its share. They crash at the
// end.
func openThree(t testing.TB, cfg durable.Config) []*journaled {
	t.Helper()
	addrs := transporttest.Addrs(t, 3)
	nodes := make([]*journaled, 3)
	var starting sync.WaitGroup
	for i := range nodes {
		cfg := cfg
		cfg.Dir, cfg.Logger = t.TempDir(), transporttest.Logger(t, slog.LevelError+1)
		cfg.Join = transport.Config{Cluster: "test", Node: fmt.Sprint("n", i), Addr: addrs[i], Peers: addrs, Secret: transporttest.Secret}
		starting.Go(func() { nodes[i] = openJournaled(t, cfg) })
	}
	starting.Wait()
	t.Cleanup(func() {
		for _, n := range nodes {
			if n != nil {
				n.crash()
			}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	transporttest.Eventually(t, "each holds a share", func() bool {
		held := 0
		for _, n := range nodes {
			held += n.engine.HeldPartitions().Len()
		}
		return held == cfg.Replicas*32
	})
	return nodes
}

// crash ends a node as kill -9 would.
func (n *journaled) crash() {
	if n.crashed {
		return
	}
	n.crashed = true
	n.journal.Joined().Close()
	n.Close()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.journal.Close(over) // it can't flush
	n.engine.Close()
}

// Three nodes with a journal hold two thirds each: each answers for the hits of all, one
// flush later, and says so; a key is deleted wherever its hits were taken; and when one
// is killed, the other two have everything.
func TestNodesWithAJournal(t *testing.T) {
	t.Parallel()
	nodes := openThree(t, durable.Config{FlushEvery: 5 * time.Millisecond, Replicas: 2})
	const keys = 60
	at := time.Unix(time.Now().Unix(), 0)
	for i := range keys {
		if _, err := nodes[i%3].engine.HitAt(at, fmt.Sprint("k", i), uint64(1+i)); err != nil {
			t.Fatal(err)
		}
	}
	hit := time.Now()
	complete := func(n *journaled, want uint64, list int) {
		t.Helper()
		transporttest.Eventually(t, fmt.Sprint(want, " hits"), func() bool {
			c, fresh, err := n.Counts(t.Context(), 0, []api.CountQuestion{{Key: engine.AllKeys, At: at, Window: time.Minute}}, nil)
			if err != nil {
				t.Log(err)
				return false
			}
			if len(fresh.Late) == 0 && fresh.AsOf.After(hit) && c[0].Upper != want {
				t.Fatalf("all until %v is said to be in %v: want %d", fresh.AsOf, c[0], want)
			}
			top, _, err := n.Top(t.Context(), 0, at, time.Minute, keys, "k")
			return err == nil && c[0].Lower == want && c[0].Exact() && len(top) == list
		})
	}
	for _, n := range nodes {
		complete(n, keys*(keys+1)/2, keys)
	}
	// Of each key the node that takes a last hit deletes it at once.
	for i := range keys / 2 {
		n, key := nodes[(i+1)%3], fmt.Sprint("k", i)
		if _, err := n.engine.HitAt(at, key, 1); err != nil {
			t.Fatal(err)
		}
		if was, err := n.Delete(t.Context(), key); err != nil || !was {
			t.Fatalf("%s: %v, %v", key, was, err)
		}
	}
	hit = time.Now()
	for _, n := range nodes {
		complete(n, keys*(keys+1)/2+keys/2, keys/2)
	}
	nodes[2].crash()
	for _, n := range nodes[:2] {
		complete(n, keys*(keys+1)/2+keys/2, keys/2)
		if s := n.Stats(); s.Asked == 0 {
			t.Errorf("%+v", s)
		}
	}
}
