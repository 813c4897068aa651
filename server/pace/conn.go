package pace

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"github.com/weir-counter/weir/service/conns"
)

type connKey struct{}

// With is an http.Server's ConnContext, so that Of finds the connection of a request.
func With(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Of is the connection of a request; nil: it came by a caller's own server.
func Of(r *http.Request) *conns.Conn {
	c, _ := r.Context().Value(connKey{}).(*conns.Conn)
	return c
}
