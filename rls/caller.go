package rls

import (
	"context"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/conns"
)

// connection is what is known of one, as gRPC hands it to each request.
type connection struct {
	credentials.CommonAuthInfo
	conn   *conns.Conn
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
