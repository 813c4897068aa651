package node_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector: what it gets by gRPC and HTTP.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []received
}

// received is a span, with the node that it is of.
type received struct {
	*otlp.Span
	node string
}

func (r *receiver) Export(_ context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range in.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				r.spans = append(r.spans, received{s, attribute(&otlp.Span{Attributes: resource.Resource.Attributes}, "service.instance.id")})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// overGRPC and overHTTP return the value of --traces for a receiver.
func (r *receiver) overGRPC(t *testing.T) string {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return "grpc://" + l.Addr().String()
}

func (r *receiver) overHTTP(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var in collector.ExportTraceServiceRequest
		body, err := io.ReadAll(q.Body)
		if err == nil {
			err = proto.Unmarshal(body, &in)
		}
		if err != nil || q.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", q.URL, err)
		}
		_, _ = r.Export(q.Context(), &in)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// await returns the spans of a trace once there are those with all names.
func (r *receiver) await(t *testing.T, trace string, names ...string) (spans []received) {
	t.Helper()
	transporttest.Eventually(t, "spans "+strings.Join(names, ", "), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		spans = spans[:0]
		for _, s := range r.spans {
			if hexOf(s.TraceId) == trace {
				spans = append(spans, s)
			}
		}
		return !slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(spans, func(s received) bool { return s.Name == name })
		})
	})
	return spans
}

func attribute(s *otlp.Span, name string) string {
	for _, a := range s.Attributes {
		if a.Key == name {
			if list := a.Value.GetArrayValue(); list != nil {
				return list.Values[0].GetStringValue()
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func hexOf(id []byte) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range id {
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

// traced sends a request as the part of a trace, which is sampled or not, and returns the answer.
func traced(t *testing.T, n *node.Node, method, path, body, trace, flags string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if trace != "" {
		r.Header.Set("traceparent", "00-"+trace+"-00f067aa0ba902b7-"+flags)
	}
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	if path == "/metrics" {
		r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const (
	trace1, trace2, trace3 = "4bf92f3577b34da6a3ce929d0e0e4736", "5bf92f3577b34da6a3ce929d0e0e4736", "6bf92f3577b34da6a3ce929d0e0e4736"
	secretKey              = "user:secret"
)

// A request that its caller traces has spans of its decision and of the flush that it waited for, whichever protocol it and the collector
// use. Others have none. Spans have no keys unless asked for, histograms and the log have the trace.
func TestTracesOfANode(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"", "?keys=true"} {
		r, cfg, log := &receiver{}, config(t, t.TempDir()), &lockedBuffer{}
		to := r.overHTTP
		if options != "" {
			to = r.overGRPC
		}
		cfg.Traces.To = to(t) + options
		cfg.Policies.File = written(t, "limits: [{name: few, keys: 'user:*', limit: 1, per: 1h}]\n")
		cfg.RLS.Addr, cfg.RLS.Limits = "127.0.0.1:0", rlsLimits(t)
		cfg.Logger = log.logger()
		n := nodetest.Open(t, cfg)
		for range 2 {
			traced(t, n, "POST", "/v1/allow", `{"key":"`+secretKey+`"}`, trace1, "01")
		}
		traced(t, n, "POST", "/v1/hits?durable=true", secretKey, trace2, "01")
		traced(t, n, "POST", "/v1/hits?durable=true", secretKey, trace3, "00")
		traced(t, n, "POST", "/v1/hits?durable=true", secretKey, "", "")
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace1+"-00f067aa0ba902b7-01")
		if _, err := decideAt(ctx, t, n, insecure.NewCredentials(), "ip", "secret"); err != nil {
			t.Fatal(err)
		}
		spans := r.await(t, trace1, "POST /v1/allow", "ShouldRateLimit", "decision")
		outcomes := map[string]int{}
		for _, s := range spans {
			if s.Name == "decision" {
				outcomes[attribute(s.Span, "weir.limits")+" "+attribute(s.Span, "weir.outcome")+" "+attribute(s.Span, "weir.denied_by")]++
			}
			if has := strings.Contains(s.String(), "secret"); has != (options != "" && s.Name == "decision") {
				t.Errorf("options %q: a span has the key: %v: %v", options, has, s)
			}
		}
		if outcomes["few allowed "] != 1 || outcomes["few denied few"] != 1 || len(outcomes) != 3 {
			t.Errorf("decisions: %v", outcomes)
		}
		flushed := r.await(t, trace2, "POST /v1/hits", "journal flush")
		if len(flushed) != 2 {
			t.Errorf("spans of a durable hit: %v", flushed)
		}
		if got := traced(t, n, "GET", "/metrics", "", "", ""); !strings.Contains(got, `# {trace_id="`+trace2+`"}`) || !strings.HasSuffix(got, "# EOF\n") {
			t.Error("no exemplar among the metrics")
		}
		if !strings.Contains(log.String(), "trace_id="+trace1) {
			t.Errorf("the log has no trace: %s", log)
		}
		nodetest.Close(t, n)
		r.mu.Lock()
		for _, s := range r.spans {
			if id := hexOf(s.TraceId); id != trace1 && id != trace2 {
				t.Errorf("a span that nobody asked for: %v", s)
			}
		}
		r.mu.Unlock()
	}
}

// A trace of a decision and of a query goes on at the nodes that answer.
func TestTracesOfACluster(t *testing.T) {
	r, members := &receiver{}, transporttest.New(t, 3, nil)
	nodes, to := make([]*node.Node, 3), r.overGRPC(t)
	file := written(t, "limits: [{name: all, keys: 'user:*', limit: 1000, per: 1h, where: strict}]\n")
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	startNodes(t, nodes, members, func(_ int, cfg *node.Config) { cfg.Journal.Replicas, cfg.Policies.File, cfg.Traces.To = 1, file, to })
	// Each asks again: at first one node may hold all keys, and a limit has no owner.
	transporttest.Eventually(t, "a query that crosses nodes", func() bool {
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			traced(t, nodes[0], "GET", "/v1/count?window=1m&key="+key, "", trace3, "01")
		}
		return r.crosses("query at node", "query for a node")
	})
	transporttest.Eventually(t, "a decision that crosses nodes", func() bool {
		for i, trace := range []string{trace1, trace2} { // one of the two is not the owner
			traced(t, nodes[i], "POST", "/v1/allow", `{"key":"user:a"}`, trace, "01")
		}
		return r.crosses("decision at owner", "decision for a node")
	})
}

// crosses reports whether there is a call to another node, and the span of the node that was called.
func (r *receiver) crosses(call, serves string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := map[string]received{}
	for _, s := range r.spans {
		if s.Name == call {
			calls[string(s.SpanId)] = s
		}
	}
	return slices.ContainsFunc(r.spans, func(s received) bool {
		asks, crosses := calls[string(s.ParentSpanId)]
		asker := attribute(s.Span, "weir.node") // of a decision
		return crosses && s.Name == serves && s.node != asks.node && (asker == "" || asker == asks.node)
	})
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *lockedBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
