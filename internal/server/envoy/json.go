package envoy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of all messages but answers
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonServer answers POST /json, for curl and for tests of a configuration: a RateLimitRequest and its answer as
// JSON, with 200 or 429. Its connections are those that do not begin as HTTP/2.
type jsonServer struct {
	of    *Server
	http  *http.Server
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

// jsonConn is a connection that is handed over.
type jsonConn struct {
	net.Conn
	is *connection
}

type connectionKey struct{}

const maxJSONBytes = 64 << 10

func newJSONServer(of *Server) *jsonServer {
	j := &jsonServer{of: of, conns: make(chan net.Conn), ended: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", j.answer)
	j.http = &http.Server{
		Handler: mux, ReadTimeout: of.cfg.RequestTimeout, WriteTimeout: of.cfg.RequestTimeout, IdleTimeout: of.cfg.IdleTimeout, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(of.log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c.(*jsonConn).is)
		},
	}
	return j
}

// take hands a connection over; after the end it is closed.
func (j *jsonServer) take(c net.Conn) {
	select {
	case j.conns <- c:
	case <-j.ended:
		_ = c.Close() // nobody is left to tell
	}
}

// serve answers until Close.
func (j *jsonServer) serve() {
	if err := j.http.Serve(j); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		j.of.log.Warn("rate limit service: /json ended", "error", err)
	}
}

// Accept implements net.Listener.
func (j *jsonServer) Accept() (net.Conn, error) {
	select {
	case c := <-j.conns:
		return c, nil
	case <-j.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (j *jsonServer) Close() error {
	j.once.Do(func() { close(j.ended) })
	return nil
}

// Addr implements net.Listener.
func (j *jsonServer) Addr() net.Addr { return j.of.Listener().Addr() }

func (j *jsonServer) answer(w http.ResponseWriter, r *http.Request) {
	j.of.calls[callJSON].Add(1)
	if ofPage(r) {
		j.of.failed.Add(1)
		http.Error(w, "web pages may not ask here: send the request from a program", http.StatusForbidden)
		return
	}
	response, err := j.decide(w, r)
	if err != nil {
		j.of.failed.Add(1)
		j.fail(w, err)
		return
	}
	text, err := protojson.Marshal(response)
	if err != nil {
		j.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for _, h := range response.ResponseHeadersToAdd {
		w.Header().Set(h.Key, h.Value)
	}
	if response.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}

// ofPage reports whether a browser sends the request for a web page. Any page can make a browser send one, but every
// such POST says so.
func ofPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header.Get("Origin") != "" || site != "" && site != "none"
}

func (j *jsonServer) decide(w http.ResponseWriter, r *http.Request) (*pb.RateLimitResponse, error) {
	is := r.Context().Value(connectionKey{}).(*connection)
	c := is.caller
	is.conn.Waits(true)
	if given := r.Header.Get("Authorization"); given != "" {
		var err error
		if c, err = j.of.withAuthorization(c, given); err != nil {
			return nil, err
		}
	}
	if err := j.of.service.Permit(c, access.Decides); err != nil {
		if is.caller.Known() && request.As(err).Code == api.CodeUnauthorized {
			w.Header().Set("Connection", "close") // a new connection shows a renewed certificate
		}
		return nil, unauthorized(err, c)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSONBytes))
	if err != nil {
		return nil, invalid(api.CodeInvalidParameter, "body", "the body is larger than 64 KiB, or came too slowly")
	}
	var asked pb.RateLimitRequest
	if err := protojson.Unmarshal(body, &asked); err != nil {
		return nil, invalid(api.CodeInvalidParameter, "body", "not a RateLimitRequest: "+request.Clip(err.Error())+`; write {"domain":"edge","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`)
	}
	made, err := j.of.decideFor(r.Context(), c, &asked, take)
	if err != nil {
		return nil, err
	}
	return made.message()
}

// httpStatuses are the statuses of gRPC's codes.
var httpStatuses = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest, codes.Unimplemented: http.StatusBadRequest, codes.NotFound: http.StatusNotFound,
	codes.Unauthenticated: http.StatusUnauthorized, codes.PermissionDenied: http.StatusForbidden,
	codes.ResourceExhausted: http.StatusTooManyRequests, codes.Unavailable: http.StatusServiceUnavailable,
}

func (j *jsonServer) fail(w http.ResponseWriter, err error) {
	is := status.Convert(failed(err))
	code, known := httpStatuses[is.Code()]
	if !known {
		code = http.StatusInternalServerError
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
	}
	http.Error(w, is.Message(), code)
}

// answer is an encoded RateLimitResponse. Most of its bytes are prepared in advance; building a message only to encode
// it would cost more.
type answer []byte

// message is the answer as a message.
func (a answer) message() (*pb.RateLimitResponse, error) {
	m := new(pb.RateLimitResponse)
	if err := proto.Unmarshal(a, m); err != nil {
		return nil, fmt.Errorf("an answer that is none: %w", err)
	}
	return m, nil
}

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

// handshake begins connections for gRPC: it sets up TLS if configured, identifies the client, and checks for HTTP/2.
// Other connections go to the server of /json.
type handshake struct{ of *Server }

var errNoClient = errors.New("rls: these credentials are a server's")

// ServerHandshake implements credentials.TransportCredentials. gRPC bounds its time, and closes the connection
// after an error.
func (h handshake) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	counted, ok := raw.(*listener.Conn)
	if !ok {
		return nil, nil, errors.New("rls: a connection of another listener")
	}
	is := &connection{conn: counted, caller: access.CallerAt(raw.RemoteAddr().String())}
	is.SecurityLevel = credentials.NoSecurity
	stream := raw
	if h.of.tls != nil {
		secure := tls.Server(raw, h.of.tls)
		if err := secure.HandshakeContext(context.Background()); err != nil {
			return nil, nil, err
		}
		stream, is.secure, is.SecurityLevel = secure, true, credentials.PrivacyAndIntegrity
		// A certificate of nobody's is no failure: a token may follow.
		if known, err := h.of.service.WithCertificate(is.caller, secure.ConnectionState().VerifiedChains); err == nil {
			is.caller = known
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
