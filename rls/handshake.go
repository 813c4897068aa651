package rls

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/conns"
)

// handshake begins connections for gRPC: TLS where it is wanted, who the client is, and whether it speaks HTTP/2 at
// all. One that does not is handed to the server of /json.
type handshake struct{ of *Server }

var errNoClient = errors.New("rls: these credentials are a server's")

// ServerHandshake implements credentials.TransportCredentials. gRPC bounds its time, and closes the connection
// after an error.
func (h handshake) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	counted, ok := raw.(*conns.Conn)
	if !ok {
		return nil, nil, errors.New("rls: a connection of another listener")
	}
	is := &connection{conn: counted, caller: service.CallerAt(raw.RemoteAddr().String())}
	is.SecurityLevel = credentials.NoSecurity
	stream := raw
	if h.of.tls != nil {
		secure := tls.Server(raw, h.of.tls)
		if err := secure.HandshakeContext(context.Background()); err != nil {
			return nil, nil, err
		}
		stream, is.secure, is.SecurityLevel = secure, true, credentials.PrivacyAndIntegrity
		if chains := secure.ConnectionState().VerifiedChains; len(chains) > 0 {
			// A certificate of nobody's is no failure: a token may follow.
			if known, err := h.of.service.WithCertificate(is.caller, chains[0][0]); err == nil {
				is.caller = known
			}
		}
	}
	begun, http2, err := peek(stream)
	if err != nil {
		return nil, nil, err
	}
	if !http2 {
		if err := raw.SetDeadline(time.Time{}); err != nil { // gRPC's, of the handshake
			return nil, nil, err
		}
		h.of.json.take(&jsonConn{begun, is})
		return nil, nil, credentials.ErrConnDispatched
	}
	return begun, is, nil
}

// Info implements credentials.TransportCredentials.
func (h handshake) Info() credentials.ProtocolInfo {
	if h.of.tls != nil {
		return credentials.ProtocolInfo{SecurityProtocol: "tls"}
	}
	return credentials.ProtocolInfo{SecurityProtocol: "insecure"}
}

// Clone implements credentials.TransportCredentials.
func (h handshake) Clone() credentials.TransportCredentials { return h }

// OverrideServerName implements credentials.TransportCredentials.
func (h handshake) OverrideServerName(string) error { return errNoClient }

// ClientHandshake implements credentials.TransportCredentials.
func (h handshake) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNoClient
}

// forBoth is a TLS configuration for HTTP/2 and HTTP/1.1.
func forBoth(of *tls.Config) *tls.Config {
	if of == nil {
		return nil
	}
	made := of.Clone()
	made.NextProtos = []string{"h2", "http/1.1"}
	if newest := made.GetConfigForClient; newest != nil {
		made.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			is, err := newest(hello)
			if is == nil || err != nil {
				return is, err
			}
			is = is.Clone()
			is.NextProtos = made.NextProtos
			return is, nil
		}
	}
	return made
}

// preface begins every connection of HTTP/2, and no other of HTTP.
var preface = []byte("PRI")

// peek reads the first bytes, and gives them back with the rest.
func peek(c net.Conn) (begun net.Conn, http2 bool, err error) {
	head := make([]byte, len(preface))
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, false, err
	}
	return &peeked{c, head}, bytes.Equal(head, preface), nil
}

type peeked struct {
	net.Conn
	head []byte
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.head) > 0 {
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
