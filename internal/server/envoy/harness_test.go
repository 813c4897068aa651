package envoy

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// start is the second at which the clock of a test stands, the beginning of a minute.
var start = time.Unix(1_769_860_800, 0)

// testServer is a server on a loopback port with a real engine, and a client of it.
type testServer struct {
	testing.TB
	*Server
	engine *engine.Engine
	now    *atomic.Int64  // nanoseconds after start, of limits too
	dir    string         // of the limits
	tokens *access.Tokens // of locked
	conn   *grpc.ClientConn
	stop   func() error
}

// options of a test server.
type options struct {
	cfg      Config
	limits   string // of one file; "": the server has none
	policies string
	among    admit.Cluster // nodes and regions, as far as policies know
	tokens   *access.Tokens
	backend  service.Backend
	client   *tls.Config // with TLS
	opening  *Opening    // its address is taken over
}

func newTestServer(t testing.TB, o options) *testServer {
	t.Helper()
	s := &testServer{TB: t, now: new(atomic.Int64), dir: t.TempDir()}
	var err error
	s.engine, err = engine.New(engine.Config{Now: func() time.Time { return start.Add(time.Duration(s.now.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.engine.Close() })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	o.backend.Engine, o.backend.Tokens = s.engine, o.tokens
	if o.policies != "" {
		set, err := policy.Parse("policies.yaml", []byte(o.policies))
		if err != nil {
			t.Fatal(err)
		}
		if o.backend.Policies, err = admit.NewClusterLive(s.engine, set, o.among); err != nil {
			t.Fatal(err)
		}
	}
	svc, err := service.New(o.backend, service.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	o.cfg.Addr, o.cfg.Logger = "127.0.0.1:0", log
	if o.limits != "" {
		s.write("limits.yaml", o.limits)
		o.cfg.Limits = s.dir
	}
	if s.Server, err = New(svc, o.cfg); err != nil {
		t.Fatal(err)
	}
	svc.Attach(s.Server)
	if o.opening != nil {
		s.TakeOver(o.opening)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = s.stop() })
	s.conn = s.dial(o.client)
	return s
}

// dial opens a connection of gRPC, with TLS if there is a configuration.
func (s *testServer) dial(with *tls.Config) *grpc.ClientConn {
	s.Helper()
	creds := insecure.NewCredentials()
	if with != nil {
		creds = credentials.NewTLS(with)
	}
	conn, err := grpc.NewClient(s.Addr(), grpc.WithTransportCredentials(creds))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	return conn
}

// write writes a file of limits, whole at once.
func (s *testServer) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path+".tmp", []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		s.Fatal(err)
	}
}

// descriptor makes one of "key=value key=value", with options after a bar: "a=b | hits 3".
func descriptor(t testing.TB, text string) *ratelimit.RateLimitDescriptor {
	t.Helper()
	text, more, _ := strings.Cut(text, "|")
	d := new(ratelimit.RateLimitDescriptor)
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	for option := range strings.SplitSeq(more, ",") {
		var n uint64
		var unit string
		switch option = strings.TrimSpace(option); {
		case option == "":
		case option == "refund":
			d.IsNegativeHits = true
		case scans(option, "hits %d", &n):
			d.HitsAddend = wrapperspb.UInt64(n)
		case scans(option, "limit %d/%s", &n, &unit):
			d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(n), Unit: typev3.RateLimitUnit(typev3.RateLimitUnit_value[unit])}
		default:
			t.Fatalf("option %q", option)
		}
	}
	return d
}

func scans(text, format string, into ...any) bool {
	n, err := fmt.Sscanf(text, format, into...)
	return err == nil && n == len(into)
}

// newRequest makes one of descriptors separated by semicolons.
func newRequest(t testing.TB, domain string, hits uint32, descriptors string) *pb.RateLimitRequest {
	t.Helper()
	r := &pb.RateLimitRequest{Domain: domain, HitsAddend: hits}
	for text := range strings.SplitSeq(descriptors, ";") {
		if text = strings.TrimSpace(text); text != "" {
			r.Descriptors = append(r.Descriptors, descriptor(t, text))
		}
	}
	return r
}

func (s *testServer) should(ctx context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return pb.NewRateLimitServiceClient(s.conn).ShouldRateLimit(ctx, r)
}

// ask is the answer to descriptors, as text: see short.
func (s *testServer) ask(domain, descriptors string) string {
	s.Helper()
	return s.askFor(domain, 0, descriptors)
}

func (s *testServer) askFor(domain string, hits uint32, descriptors string) string {
	s.Helper()
	answer, err := s.should(s.Context(), newRequest(s, domain, hits, descriptors))
	if err != nil {
		return "error: " + err.Error()
	}
	return short(answer)
}

// short writes an answer as text: OK or OVER, and of each descriptor the same, with LEFT/LIMIT if it has a limit.
func short(answer *pb.RateLimitResponse) string {
	word := map[pb.RateLimitResponse_Code]string{pb.RateLimitResponse_OK: "ok", pb.RateLimitResponse_OVER_LIMIT: "over"}
	parts := []string{strings.ToUpper(word[answer.OverallCode])}
	for _, status := range answer.Statuses {
		text := word[status.Code]
		if l := status.CurrentLimit; l != nil {
			text += fmt.Sprintf(" %d/%d", status.LimitRemaining, l.RequestsPerUnit)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// says checks answers: a line each of `descriptors -> answer`.
func (s *testServer) says(domain, transcript string) {
	s.Helper()
	for line := range strings.Lines(transcript) {
		descriptors, want, found := strings.Cut(strings.TrimSpace(line), " -> ")
		if !found {
			continue
		}
		if got := s.ask(domain, descriptors); got != want {
			s.Errorf("%s\n got %s\nwant %s", descriptors, got, want)
		}
	}
}
