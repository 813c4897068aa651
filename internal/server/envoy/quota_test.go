package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/ingest"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// quotas is a stream of an Envoy.
type quotas struct {
	testing.TB
	rlqs.RateLimitQuotaService_StreamRateLimitQuotasClient
}

func (s *testServer) quotas(ctx context.Context) quotas {
	s.Helper()
	stream, err := rlqs.NewRateLimitQuotaServiceClient(s.conn).StreamRateLimitQuotas(ctx)
	if err != nil {
		s.Fatal(err)
	}
	return quotas{s, stream}
}

func bucketOf(pairs ...string) *rlqs.BucketId {
	id := &rlqs.BucketId{Bucket: map[string]string{}}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		id.Bucket[key] = value
	}
	return id
}

// report reports use of a bucket.
func (q quotas) report(domain string, id *rlqs.BucketId, allowed uint64) {
	q.Helper()
	if err := q.Send(&rlqs.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: []*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{
		{BucketId: id, TimeElapsed: durationpb.New(time.Second), NumRequestsAllowed: allowed},
	}}); err != nil && !errors.Is(err, io.EOF) { // the server has ended the stream: Recv says why
		q.Fatal(err)
	}
}

// next is the next answer as text.
func (q quotas) next() string {
	answer, err := q.Recv()
	if err != nil {
		return status.Code(err).String() + ": " + status.Convert(err).Message()
	}
	var parts []string
	for _, action := range answer.BucketAction {
		text := "abandon"
		if assignment := action.GetQuotaAssignmentAction(); assignment != nil {
			switch s := assignment.RateLimitStrategy.Strategy.(type) {
			case *typev3.RateLimitStrategy_BlanketRule_:
				text = s.BlanketRule.String()
			case *typev3.RateLimitStrategy_TokenBucket:
				text = fmt.Sprintf("%d + %d/%v", s.TokenBucket.MaxTokens, s.TokenBucket.TokensPerFill.Value, s.TokenBucket.FillInterval.AsDuration())
			}
			if assignment.AssignmentTimeToLive.AsDuration() != quotaLife {
				text += " for another time"
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

const quotaLimits = `
domain: edge
descriptors:
- {key: env, value: prod, descriptors: [{key: name, value: api, rate_limit: {unit: minute, requests_per_unit: 640}}]}
- {key: free, rate_limit: {unlimited: true}}
- {key: none, rate_limit: {unit: minute, requests_per_unit: 0}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
`

// A first report subscribes; what is assigned is held of the limit, and other requests find the rest.
func TestQuotas(t *testing.T) {
	t.Parallel()
	const policies = `limits: [{name: api, keys: "edge:env=prod:name=api", limit: 640, per: 1m}]`
	for _, o := range []options{{limits: quotaLimits}, {policies: policies}} {
		s := newTestServer(t, o)
		q := s.quotas(t.Context())
		q.report("edge", bucketOf("name=api", "env=prod"), 1)
		if got := q.next(); got != "49 + 75/1m0s" {
			t.Errorf("first: %s", got)
		}
		if got := s.ask("edge", "env=prod name=api"); got != "OK, ok 514/640" { // 125 are held, and 1 is taken
			t.Errorf("the rest: %s", got)
		}
		another := s.quotas(t.Context())
		another.report("edge", bucketOf("name=api", "env=prod"), 1)
		if got := another.next(); got != "49 + 75/1m0s" {
			t.Errorf("another: %s", got)
		}
		if got := s.askFor("edge", 390, "env=prod name=api"); got != "OVER, over 0/640" {
			t.Errorf("more than is left: %s", got)
		}
	}
	s := newTestServer(t, options{limits: quotaLimits})
	q := s.quotas(t.Context())
	for pair, want := range map[string]string{"free=1": "ALLOW_ALL", "none=1": "DENY_ALL", "shadow=1": "ALLOW_ALL", "nothing=1": "ALLOW_ALL"} {
		q.report("edge", bucketOf(pair), 1)
		if got := q.next(); got != want {
			t.Errorf("%s: %s, want %s", pair, got, want)
		}
	}
	go func() { _ = s.stop() }()
	if got := q.next(); got != "Unavailable: the server stops" {
		t.Error(got)
	}
	if figures := s.Figures(); figures.Requests[callQuotas].Count != 1 || figures.Requests[callReports].Count != 4 {
		t.Errorf("%+v", figures)
	}
}

// What Envoys report counts as decisions of the limits that they have a hold of, also the last reports of a stream. What is open is known.
func TestQuotaUseIsDecisions(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, options{policies: `limits: [{name: api, keys: "edge:name=api", limit: 640, per: 1m}]`})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q := s.quotas(ctx)
	report := func(allowed, denied uint64) {
		t.Helper()
		if err := q.Send(&rlqs.RateLimitQuotaUsageReports{Domain: "edge", BucketQuotaUsages: []*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{
			{BucketId: bucketOf("name=api"), TimeElapsed: durationpb.New(time.Second), NumRequestsAllowed: allowed, NumRequestsDenied: denied},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(allowed, denied, open uint64) {
		t.Helper()
		for until := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			a, _ := s.engine.Count("limit:api:allowed", time.Minute)
			d, _ := s.engine.Count("limit:api:denied", time.Minute)
			list, _ := s.service.Decisions()
			now := s.Figures().Now
			if a.Lower == allowed && d.Lower == denied && len(list) == 1 && list[0].Allowed == allowed && list[0].Denied == denied && now[0].Count == open && now[1].Count == open {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("%d allowed, %d denied, %+v, open %+v", a.Lower, d.Lower, list, now)
			}
		}
	}
	report(5, 2)
	q.next()
	wants(5, 2, 1)
	report(3, 0)
	for until := time.Now().Add(3 * time.Minute); s.calls[callReports].Load() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the second report does not come")
		}
	}
	cancel()
	wants(8, 2, 0)
}

// Role and prefix come before all else, and a stream ends with its identity.
func TestQuotaRights(t *testing.T) {
	t.Parallel()
	identities := map[string]string{"reader": "permissions: [{role: read}]", "envoy": `permissions: [{role: decide, keys: ["edge:"]}]`}
	s := locked(t, options{limits: quotaLimits}, identities)
	for name, ctx := range map[string]context.Context{
		"PermissionDenied": as(t.Context(), "reader"), "Unauthenticated": t.Context(),
	} {
		if got := s.quotas(ctx).next(); !strings.HasPrefix(got, name) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for want, wrong := range map[string]struct {
		domain string
		id     *rlqs.BucketId
	}{
		"PermissionDenied: forbidden":                                        {"other", bucketOf("name=api")},
		"InvalidArgument: invalid_parameter: the first report has no domain": {"", bucketOf("name=api")},
		"InvalidArgument: invalid_parameter: the ID of a bucket":             {"edge", bucketOf()},
	} {
		q := s.quotas(as(t.Context(), "envoy"))
		q.report(wrong.domain, wrong.id, 1)
		if got := q.next(); !strings.HasPrefix(got, want) {
			t.Errorf("%+v: %s", wrong, got)
		}
	}
	q := s.quotas(as(t.Context(), "envoy"))
	q.report("edge", bucketOf("free=1"), 1)
	if got := q.next(); got != "ALLOW_ALL" {
		t.Error(got)
	}
	delete(identities, "envoy")
	set, err := auth.Parse("tokens", []byte(tokenFile(identities)))
	if err != nil {
		t.Fatal(err)
	}
	s.tokens.Live().Use(set)
	got := q.next()
	for got == "ALLOW_ALL" { // renewed a moment before
		got = q.next()
	}
	if !strings.HasPrefix(got, "Unauthenticated") {
		t.Error(got)
	}
}

// Streams and buckets of one client are bounded, and what it gives up is free for it again. Buckets without requests are abandoned.
func TestQuotaBounds(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, options{limits: quotaLimits})
	s.streams.each, s.Server.buckets.each = 2, 2
	first := s.quotas(t.Context())
	for i, want := range []string{"ALLOW_ALL", "ALLOW_ALL", "abandon"} {
		first.report("edge", bucketOf(fmt.Sprintf("free=%d", i)), 1)
		if got := first.next(); got != want {
			t.Errorf("bucket %d: %s", i, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	second := s.quotas(ctx)
	second.report("edge", bucketOf("free=1"), 1)
	if got := second.next(); got != "abandon" {
		t.Error(got)
	}
	if got := s.quotas(t.Context()).next(); !strings.HasPrefix(got, "ResourceExhausted: too many quota streams") {
		t.Error(got)
	}
	cancel()
	for until := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		third := s.quotas(t.Context())
		third.report("edge", bucketOf("free=2"), 1)
		if got := third.next(); got == "abandon" {
			break
		} else if time.Now().After(until) {
			t.Fatal(got)
		}
	}
	left := 0
	idle := &quotaStream{Server: s.Server, began: time.Now().Add(-time.Hour), buckets: map[string]*openBucket{}}
	for i, key := range []string{"a", "b"} {
		b := &openBucket{id: bucketOf(key), leave: func() { left++ }}
		b.busy = time.Hour - time.Duration(i)*quotaIdle
		idle.buckets[key] = b
	}
	answer := new(rlqs.RateLimitQuotaResponse)
	idle.abandonIdle(answer)
	if left != 1 || len(answer.BucketAction) != 1 || answer.BucketAction[0].GetAbandonAction() == nil || len(maps.Collect(maps.All(idle.buckets))) != 1 {
		t.Errorf("%d left, %v", left, answer)
	}
}

// A banned key gets no quota, whatever is left of its limit. What an Envoy may still use of an earlier one stays held.
func TestQuotaOfABannedKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0, "limit: 1000, per: 10s, deny_for: 1h")
	s := &simStream{id: "a"}
	renew := func(after time.Duration) (held, earlier uint64) {
		t.Helper()
		f.now += after
		s.report(f.now, time.Second, 10, 10)
		s.seq++
		made, err := f.live.Hold(admit.Request{Key: "k"}, s.id, "", s.seq, func(name string, limit engine.Limit) admit.Hold { return s.order(f.now, name, limit) })
		if err != nil || !s.assign(f.now, made) {
			t.Fatal(made, err)
		}
		earlier, _ = s.earlierOf(f.now, made[0].Limit, s.earlier)
		return made[0].Used, earlier
	}
	if renew(time.Second); s.quota.burst == 0 {
		t.Fatal("no quota")
	}
	if err := f.live.Ban("all", "k", time.Hour); err != nil {
		t.Fatal(err)
	}
	if held, earlier := renew(quotaRenew); s.quota != (quota{}) || held <= earlier || earlier == 0 {
		t.Errorf("%+v, and %d are held for %d", s.quota, held, earlier)
	}
	if got := s.quota.strategy().GetBlanketRule(); got != typev3.RateLimitStrategy_DENY_ALL {
		t.Error(got)
	}
	for range 10 {
		renew(quotaRenew)
	}
	if held, earlier := renew(quotaRenew); s.quota != (quota{}) || held > 1 || earlier > 0 {
		t.Errorf("%+v, and %d are held for %d", s.quota, held, earlier)
	}
	if _, err := f.live.Unban("all", "k"); err != nil {
		t.Fatal(err)
	}
	if renew(quotaRenew); s.quota.burst == 0 {
		t.Error("no quota after the ban")
	}
}

// While a limit does not answer, what is reported counts of the others, and counts once.
func TestReportedUseCountsOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0, "limit: 1000, per: 1d}, {name: away, keys: k, limit: 1000, per: 1d, where: global, regions: {eu: 100%}")
	b := quotaBucket{}
	for i, want := range []map[string]uint64{{"all": 100, "away": 100}, {"all": 0, "away": 100}, {"all": 100, "away": 200}, {"all": 0, "away": 200}} {
		if i%2 == 0 {
			b.report(f.now, time.Second, 100, 0)
		}
		used := map[string]uint64{}
		if _, err := f.live.Hold(admit.Request{Key: "k"}, "a", "", uint64(i), func(name string, limit engine.Limit) admit.Hold {
			h := b.order(f.now, name, limit)
			used[name] = h.Used
			return h
		}); err == nil {
			t.Fatal("a limit of another region answers")
		}
		if !maps.Equal(used, want) {
			t.Errorf("renewal %d counts %v, want %v", i, used, want)
		}
	}
}

// disk is a journal whose flushes end when the test says so.
type disk struct {
	ingest.Journal
	asked chan struct{}
	ends  chan error
}

func (d *disk) Sync(ctx context.Context) error {
	select {
	case d.asked <- struct{}{}:
		return <-d.ends
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*disk) Alarms() []api.Alarm { return nil }

// A hold is on disk before its quota is assigned; one that does not get there in time is as one that failed.
func TestQuotasAreOnDisk(t *testing.T) {
	t.Parallel()
	d := &disk{asked: make(chan struct{}), ends: make(chan error)}
	s := newTestServer(t, options{limits: quotaLimits, backend: service.Backend{Journal: d}})
	for _, c := range []struct {
		flush error
		first string
	}{{errors.New("slow"), "DENY_ALL"}, {nil, "49 + 75/1m0s"}} {
		q := s.quotas(t.Context())
		q.report("edge", bucketOf("name=api", "env=prod"), 1)
		<-d.asked
		if got := s.ask("edge", "env=prod name=api"); !strings.HasPrefix(got, "OK, ok 5") && !strings.HasPrefix(got, "OK, ok 3") {
			t.Errorf("nothing is held: %s", got)
		}
		d.ends <- c.flush
		q.report("edge", bucketOf("none=1"), 1)
		if got := q.next(); got != c.first {
			t.Errorf("after the flush, %v: %s", c.flush, got)
		}
	}
}
