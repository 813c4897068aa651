package main

import (
	"slices"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const sharedLimit = `limits: [{name: api, keys: "api:*", limit: 7, per: 1h, where: global, within: shared}]`

// openRegions starts two regions of a node each that pull from each other.
func openRegions(t *testing.T) (eu, us *node.Node) {
	t.Helper()
	addrs := transporttest.Addrs(t, 2)
	open := func(name, addr, link string) *node.Node {
		set, err := policy.Parse("limits.yaml", []byte(sharedLimit))
		if err != nil {
			t.Fatal(err)
		}
		var cfg node.Config
		cfg.HTTP.Addr, cfg.RESP.Addr, cfg.RLS.Addr, cfg.RLS.Metadata = addr, "127.0.0.1:0", "127.0.0.1:0", true
		cfg.Policies.Set, cfg.Journal.Dir, cfg.Journal.FlushEvery = set, t.TempDir(), 20*time.Millisecond
		cfg.Engine.Memory, cfg.Engine.LimitMemory = 64<<20, 1<<20
		cfg.Regions = node.Regions{Region: name, Every: 100 * time.Millisecond, Memory: 32 << 20, Links: []string{link}}
		return openNode(t, cfg)
	}
	return open("eu", addrs[0], "us=http://"+addrs[1]), open("us", addrs[1], "eu=http://"+addrs[0])
}

// sharedAnswer is what a client reads of a decision of a limit that regions share.
type sharedAnswer struct {
	allowed   bool
	remaining int64
	others    int64
	late      []string
}

// What one region admitted, clients of Redis and of Envoy's protocol are told by the other, as clients of HTTP are; and which region
// is late. On a busy machine one may be late all the time.
func TestLimitSharedByRegions(t *testing.T) {
	t.Parallel()
	eu, us := openRegions(t)
	here, there := redis.NewClient(&redis.Options{Addr: eu.RESPAddr(), Protocol: 3}), redis.NewClient(&redis.Options{Addr: us.RESPAddr()})
	defer here.Close()
	defer there.Close()
	if first, err := there.Do(t.Context(), "ALLOW", "api:user=bob", "COST", 2).Result(); err != nil || first.(map[any]any)["remaining"] != int64(5) {
		t.Fatalf("%v, %v", first, err)
	}
	var last any
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last reply: %v", last)
		}
	})
	peek := func() (of map[any]any) {
		var err error
		if last, err = here.Do(t.Context(), "PEEK", "api:user=bob").Result(); err != nil {
			t.Fatal(err)
		}
		return last.(map[any]any)
	}
	transporttest.Eventually(t, "eu knows what us admitted", func() bool { return peek()["others"] == int64(2) })
	for left, ask := range []func(*testing.T, *node.Node) sharedAnswer{byRedis2, byRedis3, byEnvoy} {
		if got := ask(t, eu); !got.allowed || got.remaining != int64(4-left) || got.others != 2 {
			t.Errorf("%d: %+v", left, got)
		}
	}
	if err := us.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "us is late", func() bool {
		late, _ := peek()["late"].([]any)
		return slices.Contains(late, any("us"))
	})
	for _, ask := range []func(*testing.T, *node.Node) sharedAnswer{byRedis2, byEnvoy} {
		if got := ask(t, eu); !slices.Contains(got.late, "us") || got.others != 2 {
			t.Errorf("%+v", got)
		}
	}
}

func byRedis2(t *testing.T, n *node.Node) sharedAnswer {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: n.RESPAddr(), Protocol: 2})
	defer c.Close()
	reply, err := c.Do(t.Context(), "ALLOW", "api:user=bob").Slice()
	if err != nil || len(reply) != 8 {
		t.Fatalf("%v, %v", reply, err)
	}
	return sharedAnswer{reply[0] == int64(1), reply[1].(int64), reply[6].(int64), texts(reply[7])}
}

func byRedis3(t *testing.T, n *node.Node) sharedAnswer {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: n.RESPAddr(), Protocol: 3})
	defer c.Close()
	reply, err := c.Do(t.Context(), "ALLOW", "api:user=bob").Result()
	if err != nil {
		t.Fatal(err)
	}
	of := reply.(map[any]any)
	return sharedAnswer{of["allowed"] == true, of["remaining"].(int64), of["others"].(int64), texts(of["late"])}
}

func byEnvoy(t *testing.T, n *node.Node) sharedAnswer {
	t.Helper()
	conn, err := grpc.NewClient(n.RLSAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{
		Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "bob"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	limits, _ := answer.DynamicMetadata.AsMap()["limits"].([]any)
	if len(limits) != 1 {
		t.Fatalf("%v", answer)
	}
	of := limits[0].(map[string]any)
	if of["name"] != "api" || of["key"] != "api:user=bob" {
		t.Errorf("%v", of)
	}
	return sharedAnswer{answer.OverallCode == pb.RateLimitResponse_OK, int64(answer.Statuses[0].LimitRemaining), int64(of["others"].(float64)), texts(of["late"])}
}

func texts(of any) (all []string) {
	for _, one := range of.([]any) {
		all = append(all, one.(string))
	}
	return all
}
