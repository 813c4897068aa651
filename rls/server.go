package rls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/weir-counter/weir/rls/xds"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/conns"
)

// Server is the door for Envoy of a service. Create it with New; a Server runs once.
type Server struct {
	service *service.Service
	cfg     Config // defaults applied, valid
	log     *slog.Logger
	tls     *tls.Config // nil: none
	live    live
	grpc    *grpc.Server
	json    *jsonServer
	xds     *xds.Client // nil: limits come from files, or policies
	health  *healthServer
	ending  context.Context // ends when streams are to end
	end     context.CancelFunc

	address  conns.Address
	draining atomic.Bool
	calls    [calls]atomic.Uint64
	failed   atomic.Uint64
}

const (
	// maxRequestBytes bounds a message: Envoy's have some hundred bytes.
	maxRequestBytes = 256 << 10
	// maxStreams bounds the requests under way of one connection.
	maxStreams = 1024
	// maxHeaderBytes bounds the metadata of a request.
	maxHeaderBytes = 16 << 10
	// streamWorkers are the goroutines that requests find waiting, with a stack that has grown: a new one for each
	// would spend a sixth of a request's time on that. Beyond them each request has its own.
	streamWorkers = 128
	// pingsApart is how often a client may ping, at most.
	pingsApart = 5 * time.Second
)

// New returns a Server for of that does not listen yet, with its limits read. It fails with a *weir.Error of
// CodeInvalidConfig that names the field at fault, or with all that is wrong with the limits.
func New(of *service.Service, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{service: of, cfg: cfg, log: cfg.Logger, tls: forBoth(cfg.TLS)}
	s.live.reload = make(chan struct{}, 1)
	s.ending, s.end = context.WithCancel(context.Background())
	if err := s.readLimits(); err != nil {
		return nil, err
	}
	if cfg.XDS.Addr != "" {
		cfg.XDS.Logger = cfg.Logger
		s.xds = xds.New(cfg.XDS, s.takeFiles)
	}
	kuadrant := s.kuadrantService()
	described, err := kuadrantFile(kuadrant)
	if err != nil {
		return nil, err
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(handshake{s}), grpc.ConnectionTimeout(cfg.RequestTimeout),
		grpc.MaxRecvMsgSize(maxRequestBytes), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: cfg.IdleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
		grpc.StreamInterceptor(s.guardStream), grpc.NumStreamWorkers(streamWorkers), grpc.ForceServerCodecV2(newCodec()),
	)
	s.grpc.RegisterService(s.envoyService(), s)
	s.grpc.RegisterService(kuadrant, s)
	s.health = newHealthServer(s)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	registerReflection(s.grpc, withKuadrant{described})
	s.json = newJSONServer(s)
	return s, nil
}

// guardStream lets nobody without an identity stream, but for health: reflection tells what there is. A stream ends
// with the server, which it would keep from stopping.
func (s *Server) guardStream(of any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.FullMethod == grpc_health_v1.Health_Watch_FullMethodName { // which says so first
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(s.ending, cancel)()
		return handler(of, endingStream{stream, ctx})
	}
	c, err := s.callerOf(stream.Context())
	if err == nil {
		err = unauthorized(s.service.Identify(c), c)
	}
	if err != nil {
		return s.fail(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- handler(of, stream) }() // it ends with the stream, which ends when this returns
	select {
	case err := <-ended:
		return err
	case <-s.ending.Done():
		return status.Error(codes.Unavailable, "the server stops")
	}
}

// endingStream ends with the server.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s endingStream) Context() context.Context { return s.ctx }

// Listen opens Config.Addr. Clients that connect wait until Run. After TakeOver, and a second time, it does nothing.
func (s *Server) Listen() error { return s.address.Listen(s.cfg.Addr, s.cfg.MaxConns) }

// Addr returns the address listened on, host:port, once Listen succeeded; it is "" before.
func (s *Server) Addr() string { return s.address.Addr() }

// Close closes the address of a Server that does not run. Otherwise it does nothing.
func (s *Server) Close() error { return s.address.Close() }

// Run serves until ctx is done and then stops: requests under way are answered, within StopTimeout, and
// connections close. It returns nil after a clean stop. It calls Listen when the caller has not.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.log.Info("serving Envoy's rate limit service", "addr", s.Addr())
	if service.OpenToOthers(s.Addr()) && !s.service.Locked() {
		s.log.Warn("other machines can reach the address for Envoy, and there is no tokens file: anybody who reaches it can use up limits", "addr", s.Addr())
	}
	var running sync.WaitGroup
	watching, end := context.WithCancel(context.WithoutCancel(ctx))
	defer running.Wait()
	defer end()
	running.Go(func() { s.watch(watching) })
	running.Go(func() { s.health.watch(watching) })
	running.Go(s.json.serve)
	if s.xds != nil {
		running.Go(func() { s.xds.Run(watching) })
	}
	failed := make(chan error, 1)
	go func() { failed <- s.grpc.Serve(s.address.Listener()) }()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve gRPC on %s: %w", s.Addr(), err), s.stop())
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.health.look()
	if s.cfg.DrainDelay > 0 {
		<-time.After(s.cfg.DrainDelay)
	}
	return s.stop()
}

// stop lets requests under way finish.
func (s *Server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.StopTimeout)
	defer cancel()
	s.health.Shutdown()
	s.end()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.grpc.GracefulStop()
	}()
	err := s.json.http.Shutdown(ctx)
	select {
	case <-drained:
	case <-ctx.Done():
		s.grpc.Stop()
		<-drained
		err = errors.Join(err, fmt.Errorf("stop: requests of Envoy were cut off after %v", s.cfg.StopTimeout))
	}
	return errors.Join(err, s.json.Close())
}
