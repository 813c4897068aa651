package llm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/middleware/llm"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

const policies = `limits:
- {name: team-tokens, keys: "team:*", limit: %d, per: 1d, cost: tokens}
- {name: team-spend, keys: "team:*", limit: 1000000000, per: 1d, cost: microusd}
- {name: team-requests, keys: "team:*", limit: 1000000, per: 1d}
`

// world is a Weir server, an API that speaks the protocol, and a proxy between its clients and the API.
type world struct {
	*testing.T
	weir           *client.Client
	weirURL, proxy string

	reported atomic.Uint64 // tokens that the API has reported or sent
	began    chan struct{} // gets an element for each stream that has begun, if it has space
}

func newWorld(t *testing.T, tokens int, change func(*llm.Config)) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "budgets.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, policies, tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	n := nodetest.Start(t, func(cfg *node.Config) { cfg.Policies.File = file })
	c, err := client.New("http://"+n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, weir: c, weirURL: "http://" + n.Addr(), began: make(chan struct{}, 10_000)}
	api := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(api.Close)
	cfg := llm.Config{
		Budget: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Key: func(r *http.Request) (string, error) {
			if team := r.Header.Get("X-Team"); team != "" {
				return "team:" + team, nil
			}
			return "", errors.New("X-Team is missing")
		},
		Prices: map[string]llm.Price{"small": {Input: 0.5, Output: 2}},
	}
	if change != nil {
		change(&cfg)
	}
	transport, err := llm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(transport.Proxy(to))
	t.Cleanup(proxy.Close)
	w.proxy = proxy.URL
	return w
}

