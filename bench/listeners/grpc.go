package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The part for Envoy compares a decision by gRPC with a method of grpc-go that does nothing.

const (
	// callers ask at the same time on each connection, as the requests of an Envoy's worker do.
	callers = 16
	// grpcKeys are the keys that decisions are about.
	grpcKeys = 10_000

	emptyMethod = "/weir.bench.Empty/Call"
	grpcLimits  = `domain: bench
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 1000000}
- key: route
  rate_limit: {unit: hour, requests_per_unit: 100000000}
`
)

// serveEmpty serves the method that does nothing, until ctx ends.
func serveEmpty(ctx context.Context, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "weir.bench.Empty", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			return in, decode(in)
		}}},
	}, nil)
	defer context.AfterFunc(ctx, s.Stop)()
	return s.Serve(l)
}

// call is one kind of request.
type call struct {
	name string
	goal goal
	args []string // of the server
	make func(c *grpc.ClientConn) func(ctx context.Context, i int) error
}

func decision(descriptors func(i int) []*ratelimit.RateLimitDescriptor) func(c *grpc.ClientConn) func(context.Context, int) error {
	requests := make([]*pb.RateLimitRequest, grpcKeys)
	for i := range requests {
		requests[i] = &pb.RateLimitRequest{Domain: "bench", Descriptors: descriptors(i)}
	}
	return func(c *grpc.ClientConn) func(context.Context, int) error {
		client := pb.NewRateLimitServiceClient(c)
		return func(ctx context.Context, i int) error {
			answer, err := client.ShouldRateLimit(ctx, requests[i%grpcKeys])
			if err == nil && (answer.OverallCode != pb.RateLimitResponse_OK || answer.Statuses[0].CurrentLimit == nil) {
				err = fmt.Errorf("the decision is %v", answer)
			}
			return err
		}
	}
}

func entry(key, value string) *ratelimit.RateLimitDescriptor {
	return &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value}}}
}

// measureGRPC measures each kind in turns.
func measureGRPC(ctx context.Context, weir, scratch string, requests, rounds int) (rows []row, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	limits := filepath.Join(scratch, "limits.yaml")
	if err := os.WriteFile(limits, []byte(grpcLimits), 0o600); err != nil {
		return nil, err
	}
	user := func(i int) string { return fmt.Sprintf("user-%05d", i*i%grpcKeys) }
	one := decision(func(i int) []*ratelimit.RateLimitDescriptor {
		return []*ratelimit.RateLimitDescriptor{entry("user", user(i))}
	})
	two := decision(func(i int) []*ratelimit.RateLimitDescriptor {
		return []*ratelimit.RateLimitDescriptor{entry("user", user(i)), entry("route", "/")}
	})
	most := goal{text: "at most 1.3 of the empty method", ratio: 1.3}
	calls := []call{
		{name: "an empty method of grpc-go", args: []string{self, "-empty"}, make: func(c *grpc.ClientConn) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error {
				return c.Invoke(ctx, emptyMethod, new(emptypb.Empty), new(emptypb.Empty))
			}
		}},
		{name: "one descriptor, --rls-headers none", goal: most, args: []string{"none"}, make: one},
		{name: "one descriptor", goal: most, args: []string{"draft"}, make: one},
		{name: "two descriptors", goal: most, args: []string{"draft"}, make: two},
	}
	servers := make([]*asker, len(calls))
	for i, c := range calls {
		s, err := start(ctx, c.name, func(a string) []string {
			if c.goal == (goal{}) {
				return append(slices.Clone(c.args), a)
			}
			return []string{weir, "serve", "--http", "127.0.0.1:0", "--log-level", "error", "--ephemeral", "--rls", a, "--rls-config", limits, "--rls-headers", c.args[0]}
		})
		if err != nil {
			return nil, err
		}
		defer s.stop()
		if servers[i], err = newAsker(s, c); err != nil {
			return nil, err
		}
		defer servers[i].close()
		rows = append(rows, row{workload: "gRPC", server: map[bool]string{true: "weir", false: "grpc-go"}[c.goal != goal{}], command: c.name, goal: c.goal})
	}
	for round := range 1 + rounds { // the first warms up
		for i, a := range servers {
			cost, err := a.round(ctx, requests)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rows[i].command, err)
			}
			if round > 0 {
				rows[i].costs = append(rows[i].costs, cost)
			}
		}
	}
	for i := range rows {
		slices.Sort(rows[i].costs)
		fmt.Fprintln(os.Stderr, rows[i])
	}
	return rows, nil
}

// asker asks one server, over all connections.
type asker struct {
	server *server
	conns  []*grpc.ClientConn
	asks   []func(context.Context, int) error
}

func newAsker(server *server, c call) (*asker, error) {
	a := &asker{server: server}
	for range connections {
		conn, err := grpc.NewClient(server.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			a.close()
			return nil, err
		}
		a.conns, a.asks = append(a.conns, conn), append(a.asks, c.make(conn))
	}
	return a, nil
}

func (a *asker) close() {
	for _, c := range a.conns {
		_ = c.Close() // the servers end anyway
	}
}

// round is so many requests; cost is the microseconds of processor time of the server for one.
func (a *asker) round(ctx context.Context, requests int) (cost float64, err error) {
	return a.server.cost(requests, func() error {
		ended := make(chan error, connections*callers)
		each := requests / (connections * callers)
		for i := range connections * callers {
			go func() {
				var err error
				for n := 0; n < each && err == nil; n++ {
					err = a.asks[i%connections](ctx, i*each+n)
				}
				ended <- err
			}()
		}
		var failed error
		for range connections * callers {
			if err := <-ended; err != nil {
				failed = err
			}
		}
		return failed
	})
}

const envoyTitle = "\n## For Envoy\n"

// writeGRPC writes the part for Envoy, without its title. where is of machine.Line.
func writeGRPC(where string, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
%s. Server CPU for one unary gRPC request in µs, with %d connections, %d concurrent requests on each, and about %d keys. Ratios are to an empty method of grpc-go, whose server collects its
small heap more often. %s

| server | request | CPU | goal |
|---|---|---|---|
`, where, connections, callers, grpcKeys, load())
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s, ×%.2f | %s |\n", r.server, r.command, r.spread(), r.median()/rows[0].median(), r.goal.said(r.median(), rows[0].median()))
	}
	return b.String()
}
