package tracing

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Span is one operation of a request that is sampled. All methods of a nil Span do nothing and return nil or "".
type Span struct {
	span   trace.Span
	tracer *Tracer
}

// Begin begins the span of a request with the header fields traceparent and tracestate, or returns nil if it is not sampled.
func (t *Tracer) Begin(name string, header map[string][]string) *Span {
	if t == nil {
		return nil
	}
	parent := field(header, "Traceparent", "traceparent")
	if parent == "" && t.target.ratio == 0 {
		return nil
	}
	under := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{
		"traceparent": parent, "tracestate": field(header, "Tracestate", "tracestate"),
	})
	if caller := trace.SpanContextFromContext(under); !caller.IsSampled() && (caller.IsValid() || t.target.ratio == 0) {
		return nil
	}
	_, s := t.tracer.Start(under, name, trace.WithSpanKind(trace.SpanKindServer))
	if !s.IsRecording() {
		return nil
	}
	return &Span{s, t}
}

// field returns a field of a header that has it once, in the spelling of HTTP, or of gRPC and NATS.
func field(header map[string][]string, spellings ...string) string {
	for _, name := range spellings {
		if values := header[name]; len(values) == 1 {
			return values[0]
		}
	}
	return ""
}

// Header returns the fields that continue the trace at another node, nil if there is no trace.
func (s *Span) Header() map[string][]string {
	if s == nil {
		return nil
	}
	fields, header := propagation.MapCarrier{}, map[string][]string{}
	propagation.TraceContext{}.Inject(s.in(), fields)
	for name, value := range fields {
		header[name] = []string{value}
	}
	return header
}

func (s *Span) in() context.Context { return trace.ContextWithSpan(context.Background(), s.span) }

type key struct{}

// Into returns ctx with the span.
func (s *Span) Into(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, s)
}

// From returns the span of a context, which may be nil.
func From(ctx context.Context) *Span {
	if tracers.Load() == 0 || ctx == nil {
		return nil
	}
	s, _ := ctx.Value(key{}).(*Span)
	return s
}

// Child begins a part of the operation.
func (s *Span) Child(name string) *Span { return s.child(name, trace.SpanKindInternal) }

// Call begins a request to another node.
func (s *Span) Call(name string) *Span { return s.child(name, trace.SpanKindClient) }

func (s *Span) child(name string, kind trace.SpanKind) *Span {
	if s == nil {
		return nil
	}
	_, c := s.tracer.tracer.Start(s.in(), name, trace.WithSpanKind(kind))
	return &Span{c, s.tracer}
}

// Past adds a part of the operation that has ended.
func (s *Span) Past(name string, began, ended time.Time, failed bool) *Span {
	if s == nil {
		return nil
	}
	_, c := s.tracer.tracer.Start(s.in(), name, trace.WithTimestamp(began))
	if failed {
		c.SetStatus(codes.Error, "")
	}
	c.End(trace.WithTimestamp(ended))
	return &Span{c, s.tracer}
}

// Link says that another operation is part of what this one waits for.
func (s *Span) Link(other *Span) {
	if s != nil && other != nil {
		s.span.AddLink(trace.Link{SpanContext: other.span.SpanContext()})
	}
}

// Set sets an attribute to a number, a list, or a text that is not empty.
func (s *Span) Set(name string, value any) {
	if s == nil {
		return
	}
	switch v := value.(type) {
	case int:
		s.span.SetAttributes(attribute.Int(name, v))
	case []string:
		s.span.SetAttributes(attribute.StringSlice(name, v))
	case string:
		if v != "" {
			s.span.SetAttributes(attribute.String(name, v))
		}
	}
}

// Keys reports whether spans may have keys.
func (s *Span) Keys() bool { return s != nil && s.tracer.target.keys }

// Fail says that the operation failed, with a code such as api.Code. A message may have keys in it.
func (s *Span) Fail(code string) {
	if s != nil {
		s.span.SetStatus(codes.Error, code)
	}
}

// End ends the operation.
func (s *Span) End() {
	if s != nil {
		s.span.End()
	}
}

// TraceID returns the trace's ID, 32 hex digits.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Logger returns a logger whose records of a request that is sampled have trace_id and span_id.
func Logger(log *slog.Logger) *slog.Logger { return slog.New(handler{log.Handler()}) }

type handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if s := From(ctx); s != nil {
		r.AddAttrs(slog.String("trace_id", s.TraceID()), slog.String("span_id", s.span.SpanContext().SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
