package envoy

import (
	"context"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/service/access"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthServer answers grpc.health.v1.Health, which needs no identity: a probe has none. The server
// as a whole ("") and the rate limit service serve while the service is ready and the server does not stop.
type healthServer struct {
	*health.Server
	of *Server

	watches places

	mu  sync.Mutex                                       // guards all below
	was grpc_health_v1.HealthCheckResponse_ServingStatus // what was noted last
}

const (
	envoyName   = "envoy.service.ratelimit.v3.RateLimitService"
	healthEvery = time.Second
)

func newHealthServer(of *Server) *healthServer {
	h := &healthServer{Server: health.NewServer(), of: of, watches: newPlaces(maxWatches, maxOwnWatches)}
	h.look()
	return h
}

// look notes the current status. Only a change costs each Watch something.
func (h *healthServer) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	is := grpc_health_v1.HealthCheckResponse_SERVING
	if _, refusing := h.of.service.Ready(); refusing != nil || h.of.draining.Load() || h.of.xds != nil && h.of.live.now.Load() == nil {
		is = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	if h.was == is {
		return
	}
	h.was = is
	for _, name := range []string{"", envoyName, kuadrantName, quotaName} {
		h.SetServingStatus(name, is)
	}
}

// Check returns the current status.
func (h *healthServer) Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	h.look()
	return h.Server.Check(ctx, req)
}

// watch looks every second, so that Watch reports changes, until ctx ends.
func (h *healthServer) watch(ctx context.Context) {
	concurrency.Every(ctx, healthEvery, func() bool {
		h.look()
		return true
	})
}

// Watch reports changes until its client leaves or the server stops. An open stream would keep the server from
// stopping.
func (h *healthServer) Watch(req *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(h.of.ending, cancel)()
	c, _ := h.of.callerOf(ctx) // who proves nothing may watch too
	leave, ok := h.watches.enter(c)
	if !ok {
		return status.Error(codes.ResourceExhausted, "too many streams of health are open: close some, or ask with Check")
	}
	defer leave()
	err := h.Server.Watch(req, watchStream{stream, ctx})
	if h.of.ending.Err() != nil {
		return status.Error(codes.Unavailable, "the server stops")
	}
	return err
}

// watchStream has a context that ends with the server.
type watchStream struct {
	grpc_health_v1.Health_WatchServer
	ctx context.Context
}

func (s watchStream) Context() context.Context { return s.ctx }

// places bounds what clients have open.
type places struct {
	most int // of all clients; a quarter of it is for clients that have proved no identity
	each int // of one client: an identity, or an address

	mu            sync.Mutex          // guards all below
	own           access.CallerCounts // by client
	all, unproved int
}

// The bounds of streams of Watch, each of which takes some 11 KB for as long as its client likes.
const (
	maxWatches    = 1024
	maxOwnWatches = 64
)

func newPlaces(most, each int) places {
	return places{most: most, each: each, own: access.CallerCounts{}}
}

func (p *places) taken() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uint64(p.all)
}

// enter counts one of a client, unless the client, or all clients, have reached their bound. leave ends it.
func (p *places) enter(c access.Caller) (leave func(), ok bool) {
	unproved := 0
	if !c.Known() {
		unproved = 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= p.most || unproved > 0 && p.unproved >= p.most/4 || p.own.Of(c) >= int64(p.each) {
		return nil, false
	}
	add := func(n int) {
		p.own.Add(c, int64(n))
		p.all, p.unproved = p.all+n, p.unproved+n*unproved
	}
	add(1)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		add(-1)
	}, true
}
