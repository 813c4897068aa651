package envoy

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const quotaName = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"

// The bounds of streams, of which an Envoy has one for each of its workers or filters, and of their buckets.
const (
	maxQuotaStreams    = 4096
	maxOwnQuotaStreams = 1024
	maxQuotaBuckets    = 100_000
	maxOwnQuotaBuckets = 10_000
	maxBucketEntries   = 64
	maxBucketBytes     = 2048
	quotaAsks          = 32 // buckets of a stream that limits are asked of at the same time

	// quotaBatch is for how long a stream begins to ask. An owner that does not answer takes 3 s more, and the disk quotaFlush at most: an
	// answer is under way within 5 s of quotaDelay.
	quotaBatch = time.Second
	quotaFlush = time.Second
)

// quotaServer is envoy.service.rate_limit_quota.v3.RateLimitQuotaService.
type quotaServer struct {
	rlqs.UnimplementedRateLimitQuotaServiceServer
	server *Server
}

// quotaStream is one stream of an Envoy.
type quotaStream struct {
	*Server
	caller  access.Caller
	began   time.Time
	domain  string
	buckets map[string]*openBucket // by key
	full    bool                   // a bucket was refused
}

// openBucket is a bucket of a stream.
type openBucket struct {
	quotaBucket
	id         *rlqs.BucketId
	descriptor *ratelimit.RateLimitDescriptor
	key        string
	leave      func()
	hold       string // ID of its hold
	asked      time.Duration
	renewals   uint64
	failed     bool // the last renewal

	limits   []string                         // whose hold it was last
	reported struct{ allowed, denied uint64 } // that are not counted as their decisions yet

	// What came of the last renewal: a rule that needs no hold, or what is held.
	rule    *typev3.RateLimitStrategy
	held    []admit.Changed
	failure error
}

// StreamRateLimitQuotas serves a stream until its client leaves, its identity ends, or the server stops. What the Envoy has stays
// held until it has expired.
func (q quotaServer) StreamRateLimitQuotas(stream rlqs.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	q.server.calls[callQuotas].Add(1)
	s := &quotaStream{Server: q.server, began: time.Now(), buckets: map[string]*openBucket{}}
	if err := s.identify(stream.Context()); err != nil {
		return s.fail(err)
	}
	leave, ok := s.streams.enter(s.caller)
	if !ok {
		s.calls[callRefusals].Add(1)
		return s.fail(status.Errorf(codes.ResourceExhausted, "too many quota streams are open: %d of all clients, or %d of this one; let Envoys share a stream, or use another identity", maxQuotaStreams, maxOwnQuotaStreams))
	}
	defer leave()
	defer func() {
		for _, b := range s.buckets {
			s.leave(b)
		}
	}()
	if err := s.run(stream); err != nil {
		return s.fail(err)
	}
	return nil
}

func (s *quotaStream) identify(ctx context.Context) (err error) {
	if s.caller, err = s.callerOf(ctx); err != nil {
		return err
	}
	if err := s.service.Permit(s.caller, access.Decides); err != nil {
		return unauthorized(err, s.caller)
	}
	return nil
}

