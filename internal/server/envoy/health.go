package envoy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
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

// connection is what is known of one, as gRPC hands it to each request.
type connection struct {
	credentials.CommonAuthInfo
	conn   *listener.Conn
	caller access.Caller // by its address, or its certificate
	secure bool
}

// AuthType implements credentials.AuthInfo.
func (c *connection) AuthType() string {
	if c.secure {
		return "tls"
	}
	return "insecure"
}

// callerOf is who sends a request, by its token, else by the certificate of its connection.
func (s *Server) callerOf(ctx context.Context) (access.Caller, error) {
	var c access.Caller
	var of *connection
	if p, ok := peer.FromContext(ctx); ok {
		if of, ok = p.AuthInfo.(*connection); ok {
			c = of.caller
			of.conn.Waits(true) // from now on again: it is not idle
		}
	}
	if !s.service.Locked() {
		return c, nil
	}
	if given := metadata.ValueFromIncomingContext(ctx, "authorization"); len(given) > 0 {
		return s.withAuthorization(c, given[0])
	}
	if c.Known() {
		if err := s.service.Identify(c); err != nil {
			// A client of gRPC connects again by itself, and shows a renewed certificate.
			return c, errors.Join(err, of.conn.Close())
		}
	}
	return c, nil
}

func (s *Server) withAuthorization(c access.Caller, value string) (access.Caller, error) {
	scheme, token, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = "" // it is nobody's
	}
	return s.service.WithToken(c, strings.TrimSpace(token))
}

// statuses are the codes of the service's errors that can come of a decision. All others are Internal.
var statuses = map[api.Code]codes.Code{
	api.CodeInvalidKey:       codes.InvalidArgument,
	api.CodeInvalidCount:     codes.InvalidArgument,
	api.CodeInvalidLimit:     codes.InvalidArgument,
	api.CodeInvalidParameter: codes.InvalidArgument,
	api.CodeInvalidWindow:    codes.InvalidArgument,
	api.CodeUnknownLimit:     codes.NotFound,

	api.CodeOwnerUnreachable: codes.Unavailable,
	api.CodeNotHeld:          codes.Unavailable,

	api.CodeOverloaded: codes.Unavailable,
	api.CodeStarting:   codes.Unavailable,
	api.CodeStopping:   codes.Unavailable,
	api.CodeClosed:     codes.Unavailable,
	api.CodeClientGone: codes.Canceled,

	api.CodeUnauthorized: codes.Unauthenticated,
	api.CodeForbidden:    codes.PermissionDenied,
	api.CodeCeiling:      codes.ResourceExhausted,
}

// failed converts an error to gRPC's. Its text begins with the error's code, as at other listeners.
func failed(err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	e := request.As(err)
	code, known := statuses[e.Code]
	if !known {
		code = codes.Internal
	}
	return status.Error(code, string(e.Code)+": "+e.Message)
}

func invalid(code api.Code, field, message string) error {
	return &api.Error{Code: code, Field: field, Message: message}
}

// unauthorized is the error of a caller that must prove an identity, and says how.
func unauthorized(err error, c access.Caller) error {
	if e := request.As(err); e.Code == api.CodeUnauthorized && !c.Known() {
		copied := *e
		copied.Message += ": send the metadata authorization: Bearer TOKEN ('weir token create' makes one), or a client certificate"
		return &copied
	}
	return err
}
