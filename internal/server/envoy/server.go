// Package envoy is the listener for Envoy. It serves Envoy's rate limit service v3 by gRPC, with the configuration of
// envoyproxy/ratelimit. Kuadrant's variant of the service is served too.
//
// Invariants. One call of service.Allow decides all descriptors of a request, all or none: a denied one takes nothing
// from the others. Each request identifies its caller, by its token, else by the certificate of its connection.
//
// Package service decides; package node opens and runs the listener.
package envoy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/tracing"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// Server is the listener for Envoy of a service. Create it with New; a Server runs once.
type Server struct {
	service *service.Service
	cfg     Config // defaults applied, valid
	log     *slog.Logger
	tls     *tls.Config // nil: none
	live    live
	grpc    *grpc.Server
	xds     *XDSClient // nil: limits come from files, or policies
	streams places     // of the quota service
	buckets places
	ending  context.Context // ends when streams are to end
	end     context.CancelFunc

	listener.Address
	draining atomic.Bool
	calls    [calls]atomic.Uint64
	took     [calls]access.Timer
	failed   atomic.Uint64
}

const (
	// maxRequestBytes bounds a message: Envoy's have some hundred bytes.
	maxRequestBytes = 256 << 10
	// maxStreams bounds the requests under way of one connection.
	maxStreams = 1024
	// maxHeaderBytes bounds the metadata of a request.
	maxHeaderBytes = 16 << 10
	// streamWorkers is how many goroutines wait for requests, with a stack that has grown already. Growing the stack of
	// a new goroutine would take a sixth of a request's time. More requests at the same time get goroutines of their
	// own.
	streamWorkers = 128
	// pingsApart is how often a client may ping, at most.
	pingsApart = 5 * time.Second
	// pingAfter is after how long without a message a client is pinged, and has to answer. So quotas do not wait for long on a broken
	// connection: see quotaDelay.
	pingAfter = 5 * time.Second
)

// New returns a Server for svc that does not listen yet, with its limits read. It fails with a *engine.Error of
// CodeInvalidConfig that names the field at fault, or with all that is wrong with the limits.
func New(svc *service.Service, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{service: svc, cfg: cfg, log: cfg.Logger, tls: cfg.TLS}
	for i := range s.took {
		s.took[i] = svc.Timer("rls", callNames[i])
	}
	s.live.reload = concurrency.NewSignal()
	s.ending, s.end = context.WithCancel(context.Background())
	if err := s.readLimits(); err != nil {
		return nil, err
	}
	if cfg.XDS.Addr != "" {
		cfg.XDS.Logger = cfg.Logger
		s.xds = NewXDSClient(cfg.XDS, s.takeFiles)
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(handshake{insecure.NewCredentials(), s}), grpc.ConnectionTimeout(cfg.RequestTimeout),
		grpc.MaxRecvMsgSize(maxRequestBytes), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: cfg.IdleTimeout, Time: pingAfter, Timeout: pingAfter}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(streamWorkers), grpc.ForceServerCodecV2(newCodec()),
	)
	s.grpc.RegisterService(s.envoyService(), s)
	s.grpc.RegisterService(s.kuadrantService(), s)
	s.streams, s.buckets = newPlaces(maxQuotaStreams, maxOwnQuotaStreams), newPlaces(maxQuotaBuckets, maxOwnQuotaBuckets)
	rlqs.RegisterRateLimitQuotaServiceServer(s.grpc, quotaServer{server: s})
	grpc_health_v1.RegisterHealthServer(s.grpc, healthServer{server: s})
	return s, nil
}

// Listen opens Config.Addr. Clients that connect wait until Run. After TakeOver, and a second time, it does nothing.
func (s *Server) Listen() error { return s.Address.Listen(s.cfg.Addr, s.cfg.MaxConns) }

// Run serves until ctx is done and then stops: requests under way are answered, within StopTimeout, and
// connections close. It returns nil after a clean stop. It calls Listen when the caller has not.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.log.Info("serving Envoy's rate limit service", "addr", s.Addr())
	if access.OpenToOthers(s.Addr()) && !s.service.Locked() {
		s.log.Warn("other machines can reach the address for Envoy, and there is no tokens file: anybody who reaches it can use up limits", "addr", s.Addr())
	}
	var running sync.WaitGroup
	watching, end := context.WithCancel(context.WithoutCancel(ctx))
	defer running.Wait()
	defer end()
	running.Go(func() { s.watch(watching) })
	if s.xds != nil {
		running.Go(func() { s.xds.Run(watching) })
	}
	failed := make(chan error, 1)
	go func() { failed <- s.grpc.Serve(s.Listener()) }()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve gRPC on %s: %w", s.Addr(), err), s.stop())
	case <-ctx.Done():
	}
	s.draining.Store(true)
	if s.cfg.DrainDelay > 0 {
		<-time.After(s.cfg.DrainDelay)
	}
	return s.stop()
}

