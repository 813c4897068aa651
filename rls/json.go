package rls

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
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
func (j *jsonServer) Addr() net.Addr { return j.of.address.Listener().Addr() }

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
	_, _ = w.Write(append(text, '\n')) // who is gone is not told
}

// ofPage tells whether a browser sends the request for a web page, which any page can have it do: with every
// POST it says so.
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
	if err := j.of.service.Identify(c); err != nil {
		return nil, unauthorized(err, c)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSONBytes))
	if err != nil {
		return nil, invalid(api.CodeInvalidParameter, "body", "the body is larger than 64 KiB, or came too slowly")
	}
	var request pb.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		return nil, invalid(api.CodeInvalidParameter, "body", "not a RateLimitRequest: "+service.Clip(err.Error())+`; write {"domain":"edge","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`)
	}
	made, err := j.of.decideFor(r.Context(), c, &request, take)
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
