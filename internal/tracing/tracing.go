// Package tracing sends spans of requests to an OpenTelemetry collector, by OTLP over gRPC or HTTP.
//
// A trace begins where the caller asks for one, by the sampled flag of its W3C traceparent. With a ratio it also begins at a share of the
// requests that come without one. A request that is not sampled has no Span, and a nil Span does nothing.
//
// Invariants:
//   - Without a Tracer, From costs one load.
//   - No request waits for the collector. Spans that do not fit into the queue are dropped and counted.
//   - A span has no key, unless the URL says keys=true.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// maxWaiting bounds the spans that are not sent yet: some 8 MiB.
	maxWaiting = 4096
	// sendEvery is how long a span waits for others.
	sendEvery = time.Second
	// exportTime bounds one attempt to send spans, and closeTime the last one.
	exportTime, closeTime = 10 * time.Second, 3 * time.Second
)

// Target is a URL that says where spans go: grpc://host:4317, grpcs://, http://host:4318/v1/traces or https://, with the options
// ratio=0.01 and keys=true.
type Target struct {
	Host  string  // host:port
	Plain bool    // without TLS
	ratio float64 // of requests without a traceparent that are sampled, 0 to 1
	keys  bool    // spans have the keys of decisions
	grpc  bool
	url   string // as the exporters read it
}

// ParseTarget reads a URL.
func ParseTarget(text string) (t Target, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return t, errors.New("write grpc://host:4317 or http://host:4318/v1/traces; credentials come from the variable OTEL_EXPORTER_OTLP_HEADERS")
	}
	t.Host = u.Host
	switch u.Scheme {
	case "grpc", "http":
		t.grpc, t.Plain, u.Scheme = u.Scheme == "grpc", true, "http"
	case "grpcs", "https":
		t.grpc, u.Scheme = u.Scheme == "grpcs", "https"
	default:
		return t, fmt.Errorf("%s:// is not known: write grpc://, grpcs://, http:// or https://", u.Scheme)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	for name, values := range u.Query() {
		switch name {
		case "ratio":
			t.ratio, err = strconv.ParseFloat(values[0], 64)
			if err != nil || !(t.ratio >= 0 && t.ratio <= 1) {
				return t, fmt.Errorf("ratio=%s: write a number from 0 to 1", values[0])
			}
		case "keys":
			if t.keys, err = strconv.ParseBool(values[0]); err != nil {
				return t, fmt.Errorf("keys=%s: write true or false", values[0])
			}
		default:
			return t, fmt.Errorf("the option %s is not known: there are ratio and keys", name)
		}
	}
	u.RawQuery = ""
	t.url = u.String()
	return t, nil
}

// Config sets up a Tracer.
type Config struct {
	Target  Target
	Node    string // this node's name, "": the collector's user names it by OTEL_RESOURCE_ATTRIBUTES
	Version string
	Logger  *slog.Logger
}

// Tracer begins spans, and sends them until Close. A nil Tracer begins none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	target   Target
	counts   *counts
}

// tracers is how many Tracers the process has. Without any, no context has a Span.
var tracers atomic.Int32

// Open begins to send spans. It does not wait for the collector.
func Open(ctx context.Context, cfg Config) (*Tracer, error) {
	var sends otlptrace.Client
	if cfg.Target.grpc {
		sends = otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(cfg.Target.url), otlptracegrpc.WithTimeout(exportTime))
	} else {
		sends = otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(cfg.Target.url), otlptracehttp.WithTimeout(exportTime))
	}
	about := []attribute.KeyValue{attribute.String("service.name", "weir"), attribute.String("service.version", cfg.Version)}
	if cfg.Node != "" {
		about = append(about, attribute.String("service.instance.id", cfg.Node))
	}
	res, err := resource.New(ctx, resource.WithAttributes(about...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exports, err := otlptrace.New(ctx, sends)
	if err != nil {
		return nil, err
	}
	is := &counts{log: cfg.Logger, to: cfg.Target.Host}
	queue := sdktrace.NewBatchSpanProcessor(exporter{exports, is}, sdktrace.WithMaxQueueSize(maxWaiting), sdktrace.WithBatchTimeout(sendEvery))
	t := &Tracer{target: cfg.Target, counts: is, provider: sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(processor{queue, is}), sdktrace.WithResource(res),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Target.ratio))),
	)}
	t.tracer = t.provider.Tracer("github.com/weir-counter/weir")
	tracers.Add(1)
	return t, nil
}

// Close sends the spans that wait, within closeTime.
func (t *Tracer) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	tracers.Add(-1)
	if err := t.provider.Shutdown(ctx); err != nil {
		t.counts.log.Warn("traces: the last spans could not be sent", "to", t.target.Host, "error", err)
	}
	return nil
}

// Stats are the figures of a Tracer.
type Stats struct {
	Sent    uint64 `metric:"weir_trace_spans_total,result=sent" doc:"Spans of --traces: sent, failed (the collector did not take them) or dropped because the queue was full."`
	Failed  uint64 `metric:"weir_trace_spans_total,result=failed"`
	Dropped uint64 `metric:"weir_trace_spans_total,result=dropped"`
	Waiting int64  `metric:"weir_trace_spans_waiting" doc:"Spans that are not sent yet."`
}

// Stats returns the figures.
func (t *Tracer) Stats() Stats {
	return Stats{t.counts.sent.Load(), t.counts.failed.Load(), t.counts.dropped.Load(), t.counts.waiting.Load()}
}

// counts says what became of spans.
type counts struct {
	sent, failed, dropped atomic.Uint64
	waiting               atomic.Int64
	failing               atomic.Bool
	log                   *slog.Logger
	to                    string
}

// processor lets as many spans wait as the queue behind it takes. That queue drops more without counting them.
type processor struct {
	sdktrace.SpanProcessor
	*counts
}

// OnEnd implements sdktrace.SpanProcessor.
func (p processor) OnEnd(s sdktrace.ReadOnlySpan) {
	if p.waiting.Add(1) > maxWaiting {
		p.waiting.Add(-1)
		p.dropped.Add(1)
		return
	}
	p.SpanProcessor.OnEnd(s)
}

// exporter counts the spans that were sent, and logs once when that begins to fail.
type exporter struct {
	sdktrace.SpanExporter
	*counts
}

// ExportSpans implements sdktrace.SpanExporter. An error would go to a handler of the whole process.
func (e exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	if err == nil {
		e.sent.Add(uint64(len(spans)))
	} else {
		e.failed.Add(uint64(len(spans)))
	}
	switch was := e.failing.Swap(err != nil); {
	case err != nil && !was:
		e.log.Warn("traces: the collector does not take spans; they are lost until it does", "to", e.to, "error", err)
	case err == nil && was:
		e.log.Info("traces: the collector takes spans again", "to", e.to)
	}
	return nil
}
