// Package llm keeps budgets of tokens and money for OpenAI-compatible APIs: chat completions, completions,
// responses and embeddings, streamed or not.
//
// A [Transport] reserves what a request may need before it is sent: its prompt by an estimate, and its answer by
// max_tokens. It settles the reservation by the usage that the provider reports, and gives back what a
// failed, canceled or cut request did not use. The limits are policies of a Weir server that count a cost:
//
//	limits:
//	- {name: team-tokens, keys: "team:*", limit: 1000000, per: 1d, cost: tokens}
//	- {name: team-spend, keys: "team:*", limit: 50000000, per: month, cost: microusd}
//	- {name: team-requests, keys: "team:*", limit: 600, per: 1m}
//
// Concurrent requests can't overspend a budget: what may be used is taken before they run. A budget is exceeded only by what
// a provider reports beyond max_tokens and the estimated prompt, which counts as debt.
package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
)

// Budget reserves and settles. A *client.Client is one.
type Budget interface {
	Reserve(ctx context.Context, r client.Reservation, checks ...client.Check) (api.ReserveAnswer, error)
	SettleCosts(ctx context.Context, id string, used map[string]uint64, debt bool) (api.SettleAnswer, error)
}

// Price is what tokens of a model cost, in US dollars per million tokens.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// microUSD is the price of some tokens, rounded up: a dollar per million tokens is a millionth per token.
func (p Price) microUSD(input, output uint64) uint64 {
	return uint64(math.Ceil(p.Input*float64(input) + p.Output*float64(output)))
}

// Config says how a Transport works.
type Config struct {
	// Budget has the limits. Required.
	Budget Budget
	// Key returns the key that a request is counted by, such as "team:7". Required. An error refuses the request with 401.
	Key func(*http.Request) (string, error)
	// Base sends the requests. Default http.DefaultTransport.
	Base http.RoundTripper
	// Prices of models by name; "*" is for all others, which get 400 without it. nil: no request has a cost microusd.
	Prices map[string]Price
	// MaxTokens is what an answer may have if the request does not say. Default 4096.
	MaxTokens uint64
	// TTL is how long a request may run, up to 24 h. What is not settled by then stays used. Default 10 m.
	TTL time.Duration
	// SettleTimeout bounds the settling of one request, which goes on after its client has left. Default 10 s.
	SettleTimeout time.Duration
	// FailOpen lets requests pass while the budget can't be asked. Default: they get 503.
	FailOpen bool
	// Logger takes settlements that fail. Default slog.Default().
	Logger *slog.Logger
}

// maxBody bounds a request's body, and an answer that is not streamed.
const maxBody = 32 << 20

// Transport is an http.RoundTripper that keeps a budget. It is safe for concurrent use.
type Transport struct{ cfg Config }

// New returns a Transport. It is an error if a required field is missing.
func New(cfg Config) (*Transport, error) {
	if cfg.Budget == nil || cfg.Key == nil {
		return nil, errors.New("llm: Budget and Key are required")
	}
	if cfg.TTL < 0 || cfg.TTL > 24*time.Hour {
		return nil, fmt.Errorf("llm: TTL of %v: must be up to 24h", cfg.TTL)
	}
	cfg.TTL = cmp.Or(cfg.TTL, 10*time.Minute)
	cfg.MaxTokens = cmp.Or(cfg.MaxTokens, 4096)
	cfg.SettleTimeout = cmp.Or(cfg.SettleTimeout, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Base == nil {
		cfg.Base = http.DefaultTransport
	}
	return &Transport{cfg}, nil
}

// Proxy returns a handler that forwards requests to an API through the Transport.
func (t *Transport) Proxy(upstream *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Header.Del("Accept-Encoding") // the transport then reads what it compresses itself
		},
		Transport:     t,
		FlushInterval: -1,
	}
}