// stop lets requests under way finish.
func (s *Server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.StopTimeout)
	defer cancel()
	s.end()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.grpc.GracefulStop()
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-drained
		return fmt.Errorf("stop: requests of Envoy were cut off after %v", s.cfg.StopTimeout)
	}
}

// Config has the settings of a Server. The zero value of each field stands for its default.
type Config struct {
	// Addr is 127.0.0.1:8081 by default. Health is NOT_SERVING for DrainDelay. RequestTimeout is of handshakes.
	listener.Settings

	// Limits is the file or folder with the configuration, as envoyproxy/ratelimit has it. It is read at the start,
	// again when it changes, and at Reload. Default "": the policies decide, by the key of each descriptor.
	Limits string
	// XDS is the management server that the limits come from, in place of Limits. Until it has answered, requests fail
	// as unavailable.
	XDS XDSConfig
	// Algorithm is how its limits are kept. Default Window.
	Algorithm admit.Algorithm
	// Tracer makes spans of requests; nil: there are none.
	Tracer *tracing.Tracer
	// Headers says which header fields answers ask Envoy to add to responses: HeadersDraft or HeadersNone.
	// Default HeadersDraft.
	Headers string
}

// What Config.Headers may be.
const (
	HeadersDraft = "draft" // RateLimit-Policy, RateLimit and Retry-After, as the HTTP listener writes them
	HeadersNone  = "none"
)

var headersWords = []string{HeadersDraft, HeadersNone}

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.Settings = c.Settings.WithDefaults("127.0.0.1:8081")
	c.Headers = cmp.Or(c.Headers, HeadersDraft)
	return c
}

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field outside what
// it may be. New does the same, and reads Limits.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if err := c.Settings.Validate(); err != nil {
		return err
	}
	if c.XDS.Addr != "" {
		if c.Limits != "" {
			return settings.Invalid("XDS.Addr", "limits come from files or from a management server: give --rls-config or --rls-xds")
		}
		if err := c.XDS.Validate(); err != nil {
			return settings.Invalid("XDS.Addr", err.Error())
		}
	}
	if !slices.Contains(headersWords, c.Headers) {
		return settings.Invalid("Headers", fmt.Sprintf("%q: must be draft or none", c.Headers))
	}
	if c.Algorithm > admit.GCRA {
		return settings.Invalid("Algorithm", fmt.Sprintf("%v: must be window, fixed or gcra", c.Algorithm))
	}
	return nil
}

// Opening holds the address of a Server that is still starting. It closes each connection at once, so that Envoy treats
// the service as unavailable and does not wait. TakeOver passes the address to the Server.
type Opening = listener.Opening

// Open listens on cfg.Addr, so that an address in use shows before any long work. Close it if no Server takes it over.
func Open(cfg Config) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return listener.OpenListener(cfg.Addr, cfg.MaxConns, cfg.Logger, func(net.Conn) {})
}

// Figures implements service.Listener.
func (s *Server) Figures() access.ListenerFigures {
	f := access.ListenerFigures{Name: "rls", Failed: s.failed.Load()}
	for i := range s.calls {
		f.Requests = append(f.Requests, access.ListenerRequests{Kind: callNames[i], Count: s.calls[i].Load()})
	}
	f.Now = []access.ListenerRequests{{Kind: "quota_stream", Count: s.streams.taken()}, {Kind: "quota_bucket", Count: s.buckets.taken()}}
	s.Connections(&f)
	return f
}

// Alarms implements service.Listener.
func (s *Server) Alarms() (list []api.Alarm) {
	if s.live.trouble.Load() {
		list = append(list, api.Alarm{Code: "rls_config_bad", Message: "the newest limits of --rls-config are invalid or unreadable, and the previous ones apply: the server's log says why"})
	}
	switch x := s.xds; {
	case x == nil:
	case x.Refused():
		list = append(list, api.Alarm{Code: "rls_config_bad", Message: "the newest limits of the management server " + s.cfg.XDS.Addr + " are not in use, because they are wrong; those before them are: the server's log says why"})
	case !x.Connected():
		list = append(list, api.Alarm{Code: "rls_xds_away", Message: "the management server " + s.cfg.XDS.Addr + " does not answer: the limits that it sent last are in use, and those of --rls fail while there are none"})
	}
	return list
}
