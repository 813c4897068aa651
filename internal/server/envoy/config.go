package envoy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/policy"
)

// This file reads the configuration of envoyproxy/ratelimit unchanged, and finds the limit of a descriptor:
//
//	domain: edge
//	descriptors:
//	  - key: remote_address
//	    rate_limit:
//	      unit: minute
//	      requests_per_unit: 10
//
// ReadConfig reads a file or a folder of files. ParseConfig returns the LimitConfig, or all that is wrong, by file and
// line. A LimitConfig does not change, and knows no server and no engine.
//
// Invariant: each ConfigLimit has a unique Name, which depends on its place alone. The use of keys is kept under that
// name, so reading the files again grants no fresh allowance.

// LimitConfig is the limits of all domains.
type LimitConfig struct {
	domains map[string]*level
	limits  []*ConfigLimit
	content filewatch.Hash
}

// ConfigLimit is one `rate_limit`.
type ConfigLimit struct {
	ID     int    // its place in Config.Limits
	Name   string // rls/DOMAIN/KEY_VALUE/...: what keys have used is kept by it
	Label  string // its `name`, for `replaces` and answers; may be ""
	Domain string
	Path   []ConfigStep // from the domain to the limit

	Requests   uint32 // per period; 0: none passes
	Unit       ConfigUnit
	Multiplier uint32 // how many units the period has; at least 1
	Unlimited  bool   // all pass; Requests, Unit and Multiplier are 0

	Shadow   bool     // it denies nothing
	Quota    bool     // it denies only if all limits of the request that have Quota do
	Detailed bool     // decisions are counted by all values of the descriptor too (detailed_metric)
	Replaces []string // labels of limits that this one replaces in a request

	File string
	Line int
}

// ConfigStep is one descriptor on the way to a limit.
type ConfigStep struct {
	Key   string
	Value string // "": any; a * in it stands for any text, also none
	Share bool   // all values that fit count together
	Count bool   // decisions are counted by the value too (value_to_metric)
}

// Period is the time that Requests are for; 0 if the limit is unlimited.
func (l *ConfigLimit) Period() time.Duration { return time.Duration(l.Multiplier) * l.Unit.Duration() }

// Limits lists all limits, by ID. The list is not to be changed.
func (c *LimitConfig) Limits() []*ConfigLimit { return c.limits }

// Domains is how many domains there are.
func (c *LimitConfig) Domains() int { return len(c.domains) }

// Content is the hash of what the Config was made of.
func (c *LimitConfig) Content() filewatch.Hash { return c.content }

// ConfigUnit is a unit of time, by the numbers of envoy.service.ratelimit.v3.
type ConfigUnit uint8

// The units. A month has 30 days and a year 365, as in envoyproxy/ratelimit.
const (
	UnitSecond ConfigUnit = iota + 1
	Minute
	Hour
	Day
	Month
	Year
	Week
)

type unitWord struct {
	word string
	is   time.Duration
}