// RoundTrip implements http.RoundTripper. A denial is an answer with status 429, and no error.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Body == nil || r.Body == http.NoBody {
		return t.cfg.Base.RoundTrip(r)
	}
	if !isJSON(r.Header) { // a server may read it as JSON all the same
		return refusal(r, http.StatusUnsupportedMediaType, "unsupported_type", "the budget reads requests with Content-Type: application/json alone", 0), nil
	}
	key, err := t.cfg.Key(r)
	if err != nil {
		return refusal(r, http.StatusUnauthorized, "no_key", err.Error(), 0), nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	_ = r.Body.Close() // it was read
	if err != nil {
		return nil, err
	}
	if len(body) > maxBody {
		return refusal(r, http.StatusRequestEntityTooLarge, "body_too_large", "the body is larger than 32 MiB", 0), nil
	}
	a, body, err := t.ask(r.URL.Path, body)
	if err != nil {
		return refusal(r, http.StatusBadRequest, "invalid_request", err.Error(), 0), nil
	}
	if a.unpriced != "" {
		return refusal(r, http.StatusBadRequest, "no_price", "the model "+strconv.Quote(a.unpriced)+" has no price: add it, or one for \"*\"", 0), nil
	}
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	made, err := t.cfg.Budget.Reserve(r.Context(), client.Reservation{TTL: t.cfg.TTL}, client.Check{Key: key, N: 1, Costs: a.costs(a.prompt, a.most)})
	switch {
	case err != nil && r.Context().Err() != nil:
		return nil, err
	case err != nil && isNever(err):
		return refusal(r, http.StatusTooManyRequests, "budget_too_small", "the request may need more than the whole budget: lower max_tokens", 0), nil
	case isRefused(err):
		t.cfg.Logger.Warn("llm: the server rejected the reservation; the request is refused", "key", key, "error", err)
		return refusal(r, http.StatusBadRequest, "budget_refused", "the budget can't be asked for "+strconv.Quote(key)+": "+err.Error(), 0), nil
	case err != nil && t.cfg.FailOpen:
		t.cfg.Logger.Warn("llm: could not ask for the budget; the request passes uncounted", "key", key, "error", err)
		return t.cfg.Base.RoundTrip(out)
	case err != nil:
		t.cfg.Logger.Warn("llm: could not ask for the budget; the request is refused", "key", key, "error", err)
		return refusal(r, http.StatusServiceUnavailable, "budget_unreachable", "the budget can't be asked now: try again", time.Second), nil
	case !made.Allowed:
		return refusal(r, http.StatusTooManyRequests, "budget_exceeded", "the budget of "+key+" has not enough left for this request"+deniedBy(made), made.RetryAfter()), nil
	}
	a.id, a.key = made.ID, key
	answer, err := t.cfg.Base.RoundTrip(out)
	if err != nil {
		if r.Context().Err() != nil { // the provider may have begun, and bill it
			a.settle(a.prompt, a.unseen)
		} else {
			a.settle(0, 0)
		}
		return nil, err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		a.settle(0, 0)
		return answer, nil
	}
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	answer.Body = &meter{body: answer.Body, asked: a, stream: media == "text/event-stream"}
	return answer, nil
}

func isJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && media == "application/json"
}

// isRefused reports whether Weir understood the question and refuses it: asking again, or another node, changes nothing.
func isRefused(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Status >= http.StatusBadRequest && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests
}

// isNever reports whether a request asks for more than its limits ever have.
func isNever(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Code == api.CodeInvalidCount && refused.Field == "n"
}

func deniedBy(made api.ReserveAnswer) string {
	for _, l := range made.Limits {
		if !l.Allowed {
			return " (" + l.Name + ": " + strconv.FormatUint(l.Remaining, 10) + " of " + strconv.FormatUint(l.Limit, 10) + " left)"
		}
	}
	return ""
}

// refusal is an answer as these APIs write errors.
func refusal(r *http.Request, status int, code, message string, after time.Duration) *http.Response {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": "budget_error", "code": code}}) // strings
	h := http.Header{"Content-Type": {"application/json"}}
	if after > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
