package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

// Each test here has a client that does its worst at one listener, and asserts that the
// other listeners answer meanwhile, and that one afterwards.

// hostileAPI is a server as main starts it, on a real listener.
func hostileAPI(t *testing.T, engineCfg engine.Config, cfg options) *testAPI {
	t.Helper()
	t.Parallel() // most of it waits
	e, live := policyEngine(t, engineCfg, "limits: [{name: all, keys: \"user:*\", limit: 1000000, per: 1m}]")
	cfg.Backend.Policies = live
	cfg.HTTP.Addr = "127.0.0.1:0"
	a := serveTestAPI(t, e, cfg)
	addr, _ := a.run()
	a.url = "http://" + addr
	return a
}

// others asserts that the listeners answer that are not in without, over a connection of their own.
func (a *testAPI) others(without ...string) {
	a.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	skip := strings.Join(without, " ")
	for _, listener := range []struct{ name, method, path, contentType, body string }{
		{"health", "GET", "/healthz", "", ""}, {"health", "GET", "/readyz", "", ""}, {"health", "GET", "/metrics", "", ""},
		{"hits", "POST", "/v1/hits", "text/plain", "friend"}, {"hits", "POST", "/v1/hits", "application/json", `{"key":"friend"}`},
		{"decisions", "POST", "/v1/allow", "application/json", `{"key":"user:1"}`},
		{"questions", "GET", "/v1/count?key=friend", "", ""}, {"questions", "GET", "/v1/top", "", ""}, {"questions", "GET", "/v1/limits", "", ""},
		{"admin", "GET", "/v1/stats", "", ""}, {"docs", "GET", "/docs", "", ""},
	} {
		if strings.Contains(skip, listener.name) {
			continue
		}
		req, err := http.NewRequest(listener.method, a.url+listener.path, strings.NewReader(listener.body))
		if err != nil {
			a.Fatal(err)
		}
		if listener.contentType != "" {
			req.Header.Set("Content-Type", listener.contentType)
		}
		resp, err := client.Do(req)
		if err != nil {
			a.Errorf("%s %s: %v", listener.method, listener.path, err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || err != nil {
			a.Errorf("%s %s: %d %s, %v", listener.method, listener.path, resp.StatusCode, text, err)
		}
	}
}

// dialFrom connects from an address of this machine's loopback.
func (a *testAPI) dialFrom(from string) net.Conn {
	a.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(a.Context(), "tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		a.Skipf("this machine has no %s: %v", from, err)
	}
	a.Cleanup(func() { c.Close() })
	return c
}

// begin sends the start of a request from an address.
func (a *testAPI) begin(from, request string) net.Conn {
	a.Helper()
	c := a.dialFrom(from)
	if _, err := io.WriteString(c, request); err != nil {
		a.Fatal(err)
	}
	return c
}

// status is the first line of the answer that comes over c.
func status(c net.Conn) string {
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// until waits for an event.
func (a *testAPI) until(what string, is func() bool) {
	a.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			a.Fatalf("never: %s", what)
		}
		ctx, cancel := context.WithTimeout(a.Context(), time.Millisecond)
		<-ctx.Done()
		cancel()
	}
}

const hostileInFlight = 8

// hostileBackup is a journal whose backups never end by themselves.
type hostileBackup struct{ stuck }

func (hostileBackup) Backup(ctx context.Context, _ io.Writer) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestHostileBackups(t *testing.T) {
	a := hostileAPI(t, engine.Config{}, options{Backend: service.Backend{Journal: hostileBackup{}}, Service: service.Config{MaxInFlight: hostileInFlight}})
	first := a.begin("127.0.0.1", "GET /v1/backup HTTP/1.1\r\nHost: weir\r\n\r\n")
	a.until("a backup is taken", func() bool { return a.server.service.Pools.Backup.Stats().InUse == 1 })
	var more []net.Conn
	for range 300 {
		more = append(more, a.begin("127.0.0.1", "GET /v1/backup HTTP/1.1\r\nHost: weir\r\n\r\n"))
	}
	a.others("health") // the stuck disk has /readyz say 503
	for _, c := range more {
		if got := status(c); got != "HTTP/1.1 409 Conflict" {
			t.Fatalf("a second backup: %s", got)
		}
	}
	a.wantProblem(a.get("/v1/backup"), api.CodeBackupRunning, http.StatusConflict)
	first.Close()
	a.until("its place is free", func() bool { return a.server.service.Pools.Backup.Stats().InUse == 0 })
}

func TestHostileSlowBodies(t *testing.T) {
	a := hostileAPI(t, engine.Config{}, options{Service: service.Config{MaxInFlight: hostileInFlight}, HTTP: Config{ReadTimeout: 5 * time.Second}})
	var slow []net.Conn
	for i := range 300 {
		path := []string{"/v1/hits", "/v1/hits?durable=false", "/v1/allow"}[i%3]
		slow = append(slow, a.begin("127.0.0.1", fmt.Sprintf("POST %s HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nIdempotency-Key: k%d\r\nContent-Length: 100\r\n\r\n{", path, i)))
	}
	for range 300 {
		slow = append(slow, a.begin("127.0.0.1", "POST /v1/hits HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"))
	}
	share := a.server.service.Pools.Uploads.Stats().Share
	a.until("the uploads of one client have its share", func() bool { return a.server.service.Pools.Uploads.Stats().InUse == share })
	a.others()
	// Another client still finds a place for a large body.
	large := strings.Repeat("friend\n", 5000)
	c := a.begin("127.0.0.2", fmt.Sprintf("POST /v1/hits HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(large), large))
	if got := status(c); got != "HTTP/1.1 200 OK" {
		t.Errorf("a large body of another client: %s", got)
	}
	for i, c := range slow { // each is answered, long before its body is whole
		if got := status(c); !strings.HasPrefix(got, "HTTP/1.1 408") && !strings.HasPrefix(got, "HTTP/1.1 503") && !strings.HasPrefix(got, "HTTP/1.1 400") {
			t.Fatalf("slow body %d: %s", i, got)
		}
	}
	a.until("all places are free", func() bool {
		return a.server.service.Pools.Uploads.Stats().InUse == 0 && a.server.service.Pools.Hits.Stats().InUse == 0
	})
	a.others()
	if metrics := a.get("/metrics").body; !strings.Contains(metrics, `weir_pool_bound{pool="uploads"} 8`) || !strings.Contains(metrics, `weir_alarm{code="crowded_uploads"} 1`) {
		t.Error("metrics do not tell of the pool")
	}
}

func TestHostileDurableWaits(t *testing.T) {
	a := hostileAPI(t, engine.Config{}, options{Backend: service.Backend{Journal: stuck{}}, Service: service.Config{MaxInFlight: hostileInFlight, MaxDurable: hostileInFlight, DurableTimeout: 20 * time.Second}})
	const request = "POST /v1/hits?durable=true HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\na\n"
	var waiting []net.Conn
	share := int(a.server.service.Pools.Durable.Stats().Share)
	for range share {
		waiting = append(waiting, a.begin("127.0.0.1", request))
	}
	a.until("all wait", func() bool {
		return a.engine.Stats().Hits == uint64(share) && a.server.service.Pools.Hits.Stats().InUse == 0
	})
	r := a.do(http.MethodPost, "/v1/hits?durable=true", "text/plain", "a")
	a.wantProblem(r, api.CodeDurableFull, http.StatusServiceUnavailable)
	if got := a.engine.Stats().Hits; got != uint64(share) || r.header.Get("Retry-After") != "1" {
		t.Errorf("what was refused is counted: %d hits, want %d", got, share)
	}
	a.others("health")
	a.begin("127.0.0.2", request)
	a.until("another client waits too", func() bool { return a.server.service.Pools.Durable.Stats().InUse == int64(share)+1 })
	for _, c := range waiting {
		c.Close()
	}
	a.until("who left has left its place", func() bool { return a.server.service.Pools.Durable.Stats().InUse == 1 })
}

func TestHostileReaders(t *testing.T) {
	a := hostileAPI(t, engine.Config{Memory: 64 << 20}, options{Service: service.Config{MaxInFlight: hostileInFlight, MaxAnswers: 100_000}, HTTP: Config{ReadTimeout: 5 * time.Second}})
	var lines strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&lines, "%s%d\n", strings.Repeat("k", 450), i)
	}
	a.post(lines.String())
	var slow []net.Conn
	for range 40 {
		c := a.dialFrom("127.0.0.1")
		if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		for range 8 { // one after the other, none of which is read: more than a socket takes
			io.WriteString(c, "GET /v1/keys?limit=5000 HTTP/1.1\r\nHost: weir\r\n\r\n")
		}
		slow = append(slow, c)
	}
	share := a.server.service.Pools.Questions.Stats().Share
	a.until("the readers of one client have its share", func() bool { return a.server.service.Pools.Questions.Stats().InUse == share })
	a.others("questions")
	if got := status(a.begin("127.0.0.2", "GET /v1/count?key=friend HTTP/1.1\r\nHost: weir\r\n\r\n")); got != "HTTP/1.1 200 OK" {
		t.Errorf("a question of another client: %s", got)
	}
	a.until("who does not read is cut off", func() bool { return a.server.service.Pools.Questions.Stats().InUse == 0 })
	a.others()
	_ = slow
}

// Whoever opens all connections and leaves them idle sheds its own.
func TestHostileConnections(t *testing.T) {
	bound := 4096
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < 2*4100+200 {
		bound = 200 // as many as there are files for, on both ends
	}
	a := hostileAPI(t, engine.Config{}, options{HTTP: Config{MaxConns: bound, ReadHeaderTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute}})
	friend := a.begin("127.0.0.2", "GET /healthz HTTP/1.1\r\nHost: weir\r\n\r\n")
	if got := status(friend); got != "HTTP/1.1 200 OK" {
		t.Fatal(got)
	}
	starts := []string{"", "GET /healthz HTTP/1.1\r\nHost: weir\r\n\r\n", "GET /healthz HTT", "POST /v1/hits HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\n"}
	for i := range bound + 4 {
		a.begin("127.0.0.1", starts[i%len(starts)])
		if i%500 == 0 {
			a.others()
		}
	}
	a.others()
	io.WriteString(friend, "GET /healthz HTTP/1.1\r\nHost: weir\r\n\r\n")
	if got := status(friend); got != "HTTP/1.1 200 OK" {
		t.Errorf("the idle connection of another client: %s", got)
	}
	if is := a.server.conns().Count(); is.Open > bound || is.Shed == 0 {
		t.Errorf("%+v, of at most %d open", is, bound)
	}
}

// A client that uses up its share of the idempotency keys learns it, before and then; who
// sends without keys, or from elsewhere, does not notice.
func TestHostileIdempotencyKeys(t *testing.T) {
	a := hostileAPI(t, engine.Config{OnceMemory: 64 << 10}, options{})
	flood := func(send func(key string) string) (n int) {
		for ; ; n++ {
			if got := send(fmt.Sprint("k", n)); got != "HTTP/1.1 200 OK" {
				if got != "HTTP/1.1 503 Service Unavailable" {
					t.Fatal(got)
				}
				return n
			}
		}
	}
	flood(func(key string) string {
		r := a.hitOnce(key, "a")
		if r.status != http.StatusOK {
			a.wantProblem(r, api.CodeOnceFull, http.StatusServiceUnavailable)
		}
		return fmt.Sprintf("HTTP/1.1 %d %s", r.status, http.StatusText(r.status))
	})
	before := a.engine.Stats().Hits
	a.wantProblem(a.hitOnce("one-more", "a"), api.CodeOnceFull, http.StatusServiceUnavailable)
	if got := a.engine.Stats().Hits; got != before {
		t.Error("what was refused is counted")
	}
	a.others()
	there := flood(func(key string) string {
		return status(a.begin("127.0.0.2", fmt.Sprintf("POST /v1/hits HTTP/1.1\r\nHost: weir\r\nConnection: close\r\nIdempotency-Key: there-%s\r\nContent-Length: 1\r\n\r\na", key)))
	})
	if there < 20 {
		t.Errorf("another client had %d", there)
	}
	a.others()
	for _, want := range []string{`weir_alarm{code="idempotency_full"} 1`, "weir_idempotency_refused_total 3"} {
		if !strings.Contains(a.get("/metrics").body, want) {
			t.Errorf("no %s", want)
		}
	}
}

// Limits that requests bring along fill their part of the memory of limits, and leave the
// policies theirs.
func TestHostileInlineLimits(t *testing.T) {
	a := hostileAPI(t, engine.Config{Partitions: 4, LimitMemory: 256 << 10}, options{})
	inline := func(key int) reply {
		return a.do(http.MethodPost, "/v1/allow", "application/json", fmt.Sprintf(`{"key":"x%d","limit":{"name":"long","n":100,"per":"24h"}}`, key))
	}
	n := 0
	for ; ; n++ {
		if r := inline(n); r.status != http.StatusOK {
			a.wantProblem(r, api.CodeOverloaded, http.StatusServiceUnavailable)
			break
		}
	}
	for i := range 2 * n {
		if r := a.do(http.MethodPost, "/v1/allow", "application/json", fmt.Sprintf(`{"key":"user:%d"}`, i)); r.status != http.StatusOK {
			t.Fatalf("key %d of a policy: %d %s", i, r.status, r.body)
		}
	}
	a.others()
	if r := a.get("/readyz"); r.status != http.StatusOK || !strings.Contains(r.body, `"code":"inline_limits_full"`) {
		t.Errorf("/readyz: %d %s", r.status, r.body)
	}
	for _, long := range []string{`{"n":1,"per":"25h"}`, `{"n":1,"per":"1h","burst":25}`, `{"n":1,"per":"24h","burst":1000000000000}`} {
		a.wantProblem(a.do(http.MethodPost, "/v1/allow", "application/json", `{"key":"a","limit":`+long+`}`), api.CodeInvalidLimit, http.StatusBadRequest)
	}
	if r := a.do(http.MethodDelete, "/v1/limits/inline?name=long", "", ""); r.status != http.StatusOK || strings.TrimSpace(r.body) != fmt.Sprintf(`{"forgotten":%d}`, n) {
		t.Errorf("forgotten: %d %s, want %d", r.status, r.body, n)
	}
	if r := inline(n); r.status != http.StatusOK {
		t.Errorf("after forgetting: %d %s", r.status, r.body)
	}
	if r := a.get("/readyz"); strings.Contains(r.body, "inline_limits") {
		t.Errorf("after forgetting: %s", r.body)
	}
}
