package envoy

import (
	"context"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service"
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
}

const (
	envoyName   = "envoy.service.ratelimit.v3.RateLimitService"
	healthEvery = time.Second
)

func newHealthServer(of *Server) *healthServer {
	h := &healthServer{health.NewServer(), of}
	h.look()
	return h
}

// look notes how it is now.
func (h *healthServer) look() {
	is := grpc_health_v1.HealthCheckResponse_SERVING
	if _, refusing := h.of.service.Ready(); refusing != nil || h.of.draining.Load() || h.of.xds != nil && h.of.live.now.Load() == nil {
		is = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	for _, name := range []string{"", envoyName, kuadrantName} {
		h.SetServingStatus(name, is)
	}
}

// Check says how it is now.
func (h *healthServer) Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	h.look()
	return h.Server.Check(ctx, req)
}

// watch has Watch tell of changes, until ctx ends.
func (h *healthServer) watch(ctx context.Context) {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.look()
		}
	}
}

// connection is what is known of one, as gRPC hands it to each request.
type connection struct {
	credentials.CommonAuthInfo
	conn   *listener.Conn
	caller service.Caller // by its address, or its certificate
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
func (s *Server) callerOf(ctx context.Context) (service.Caller, error) {
	var c service.Caller
	if p, ok := peer.FromContext(ctx); ok {
		if of, ok := p.AuthInfo.(*connection); ok {
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
	return c, nil
}

func (s *Server) withAuthorization(c service.Caller, value string) (service.Caller, error) {
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
	api.CodeUnknownLimit:     codes.NotFound,

	api.CodeOverloaded: codes.Unavailable,
	api.CodeStarting:   codes.Unavailable,
	api.CodeStopping:   codes.Unavailable,
	api.CodeClosed:     codes.Unavailable,
	api.CodeClientGone: codes.Canceled,

	api.CodeUnauthorized: codes.Unauthenticated,
	api.CodeForbidden:    codes.PermissionDenied,
	api.CodeCeiling:      codes.ResourceExhausted,
}

// failed is an error as gRPC has it: the text begins with the code of it, as at other doors.
func failed(err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	e := service.AsError(err)
	code, known := statuses[e.Code]
	if !known {
		code = codes.Internal
	}
	return status.Error(code, string(e.Code)+": "+e.Message)
}

func invalid(code api.Code, field, message string) error {
	return &service.Error{Code: code, Field: field, Message: message}
}

// unauthorized is the error of a caller that must prove an identity, and says how.
func unauthorized(err error, c service.Caller) error {
	if e := service.AsError(err); e.Code == api.CodeUnauthorized && !c.Known() {
		told := *e
		told.Message += ": send the metadata authorization: Bearer TOKEN ('weir token create' makes one), or a client certificate"
		return &told
	}
	return err
}
