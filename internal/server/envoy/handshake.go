package envoy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of all messages but answers
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// answer is an encoded RateLimitResponse. Most of its bytes are prepared in advance; building a message only to encode
// it would cost more.
type answer []byte

// codec writes answers as they are, and reads and writes all else as gRPC does.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if a, is := v.(answer); is {
		return mem.BufferSlice{mem.SliceBuffer(a)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// handshake begins connections for gRPC: it sets up TLS if configured, and identifies the client. The embedded
// credentials have the methods that only clients of gRPC use.
type handshake struct {
	credentials.TransportCredentials
	server *Server
}

// ServerHandshake implements credentials.TransportCredentials. gRPC bounds its time, and closes the connection
// after an error.
func (h handshake) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	counted, ok := raw.(*listener.Conn)
	if !ok {
		return nil, nil, errors.New("rls: a connection of another listener")
	}
	is := &connection{conn: counted, caller: counted.Client()}
	is.SecurityLevel = credentials.NoSecurity
	stream := raw
	if h.server.tls != nil {
		secure := tls.Server(raw, h.server.tls)
		if err := secure.HandshakeContext(context.Background()); err != nil {
			return nil, nil, err
		}
		if secure.ConnectionState().NegotiatedProtocol == "http/1.1" {
			return nil, nil, errors.New("rls: a client of HTTP/1.1, and this listener speaks gRPC")
		}
		stream, is.secure, is.SecurityLevel = secure, true, credentials.PrivacyAndIntegrity
		// A certificate of nobody's is no failure: a token may follow.
		if known, err := h.server.service.WithCertificate(is.caller, secure.ConnectionState().VerifiedChains); err == nil {
			is.caller = known
		}
	}
	return stream, is, nil
}

// connection is what is known of a connection, as gRPC hands it to each request.
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
	var link *connection
	if p, ok := peer.FromContext(ctx); ok {
		if link, ok = p.AuthInfo.(*connection); ok {
			c = link.caller
			link.conn.Waits(true) // from now on again: it is not idle
		}
	}
	if !s.service.Locked() {
		return c, nil
	}
	if given := metadata.ValueFromIncomingContext(ctx, "authorization"); len(given) > 0 {
		scheme, token, _ := strings.Cut(given[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = "" // it is nobody's
		}
		return s.service.WithToken(c, strings.TrimSpace(token))
	}
	if c.Known() {
		if err := s.service.Identify(c); err != nil {
			// A client of gRPC connects again by itself, and shows a renewed certificate.
			return c, errors.Join(err, link.conn.Close())
		}
	}
	return c, nil
}

// statuses are the codes of the service's errors that can come of a decision. All others are Internal.
var statuses = map[api.Code]codes.Code{
	api.CodeInvalidKey:       codes.InvalidArgument,
	api.CodeInvalidCount:     codes.InvalidArgument,
	api.CodeInvalidLimit:     codes.InvalidArgument,
	api.CodeInvalidParameter: codes.InvalidArgument,
	api.CodeInvalidWindow:    codes.InvalidArgument,
	api.CodeUnknownLimit:     codes.NotFound,
	api.CodeKeyReused:        codes.AlreadyExists,

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

// healthServer answers grpc.health.v1.Health, which needs no identity: a probe has none. Clients ask with Check: there is no Watch.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	server *Server
}

const envoyName = "envoy.service.ratelimit.v3.RateLimitService"

// Check implements grpc_health_v1.HealthServer. The server as a whole ("") and its services serve while the service is ready, there
// are limits, and the server does not stop.
func (h healthServer) Check(_ context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if !slices.Contains([]string{"", envoyName, kuadrantName, quotaName}, req.Service) {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	is := grpc_health_v1.HealthCheckResponse_SERVING
	if _, refusing := h.server.service.Ready(); refusing != nil || h.server.draining.Load() || h.server.xds != nil && h.server.live.now.Load() == nil {
		is = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: is}, nil
}
