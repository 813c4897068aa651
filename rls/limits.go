package rls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/rlsconfig"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/service"
)

// limits is a configuration at work. It does not change.
type limits struct {
	config *rlsconfig.Config
	ready  []*ready // by ID
}

// ready is a limit at work.
type ready struct {
	*rlsconfig.Limit
	prepared *policy.Prepared // nil: it is unlimited, or none passes
	shown    *pb.RateLimitResponse_RateLimit
	shares   bool // some values count together
}

// prepare makes a configuration ready. An error holds nothing.
func prepare(s *service.Service, c *rlsconfig.Config, by policy.Algorithm) (*limits, error) {
	l := &limits{config: c, ready: make([]*ready, len(c.Limits()))}
	for i, of := range c.Limits() {
		r := &ready{Limit: of, shown: &pb.RateLimitResponse_RateLimit{
			Name: of.Label, RequestsPerUnit: of.Requests, Unit: pb.RateLimitResponse_RateLimit_Unit(of.Unit),
		}}
		r.shares = slices.ContainsFunc(of.Path, func(s rlsconfig.Step) bool { return s.Share })
		if of.Multiplier > 1 {
			r.shown.UnitMultiplier = wrapperspb.UInt32(of.Multiplier)
		}
		if !of.Unlimited && of.Requests > 0 {
			mode := policy.Enforce
			if of.Shadow {
				mode = policy.Shadow
			}
			var err error
			r.prepared, err = s.Prepare(of.Name, policy.Limit{N: uint64(of.Requests), Per: of.Period(), Algorithm: by}, mode)
			if err != nil {
				l.release()
				return nil, fmt.Errorf("%s:%d: limit %s: %w", of.File, of.Line, of.Name, err)
			}
		}
		l.ready[i] = r
	}
	return l, nil
}

// use has the limits found by their names.
func (l *limits) use() {
	for _, r := range l.ready {
		if r.prepared != nil {
			r.prepared.Use()
		}
	}
}

func (l *limits) release() {
	if l == nil {
		return
	}
	for _, r := range l.ready {
		if r != nil && r.prepared != nil {
			r.prepared.Release()
		}
	}
}

// live is the limits in use, and the files that they are of.
type live struct {
	now     atomic.Pointer[limits] // nil: there are none yet
	loads   atomic.Uint64
	trouble atomic.Bool // the newest files are not in use
	reload  chan struct{}
}

// readLimits reads the files for the first time: a server does not start with wrong ones, which would let pass
// what should be limited.
func (s *Server) readLimits() error {
	if s.cfg.Limits == "" {
		return nil
	}
	c, err := rlsconfig.Load(s.cfg.Limits, s.options())
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		return fmt.Errorf("the limits of --rls-config are wrong:\n%w\ncorrect them ('weir limits import' reads them), or start without --rls-config", faults)
	}
	if err != nil {
		return fmt.Errorf("--rls-config: %w", err)
	}
	return s.replace(c)
}

func (s *Server) options() rlsconfig.Options {
	return rlsconfig.Options{MergeDomains: s.cfg.MergeDomains}
}

// replace puts a configuration in use. Requests under way keep the old one.
func (s *Server) replace(c *rlsconfig.Config) error {
	made, err := prepare(s.service, c, s.cfg.Algorithm)
	if err != nil {
		return err
	}
	old := s.live.now.Swap(made)
	made.use()
	old.release()
	s.live.loads.Add(1)
	s.log.Info("rate limit service: limits are in use", "from", cmp.Or(s.cfg.Limits, s.cfg.XDS.Addr), "domains", c.Domains(), "limits", len(c.Limits()))
	return nil
}

// takeFiles puts limits in use.
func (s *Server) takeFiles(files []byte) error {
	c, err := rlsconfig.Parse(files, s.options())
	if err != nil {
		return err
	}
	return s.replace(c)
}

// watch puts the files' limits in use whenever they change, until ctx ends.
func (s *Server) watch(ctx context.Context) {
	if s.cfg.Limits == "" {
		return
	}
	file := filewatch.File{
		Path: s.cfg.Limits, What: "limits", Gone: "put it back",
		Read:  rlsconfig.Read,
		InUse: func() filewatch.Hash { return s.live.now.Load().config.Content() },
		Take:  func(_ string, data []byte) error { return s.takeFiles(data) },
		Report: func(err error) {
			s.live.trouble.Store(err != nil)
			if err == nil {
				return
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				s.log.Error("rate limit service: limits", "problem", line)
			}
		},
	}
	file.Watch(ctx, s.live.reload)
}

// Reload asks for the files to be read again, soon.
func (s *Server) Reload() {
	select {
	case s.live.reload <- struct{}{}:
	default: // they are about to be read
	}
}