// serve is the API: its prompts have 10 tokens, and its answers half of max_tokens. User "slow" gets an endless stream,
// "fail" an error, and "silent" an answer without usage.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	var q struct {
		MaxTokens     uint64 `json:"max_tokens"`
		Stream        bool
		User          string
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		w.Error(err)
	}
	out := q.MaxTokens / 2
	switch {
	case q.User == "fail":
		http.Error(rw, `{"error":{"message":"no"}}`, http.StatusInternalServerError)
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		w.reported.Add(10)
		fmt.Fprint(rw, `{"data":[],"usage":{"prompt_tokens":10,"total_tokens":10}}`)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		w.reported.Add(10 + out)
		fmt.Fprintf(rw, `{"output":[],"usage":{"input_tokens":10,"output_tokens":%d,"total_tokens":%d}}`, out, 10+out)
	case !q.Stream && q.User == "silent":
		fmt.Fprint(rw, `{"choices":[]}`)
	case !q.Stream:
		w.reported.Add(10 + out)
		fmt.Fprintf(rw, `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":%d}}`, out)
	default:
		if !q.StreamOptions.IncludeUsage {
			w.Error("a stream is not asked for its usage")
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		for i := uint64(0); i < out || q.User == "slow"; i++ {
			if _, err := io.WriteString(rw, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"); err != nil {
				return
			}
			rw.(http.Flusher).Flush()
			if i == 0 {
				select {
				case w.began <- struct{}{}:
				default:
				}
			}
			if q.User == "slow" {
				select {
				case <-r.Context().Done():
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}
		w.reported.Add(10 + out)
		fmt.Fprintf(rw, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", out)
	}
}

// ask sends a request through the proxy and returns the status and the body.
func (w *world) ask(ctx context.Context, path, team, body string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.proxy+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Team", team)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(read), err
}

// used is what a team has used of a limit of so many.
func (w *world) used(team, limit string, most uint64) uint64 {
	w.Helper()
	d, err := w.weir.Peek(w.Context(), client.Check{Key: "team:" + team, Limit: limit, N: 1, Costs: map[string]uint64{"tokens": 1, "microusd": 1}})
	if err != nil {
		w.Fatal(err)
	}
	return most - d.Limits[0].Remaining
}

// until waits until a team has used exactly so many tokens: what is settled after an answer was read takes a moment.
func (w *world) until(team string, most, want uint64) {
	w.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got := w.used(team, "team-tokens", most)
		if got == want {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("team %s has used %d tokens, want %d", team, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	const budget = 1_000_000
	w := newWorld(t, budget, nil)
	for _, c := range []struct {
		team, path, body string
		status           int
		tokens           uint64
	}{
		{"chat", "/v1/chat/completions", `{"model":"small","max_tokens":100}`, 200, 60},
		{"stream", "/v1/chat/completions", `{"model":"small","max_tokens":100,"stream":true}`, 200, 60},
		{"responses", "/v1/responses", `{"model":"small","max_tokens":40,"input":"hello"}`, 200, 30},
		{"embeddings", "/v1/embeddings", `{"model":"small","input":"hello"}`, 200, 10},
		{"fail", "/v1/chat/completions", `{"model":"small","user":"fail"}`, 500, 0},
		{"silent", "/v1/chat/completions", `{"model":"small","user":"silent","max_tokens":100}`, 200, 100 + 50/3 + 1},
	} {
		status, text, err := w.ask(t.Context(), c.path, c.team, c.body)
		if err != nil || status != c.status {
			t.Fatalf("%s: %d %s %v", c.team, status, text, err)
		}
		w.until(c.team, budget, c.tokens)
	}
	if got := w.used("chat", "team-spend", 1_000_000_000); got != 10/2+50*2 {
		t.Errorf("%d millionths of a dollar, want 105", got)
	}
	if status, text, _ := w.ask(t.Context(), "/v1/chat/completions", "", `{}`); status != 401 || !strings.Contains(text, "X-Team is missing") {
		t.Errorf("no key: %d %s", status, text)
	}
	if status, text, _ := w.ask(t.Context(), "/v1/chat/completions", "big", `{"model":"small","max_tokens":2000000}`); status != 429 || !strings.Contains(text, "lower max_tokens") {
		t.Errorf("more than the budget: %d %s", status, text)
	}
	for _, bad := range []string{`{"max_tokens":1e5}`, `{"max_tokens":"100"}`, `{"max_tokens":-1}`, `[]`, `x`} {
		if status, text, _ := w.ask(t.Context(), "/v1/chat/completions", "bad", bad); status != 400 || !strings.Contains(text, "invalid_request") {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
	const spelled = `{"model":"small","max_tokens":600,"MAX_TOKENS":1,"Model":"x","user":"silent"}`
	if status, text, _ := w.ask(t.Context(), "/v1/chat/completions", "case", spelled); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	w.until("case", budget, uint64(len(spelled))/3+1+600)
	r, err := http.Post(w.proxy+"/v1/chat/completions", "text/plain", strings.NewReader(`{"model":"small"}`))
	if err != nil || r.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a request without a media type of JSON: %v, %v", r, err)
	}
	if status, text, _ := w.ask(t.Context(), "/v1/chat/completions", strings.Repeat("x", 600), `{"model":"small"}`); status != 400 || !strings.Contains(text, "budget_refused") {
		t.Errorf("a key that is too long: %d %s", status, text)
	}
	if status, text, _ := w.ask(t.Context(), "/v1/chat/completions", "most", `{"model":"small","max_tokens":900000}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, text, _ := w.ask(t.Context(), "/v1/chat/completions", "most", `{"model":"small","max_tokens":600000}`); status != 429 || !strings.Contains(text, "team-tokens") {
		t.Errorf("budget used up: %d %s", status, text)
	}
}

// 200 streams at once never use more than the budget, and what is left of it is exact.
func TestConcurrentStreams(t *testing.T) {
	t.Parallel()
	const budget, most = 10_000, 100
	w := newWorld(t, budget, nil)
	var passed, denied atomic.Uint64
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			for range 3 {
				switch status, text, err := w.ask(t.Context(), "/v1/chat/completions", "a", fmt.Sprintf(`{"model":"small","max_tokens":%d,"stream":true}`, most)); {
				case err != nil:
					t.Error(err)
				case status == http.StatusOK:
					passed.Add(1)
				case status == http.StatusTooManyRequests:
					denied.Add(1)
				default:
					t.Errorf("%d %s", status, text)
				}
			}
		})
	}
	all.Wait()
	if passed.Load() == 0 || denied.Load() == 0 || w.reported.Load() > budget {
		t.Errorf("%d passed and %d were denied; %d of %d tokens were used", passed.Load(), denied.Load(), w.reported.Load(), budget)
	}
	w.until("a", budget, w.reported.Load())
}

// Streams that clients cut give back what they did not use: after a thousand, about what came of them is used.
func TestAbortedStreams(t *testing.T) {
	t.Parallel()
	const budget, most, streams = 5_000_000, 2_000, 1_000
	w := newWorld(t, budget, nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for next.Add(1) <= streams {
				ctx, cut := context.WithCancel(t.Context())
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, w.proxy+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model":"small","max_tokens":%d,"stream":true,"user":"slow"}`, most)))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Team", "a")
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					cut()
					continue
				}
				if _, err := bufio.NewReader(answer.Body).ReadString('\n'); err != nil {
					t.Error(err)
				}
				cut()
				answer.Body.Close()
			}
		})
	}
	all.Wait()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got := w.used("a", "team-tokens", budget)
		if got >= streams && got < streams*most/4 { // each has its prompt and some events; nothing is still reserved
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d tokens are used after %d cut streams: reservations leak", got, streams)
		}
	}
}

