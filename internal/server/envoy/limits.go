package envoy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/policy"
)

// limits is a configuration at work. It does not change.
type limits struct {
	config *LimitConfig
	ready  []*ready // by ID
}

// ready is a limit at work.
type ready struct {
	*ConfigLimit
	prepared *admit.Prepared // nil: it is unlimited, or none passes
	shown    *shown
	shares   bool // some values count together
	counts   bool // decisions are counted by values too
}

// prepare makes a configuration ready. An error holds nothing.
func (s *Server) prepare(c *LimitConfig) (_ *limits, err error) {
	l := &limits{config: c, ready: make([]*ready, len(c.Limits()))}
	for i, written := range c.Limits() {
		r := &ready{ConfigLimit: written, shown: newShown(written.Label, written.Requests, pb.RateLimitResponse_RateLimit_Unit(written.Unit), written.Multiplier)}
		r.shares = slices.ContainsFunc(written.Path, func(s ConfigStep) bool { return s.Share })
		r.counts = written.CountsValues()
		if !written.Unlimited && written.Requests > 0 {
			if r.prepared, err = s.service.Prepare(written.Name, limitOf(written, s.cfg.Algorithm), modeOf(written)); err != nil {
				l.release()
				return nil, fmt.Errorf("%s:%d: limit %s: %w", written.File, written.Line, written.Name, err)
			}
		}
		l.ready[i] = r
	}
	return l, nil
}

func limitOf(written *ConfigLimit, by admit.Algorithm) admit.Limit {
	return admit.Limit{N: uint64(written.Requests), Per: written.Period(), Algorithm: by}
}

func modeOf(written *ConfigLimit) policy.Mode {
	if written.Shadow {
		return policy.Shadow
	}
	return policy.Enforce
}

// Limits implements service.Limited.
func (s *Server) Limits() []policy.Policy {
	if now := s.live.now.Load(); now != nil {
		return Policies(now.config, s.cfg.Algorithm)
	}
	return nil
}

// Policies lists the limits of a configuration, for people to read. What is unlimited is no limit.
func Policies(c *LimitConfig, by admit.Algorithm) (list []policy.Policy) {
	for _, written := range c.Limits() {
		if written.Unlimited {
			continue
		}
		keys, counted := written.Pattern()
		limit := limitOf(written, by)
		limit.Burst = limit.N
		list = append(list, policy.Policy{Name: written.Name, Keys: keys, By: counted, Limit: limit, Mode: modeOf(written), Line: written.Line})
	}
	return list
}

// use registers the limits under their names.
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

// live has the limits in use.
type live struct {
	now     atomic.Pointer[limits] // nil: there are none yet
	loads   atomic.Uint64
	trouble atomic.Bool // the newest files are not in use
	reload  concurrency.Signal
}

// CheckLimits fails if New would for the files of Config.Limits: a start finds that out before it opens anything.
func (c Config) CheckLimits() error {
	if c.Addr == "" || c.Limits == "" {
		return nil
	}
	_, err := c.loadLimits()
	return err
}

func (c Config) loadLimits() (*LimitConfig, error) {
	loaded, err := LoadConfig(c.Limits)
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		return nil, fmt.Errorf("the limits of --rls-config are wrong:\n%w\ncorrect them ('weir limits --rls-config %s' checks them), or start without --rls-config", faults, c.Limits)
	}
	if err != nil {
		return nil, fmt.Errorf("--rls-config: %w", err)
	}
	return loaded, nil
}

// readLimits reads the files for the first time. A server does not start with wrong files, because requests that should
// be limited would pass.
func (s *Server) readLimits() error {
	if s.cfg.Limits == "" {
		return nil
	}
	c, err := s.cfg.loadLimits()
	if err != nil {
		return err
	}
	return s.replace(c)
}

// replace puts a configuration in use. Requests under way keep the old one.
func (s *Server) replace(c *LimitConfig) error {
	made, err := s.prepare(c)
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
	c, err := ParseConfig(files)
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
		Read:  ReadConfig,
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
	s.live.reload.Raise()
}