var unitTable = []unitWord{
	{}, {"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour},
	{"month", 30 * 24 * time.Hour}, {"year", 365 * 24 * time.Hour}, {"week", 7 * 24 * time.Hour},
}

// Duration is the length of a unit; 0 if the unit is unknown.
func (u ConfigUnit) Duration() time.Duration {
	if int(u) < len(unitTable) {
		return unitTable[u].is
	}
	return 0
}

func (u ConfigUnit) String() string {
	if int(u) < len(unitTable) && u > 0 {
		return unitTable[u].word
	}
	return "unknown"
}

// Pattern returns the keys that the limit applies to, in the syntax of policies, and the key that they are counted by
// ("": the key itself). It is for people to read: not every pattern is valid in a policy.
func (l *ConfigLimit) Pattern() (keys, by string) {
	captures, shared := 0, false
	capture := func() string {
		captures++
		return fmt.Sprintf("{v%d}", captures)
	}
	escaped := func(text string, name bool) string { return string(appendEscaped(nil, text, name)) }
	k := escaped(l.Domain, false)
	b := k
	for _, s := range l.Path {
		part := ":" + escaped(s.Key, true) + "="
		k, b = k+part, b+part
		if s.Value == "" {
			c := capture()
			k, b = k+c, b+c
			continue
		}
		for i, text := range strings.Split(s.Value, "*") {
			if i > 0 && (text != "" || i == strings.Count(s.Value, "*")) {
				c := capture()
				if k += c; s.Share {
					shared = true
					b += "any"
				} else {
					b += c
				}
			}
			k, b = k+escaped(text, false), b+escaped(text, false)
		}
	}
	if !shared {
		b = ""
	}
	return k, b
}

// LimitKey returns the key that counts a request's descriptor: DOMAIN:KEY=VALUE:KEY=VALUE. An entry without a value is
// its key alone. The characters % : / are written %25 %3A %2F, and = in a key is %3D. So different descriptors have
// different keys, and a {name} of a policy matches one value. A key longer than engine.MaxKeyBytes is cut and ends in
// %~ and a hash of the whole.
func LimitKey(domain string, entries []ConfigEntry) string {
	size := len(domain)
	for _, e := range entries {
		size += 2 + len(e.Key) + len(e.Value)
	}
	b := make([]byte, 0, min(size+16, 4*engine.MaxKeyBytes))
	b = appendEscaped(b, domain, false)
	for _, e := range entries {
		b = appendEntry(append(b, ':'), e.Key, e.Value)
	}
	return string(shorten(b, engine.MaxKeyBytes))
}

func appendEntry(b []byte, key, value string) []byte {
	if b = appendEscaped(b, key, true); value != "" {
		b = appendEscaped(append(b, '='), value, false)
	}
	return b
}

// shorten cuts a text of more than most bytes; it then ends in %~ and a hash of the whole.
func shorten(b []byte, most int) []byte {
	const hashed = 2 + 2*sha256.Size
	if len(b) <= most {
		return b
	}
	sum := sha256.Sum256(b)
	return hex.AppendEncode(append(b[:most-hashed], "%~"...), sum[:])
}

func appendEscaped(b []byte, text string, name bool) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '%':
			b = append(b, "%25"...)
		case c == ':':
			b = append(b, "%3A"...)
		case c == '/':
			b = append(b, "%2F"...)
		case c == '=' && name:
			b = append(b, "%3D"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// namePrefix begins the names of all limits of a Config.
const namePrefix = policy.ListenerPrefix

// maxNameBytes is the longest name of a limit.
const maxNameBytes = 64

// limitName returns the name of the limit at a place: rls/DOMAIN/KEY_VALUE/KEY. Characters that a name can't have
// become -. A name that was changed or is too long is cut and ends in a hash of the place.
func limitName(domain string, path []ConfigStep) string {
	var b strings.Builder
	b.WriteString(domain)
	for _, s := range path {
		b.WriteString("/" + s.Key)
		if s.Value != "" {
			b.WriteString("_" + s.Value)
		}
	}
	place, changed := b.String(), strings.Contains(domain, "/")
	name := []byte(namePrefix + place)
	for i, c := range name[len(namePrefix):] {
		if !isNameByte(c) {
			name[len(namePrefix)+i] = '-'
			changed = true
		}
	}
	for _, s := range path {
		changed = changed || strings.Contains(s.Key+s.Value, "/")
	}
	if !changed && len(name) <= maxNameBytes {
		return string(name)
	}
	const digits = 8
	hash := sha256.New()
	writePart := func(text string) { // no two places are the same bytes
		hash.Write([]byte(text))
		hash.Write([]byte{0})
	}
	writePart(domain)
	for _, s := range path {
		writePart(s.Key)
		writePart(s.Value)
	}
	name = name[:min(len(name), maxNameBytes-1-2*digits)]
	return string(name) + "-" + hex.EncodeToString(hash.Sum(nil)[:digits])
}

func isNameByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("._/-", c) >= 0
}

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
