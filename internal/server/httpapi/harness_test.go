package httpapi

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/policy"
)

// start is the second at which the clock of a test stands.
var start = time.Unix(1_769_860_800, 0)

// options are what a test gives a server and its service.
type options struct {
	Backend service.Backend // without Engine
	Service service.Config
	HTTP    Config
	opening *Opening
}

// newServer returns a server that answers for engine.
func newServer(e *engine.Engine, o options) (*Server, error) {
	o.Backend.Engine = e
	s, err := service.New(o.Backend, o.Service)
	if err != nil {
		return nil, err
	}
	h, err := New(s, o.HTTP)
	if err == nil {
		h.TakeOver(o.opening)
	}
	return h, err
}

// testAPI is a server on a loopback port with a real engine.
type testAPI struct {
	*testing.T
	server *Server
	engine *engine.Engine
	url    string
}

func newTestAPI(t *testing.T, engineCfg engine.Config, cfg options) *testAPI {
	t.Helper()
	if engineCfg.Now == nil {
		engineCfg.Now = func() time.Time { return start }
	}
	e, err := engine.New(engineCfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return serveTestAPI(t, e, cfg)
}

// policyEngine is an engine with the policies of a file.
func policyEngine(t *testing.T, cfg engine.Config, policies string) (*engine.Engine, *admit.Live) {
	t.Helper()
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	set, err := policy.Parse("policies", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	live, err := admit.NewLive(e, set)
	if err != nil {
		t.Fatal(err)
	}
	return e, live
}

func serveTestAPI(t *testing.T, e *engine.Engine, cfg options) *testAPI {
	t.Helper()
	cfg.Service.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.HTTP.Logger = cfg.Service.Logger
	s, err := newServer(e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s.Handler())
	t.Cleanup(hs.Close)
	return &testAPI{t, s, e, hs.URL}
}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	body   string
}

func (a *testAPI) do(method, path, contentType, body string, headers ...string) reply {
	a.Helper()
	req, err := http.NewRequest(method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return a.send(req)
}

func (a *testAPI) send(req *http.Request) reply {
	a.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func (a *testAPI) get(path string) reply {
	a.Helper()
	return a.do(http.MethodGet, path, "", "")
}

// post sends text lines that must all count.
func (a *testAPI) post(lines string) {
	a.Helper()
	if r := a.do(http.MethodPost, "/v1/hits", "text/plain", lines); r.status != http.StatusOK || strings.Contains(r.body, `"code"`) {
		a.Fatalf("POST: %d %s", r.status, r.body)
	}
}

// getInto asks a question that must be answered.
func (a *testAPI) getInto(path string, answer any) {
	a.Helper()
	r := a.get(path)
	if r.status != http.StatusOK {
		a.Fatalf("GET %s: %d %s", path, r.status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), answer); err != nil {
		a.Fatalf("GET %s: %v in %s", path, err, r.body)
	}
}

// wantProblem checks that r is a problem document of this code.
func (a *testAPI) wantProblem(r reply, code api.Code, status int) {
	a.Helper()
	var p struct {
		Title, Code, Detail string
		Status              int
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		a.Errorf("%v in %s", err, r.body)
		return
	}
	if r.status != status || p.Status != status || p.Code != string(code) || p.Title != http.StatusText(status) || p.Detail == "" {
		a.Errorf("got %d %s, want %d with code %s", r.status, r.body, status, code)
	}
	if got := r.header.Get("Content-Type"); got != api.ProblemType {
		a.Errorf("%s: Content-Type %q, want %q", code, got, api.ProblemType)
	}
}