func (s *quotaStream) run(stream rlqs.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	reports := make(chan *rlqs.RateLimitQuotaUsageReports)
	go func() { // until the stream ends, which it does with run
		defer close(reports)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case reports <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(quotaRenew)
	defer tick.Stop()
	for {
		var m *rlqs.RateLimitQuotaUsageReports // nil: it is time to renew
		var open bool
		select {
		case <-s.ending.Done():
			return status.Error(codes.Unavailable, "the server stops")
		case m, open = <-reports:
			if !open {
				return nil
			}
		case <-tick.C:
		}
		if err := s.identify(ctx); err != nil {
			return err
		}
		answer := new(rlqs.RateLimitQuotaResponse)
		if m == nil {
			s.abandonIdle(answer)
		} else if err := s.reported(m, answer); err != nil {
			return err
		}
		if err := s.renew(ctx, answer); err != nil {
			return err
		}
		if len(answer.BucketAction) == 0 {
			continue
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func (s *quotaStream) now() time.Duration { return time.Since(s.began) }

// reported takes in a message. The first report of a bucket subscribes to it.
func (s *quotaStream) reported(m *rlqs.RateLimitQuotaUsageReports, answer *rlqs.RateLimitQuotaResponse) error {
	if s.domain == "" {
		s.domain = m.Domain
	}
	if s.domain == "" {
		return invalid(api.CodeInvalidParameter, "domain", "the first report has no domain: Envoy's filter has a setting of that name")
	}
	now := s.now()
	for _, usage := range m.BucketQuotaUsages {
		s.calls[callReports].Add(1)
		d, key, err := bucketDescriptor(s.domain, usage.GetBucketId())
		if err != nil {
			return err
		}
		if err := s.service.PermitDecision(s.caller, key); err != nil {
			return err
		}
		b := s.buckets[key]
		if b == nil {
			leave, ok := s.Server.buckets.enter(s.caller)
			if !ok {
				s.refuse(usage.BucketId, answer)
				continue
			}
			b = &openBucket{id: usage.BucketId, descriptor: d, key: key, leave: leave, hold: rand.Text(), asked: now - quotaRenew}
			b.busy = now
			s.buckets[key] = b
		}
		b.report(now, usage.GetTimeElapsed().AsDuration(), usage.NumRequestsAllowed, usage.NumRequestsDenied)
		b.reported.allowed += usage.NumRequestsAllowed
		b.reported.denied += usage.NumRequestsDenied
	}
	return nil
}

// decided counts what was reported as decisions of the limits that a bucket has a hold of.
func (s *quotaStream) decided(b *openBucket) {
	s.service.Reported(b.limits, b.reported.allowed, b.reported.denied)
	b.reported.allowed, b.reported.denied = 0, 0
}

// leave ends a bucket.
func (s *quotaStream) leave(b *openBucket) {
	s.decided(b)
	b.leave()
}

// bucketDescriptor is a bucket's ID as a descriptor, and its key. The entries are by key, since an ID has no order.
func bucketDescriptor(domain string, id *rlqs.BucketId) (*ratelimit.RateLimitDescriptor, string, error) {
	if n := len(id.GetBucket()); n == 0 || n > maxBucketEntries {
		return nil, "", invalid(api.CodeInvalidParameter, "bucket_id", "the ID of a bucket must have 1 to 64 entries: set bucket_id_builder in Envoy's filter")
	}
	d, entries, size := new(ratelimit.RateLimitDescriptor), []ConfigEntry(nil), 0
	for _, key := range slices.Sorted(maps.Keys(id.Bucket)) {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: id.Bucket[key]})
		entries = append(entries, ConfigEntry{Key: key, Value: id.Bucket[key]})
		size += len(key) + len(id.Bucket[key])
	}
	if size > maxBucketBytes {
		return nil, "", invalid(api.CodeInvalidParameter, "bucket_id", "the ID of a bucket has more than 2,048 bytes: use shorter values in bucket_id_builder")
	}
	return d, LimitKey(domain, entries), nil
}

// refuse abandons a bucket for which there is no place: Envoy then does as its filter says for buckets without an assignment.
func (s *quotaStream) refuse(id *rlqs.BucketId, answer *rlqs.RateLimitQuotaResponse) {
	if s.calls[callRefusals].Add(1); !s.full {
		s.log.Warn("rate limit quota service: refused a bucket because there are too many: use fewer entries in bucket_id_builder, or another identity", "most", maxQuotaBuckets, "of one client", maxOwnQuotaBuckets)
	}
	s.full = true
	abandon(id, answer)
}

func abandon(id *rlqs.BucketId, answer *rlqs.RateLimitQuotaResponse) {
	answer.BucketAction = append(answer.BucketAction, &bucketAction{BucketId: id, BucketAction: &rlqs.RateLimitQuotaResponse_BucketAction_AbandonAction_{
		AbandonAction: &rlqs.RateLimitQuotaResponse_BucketAction_AbandonAction{},
	}})
}

type bucketAction = rlqs.RateLimitQuotaResponse_BucketAction

// abandonIdle abandons buckets without requests.
func (s *quotaStream) abandonIdle(answer *rlqs.RateLimitQuotaResponse) {
	for key, b := range s.buckets {
		if s.now()-b.busy > quotaIdle {
			s.calls[callAbandons].Add(1)
			s.leave(b)
			delete(s.buckets, key)
			abandon(b.id, answer)
		}
	}
}

// renew asks the limits of all buckets that are due, and appends their assignments. What is held is on disk by then: a server that is
// killed assigns none of it again. A bucket whose limits can't be asked gets none, and the earlier one expires.
func (s *quotaStream) renew(ctx context.Context, answer *rlqs.RateLimitQuotaResponse) (err error) {
	var asking sync.WaitGroup
	var asked []*openBucket
	places := make(chan struct{}, quotaAsks)
	now := s.now()
	for _, b := range s.buckets {
		if now-b.asked < quotaRenew*9/10 {
			continue
		}
		if s.now()-now > quotaBatch { // the others are due at the next tick; what is assigned is to be sent soon
			break
		}
		b.asked = now
		places <- struct{}{}
		asked = append(asked, b)
		asking.Go(func() {
			defer func() { <-places }()
			b.rule, b.held, b.failure = s.ask(b)
		})
	}
	asking.Wait()
	ctx, cancel := context.WithTimeout(ctx, quotaFlush)
	defer cancel()
	unflushed := error(nil)
	if slices.ContainsFunc(asked, func(b *openBucket) bool { return len(b.held) > 0 }) {
		unflushed = s.service.Flushed(ctx)
	}
	for _, b := range asked {
		switch failure := cmp.Or(b.failure, unflushed); {
		case b.rule != nil:
			b.allowed, b.counted = 0, nil // they do not count for a limit that the bucket gets later
			b.limits = nil
			s.decided(b)
		case failure == nil:
			if b.assign(s.now(), b.held) {
				b.rule = b.quota.strategy()
			}
			b.limits = b.limits[:0]
			for i := range b.held {
				b.limits = append(b.limits, b.held[i].Name)
			}
			s.decided(b)
		default:
			b.failure = failure
			if code := request.As(failure).Code; code == api.CodeUnauthorized || code == api.CodeForbidden {
				err = failure
			} else if s.failed.Add(1); !b.failed {
				s.log.Warn("rate limit quota service: a bucket gets no assignment", "bucket", b.key, "problem", failure)
			}
		}
		if b.failed = b.failure != nil; b.rule != nil {
			answer.BucketAction = append(answer.BucketAction, &bucketAction{BucketId: b.id, BucketAction: &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
				QuotaAssignmentAction: &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{AssignmentTimeToLive: durationpb.New(quotaLife), RateLimitStrategy: b.rule},
			}})
		}
	}
	return err
}

// ask renews the hold of a bucket, or returns a rule that needs none.
func (s *quotaStream) ask(b *openBucket) (*typev3.RateLimitStrategy, []admit.Changed, error) {
	a, err := s.newAsk(take, &pb.RateLimitRequest{Domain: s.domain, Descriptors: []*ratelimit.RateLimitDescriptor{b.descriptor}})
	defer a.free()
	if err != nil {
		return nil, nil, err
	}
	p := &a.parts[0]
	switch {
	case !p.policies && p.limit == nil, !p.policies && (p.limit.Unlimited || p.shadow):
		if err := s.service.PermitDecision(s.caller, b.key); err != nil {
			return nil, nil, err
		}
		return blanket(typev3.RateLimitStrategy_ALLOW_ALL), nil, nil
	case !p.policies && p.shown.requests == 0:
		return blanket(typev3.RateLimitStrategy_DENY_ALL), nil, nil
	}
	r := p.request(s.cfg.Algorithm)
	r.N = 0
	b.renewals++
	held, err := s.service.Hold(s.caller, r, b.hold, b.renewals, func(name string, limit engine.Limit) admit.Hold { return b.order(s.now(), name, limit) })
	if err == nil && len(held) == 0 { // no policy that enforces
		return blanket(typev3.RateLimitStrategy_ALLOW_ALL), nil, nil
	}
	return nil, held, err
}

// places bounds what clients have open.
type places struct {
	most int // for all clients; a quarter is for clients that have proved no identity
	each int // for one client: an identity, or an address

	mu            sync.Mutex          // guards all below
	own           access.CallerCounts // by client
	all, unproved int
}

func newPlaces(most, each int) places {
	return places{most: most, each: each, own: access.CallerCounts{}}
}

func (p *places) taken() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uint64(p.all)
}

// enter counts one of a client, unless the client, or all clients, have reached their bound. leave ends it.
func (p *places) enter(c access.Caller) (leave func(), ok bool) {
	unproved := 0
	if !c.Known() {
		unproved = 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= p.most || unproved > 0 && p.unproved >= p.most/4 || p.own.Of(c) >= int64(p.each) {
		return nil, false
	}
	add := func(n int) {
		p.own.Add(c, int64(n))
		p.all, p.unproved = p.all+n, p.unproved+n*unproved
	}
	add(1)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		add(-1)
	}, true
}