type away struct{}

func (away) Reserve(context.Context, client.Reservation, ...client.Check) (api.ReserveAnswer, error) {
	return api.ReserveAnswer{}, errors.New("connection refused")
}

func (away) SettleCosts(context.Context, string, map[string]uint64, bool) (api.SettleAnswer, error) {
	return api.SettleAnswer{}, errors.New("connection refused")
}

func TestBudgetUnreachable(t *testing.T) {
	t.Parallel()
	for open, want := range map[bool]int{false: http.StatusServiceUnavailable, true: http.StatusOK} {
		w := newWorld(t, 1000, func(cfg *llm.Config) { cfg.Budget, cfg.FailOpen = away{}, open })
		if status, text, err := w.ask(t.Context(), "/v1/chat/completions", "a", `{"model":"small","max_tokens":10}`); status != want {
			t.Errorf("fail open %v: %d %s %v", open, status, text, err)
		}
	}
}

// The callback of docs/token-budgets.md reserves and settles, called as LiteLLM's proxy calls its hooks.
func TestLiteLLMCallback(t *testing.T) {
	t.Parallel()
	python := testsupport.Program(t, "python3")
	page, err := os.ReadFile("../../docs/token-budgets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, callback, _ := strings.Cut(string(page), "```python\n")
	callback, _, _ = strings.Cut(callback, "```")
	w := newWorld(t, 10_000, nil)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"litellm/__init__.py": "", "litellm/integrations/__init__.py": "",
		"litellm/integrations/custom_logger.py": "class CustomLogger: pass\n",
		"callback.py":                           strings.ReplaceAll(callback, "http://127.0.0.1:8080", w.weirURL),
		"main.py": `
import asyncio
from types import SimpleNamespace as N
from callback import WeirBudget
hook = WeirBudget()
async def main():
    def call(most):
        return hook.async_pre_call_hook(N(team_id="7"), None, data := {"max_tokens": most}, "completion"), data
    coming, done = call(3000); await coming
    coming, failed = call(5000); await coming
    try:
        coming, _ = call(3000); await coming
        raise SystemExit("a third request passes")
    except Exception as e:
        assert "retry after" in str(e), e
    kwargs = lambda data: {"litellm_params": {"metadata": data["metadata"]}}
    await hook.async_log_success_event(kwargs(done), N(usage=N(total_tokens=120)), 0, 0)
    await hook.async_log_failure_event(kwargs(failed), None, 0, 0)
asyncio.run(main())
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clients, err := filepath.Abs("../../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "main.py")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+dir+string(os.PathListSeparator)+clients)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.until("7", 10_000, 120)
}
