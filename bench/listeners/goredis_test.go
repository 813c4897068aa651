package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-counter/weir/node"
)

// open starts a node with an address for clients of Redis.
func open(t *testing.T) (address string) {
	t.Helper()
	var cfg node.Config
	cfg.Ephemeral = true
	cfg.HTTP.Addr, cfg.RESP.Addr = "127.0.0.1:0", "127.0.0.1:0"
	return openNode(t, cfg).RESPAddr()
}

// openNode starts a node that says nothing, and is closed when the test ends.
func openNode(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	n, err := node.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// go-redis connects, in both versions of the protocol, and keeps a limit per fixed window as its users
// do.
func TestGoRedis(t *testing.T) {
	address := open(t)
	for _, version := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: address, Protocol: version, ClientName: "test"})
		defer c.Close()
		ctx := t.Context()
		key := "window:" + strings.Repeat("x", version)
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, key)
			p.ExpireNX(ctx, key, time.Minute)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.IncrBy(ctx, key, 4).Result(); n != 5 || err != nil {
			t.Errorf("INCRBY %d, %v", n, err)
		}
		if left, err := c.TTL(ctx, key).Result(); left < 50*time.Second || left > time.Minute || err != nil {
			t.Errorf("TTL %v, %v", left, err)
		}
		if err := c.Set(ctx, "n", 7, time.Minute).Err(); err != nil {
			t.Error(err)
		}
		if set, err := c.SetNX(ctx, "n", 8, time.Minute).Result(); set || err != nil {
			t.Errorf("SET NX %v, %v", set, err)
		}
		if all, err := c.MGet(ctx, "n", "nothing").Result(); err != nil || all[0] != "7" || all[1] != nil {
			t.Errorf("MGET %v, %v", all, err)
		}
		if err := c.Get(ctx, "nothing").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("GET of nothing: %v", err)
		}
		if n, err := c.Del(ctx, "n", "nothing").Result(); n != 1 || err != nil {
			t.Errorf("DEL %d, %v", n, err)
		}
		if n, err := c.Do(ctx, "HIT", "page:"+key, 3).Int(); n != 3 || err != nil {
			t.Errorf("HIT %d, %v", n, err)
		}
		count, err := c.Do(ctx, "COUNT", "page:"+key, "5m").Result()
		if err != nil {
			t.Fatal(err)
		}
		if version == 3 {
			if answer := count.(map[any]any); answer["estimate"] != int64(3) || answer["exact"] != true {
				t.Errorf("COUNT %v", answer)
			}
		} else if answer := count.([]any); answer[1] != int64(3) {
			t.Errorf("COUNT %v", answer)
		}
		if err := c.Eval(ctx, "return 1", nil).Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR Weir runs no Lua") {
			t.Errorf("EVAL: %v", err)
		}
	}
}

// Many goroutines of go-redis with pipelines lose no hit.
func TestGoRedisPipelines(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: open(t), PoolSize: 8})
	defer c.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if _, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
					for range 20 {
						p.Do(t.Context(), "HIT", "a")
						p.Incr(t.Context(), "a")
					}
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if answer, err := c.Do(t.Context(), "COUNT", "a", "5m").Result(); err != nil || answer.(map[any]any)["estimate"] != int64(8000) {
		t.Errorf("%v hits, %v", answer, err)
	}
	if n, err := c.Get(t.Context(), "a").Int(); n != 8000 || err != nil {
		t.Errorf("the counter is %d, %v", n, err)
	}
}

// redis-py connects and keeps a limit.
func TestPythonRedis(t *testing.T) {
	python := pythonWith(t, "redis")
	host, port, err := net.SplitHostPort(open(t))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-c", `
import redis, sys
c = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]), decode_responses=True)
with c.pipeline(transaction=True) as p:
    assert p.incr("w").expire("w", 60).execute() == [1, True]
assert 0 < c.ttl("w") <= 60
assert c.set("n", 5, ex=10) and c.get("n") == "5" and c.incr("n", 2) == 7 and c.delete("n") == 1
assert c.execute_command("HIT", "page", 3) == 3
assert c.execute_command("COUNT", "page", "5m")[:4] == [3, 3, 3, 1]
assert c.execute_command("CL.THROTTLE", "u", 15, 30, 60)[:3] == [0, 16, 15]
try:
    c.eval("return 1", 0)
    assert False
except redis.ResponseError as e:
    assert str(e).startswith("Weir runs no Lua"), e
`, host, port).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
