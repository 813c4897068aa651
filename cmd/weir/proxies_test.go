package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/testsupport"
)

// recipe is a fenced block of docs/proxies.md.
func recipe(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```"+language+"\n")
	block, _, closed := strings.Cut(block, "```\n")
	if !found || !closed {
		t.Fatalf("docs/proxies.md has no block of %s", language)
	}
	return block
}

// proxied is a proxy between clients and a service, and the server that the proxy asks.
type proxied struct {
	*testing.T
	weir  *process
	dir   string
	url   string // of the proxy
	token string // of the proxy
	here  *strings.Replacer
}

// newProxied starts weir serve with tokens, and a service.
func newProxied(t *testing.T) *proxied {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	token, _, err := auth.Create(tokens, auth.New{Identity: "proxy", Permissions: []auth.Permission{{Role: auth.Decide, Keys: []string{"ip:"}}}})
	if err != nil {
		t.Fatal(err)
	}
	weir := startProcess(t, filepath.Join(dir, "weir"), "--tokens", tokens)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/forbidden" {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprintf(w, "%s %s %d %v %q", r.Method, r.URL.Path, size, err, r.Header.Get("Authorization"))
	}))
	t.Cleanup(service.Close)
	at := transporttest.Addrs(t, 1)[0]
	return &proxied{T: t, weir: weir, dir: dir, url: "http://" + at, token: token, here: strings.NewReplacer(
		"127.0.0.1:8000", at, "127.0.0.1:8080", weir.addr, "127.0.0.1:9000", service.Listener.Addr().String(), "/etc/haproxy/", dir+"/", "weir_...", token)}
}

// tokenLine is the line of a recipe that sends the token: it is a comment there.
var tokenLine = regexp.MustCompile(`(?m)^(\s*)(?:#|--) (.*weir_\.\.\.)`)

// file writes a recipe for this test, between what the program needs besides, and returns its path.
func (p *proxied) file(name, before, text, after string) string {
	p.Helper()
	if name != "haproxy.cfg" && !tokenLine.MatchString(text) {
		p.Fatalf("%s has no line for a token", name)
	}
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(before+p.here.Replace(tokenLine.ReplaceAllString(text, "$1$2"))+after), 0o600); err != nil {
		p.Fatal(err)
	}
	return path
}

// run runs a program of Debian, and waits until it listens. It runs until stop is called, or the test ends.
func (p *proxied) run(name string, args ...string) (stop func()) {
	p.Helper()
	path := testsupport.Program(p, name)
	var output bytes.Buffer
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // its own children end, too
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, &output, &output
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_DATA_HOME="+p.dir, "XDG_CONFIG_HOME="+p.dir)
	if err := cmd.Start(); err != nil {
		end()
		p.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	stop = func() { end(); <-ended }
	p.Cleanup(func() {
		stop()
		if p.Failed() {
			p.Logf("%s:\n%s", name, &output)
		}
	})
	for deadline := time.Now().Add(transporttest.Patience); ; {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err == nil {
			conn.Close()
			return stop
		}
		select {
		case <-ended:
			p.Fatalf("%s ended:\n%s", name, &output)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s does not listen: %v", name, err)
		}
	}
}

func (p *proxied) send(method, path, body string, headers ...string) (status int, header http.Header, answer string) {
	p.Helper()
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// limits20 sends 20 requests, which pass, and more, which do not, whatever the client says of itself.
func (p *proxied) limits20() {
	p.Helper()
	large := strings.Repeat("x", 1<<20)
	for i, r := range []struct {
		method, path, body string
		status             int
		headers            []string
	}{
		{"POST", "/upload?a=b", large, 200, []string{"Authorization", "Bearer of the client"}},
		{"GET", "/page", "", 200, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "User-Agent", "Mozilla/5.0"}},
		{"GET", "/forbidden", "", 403, nil},
		{"DELETE", "/a%20b%2fc", "", 200, []string{"X-Weir-Token", "weir_x_y"}},
	} {
		status, _, got := p.send(r.method, r.path, r.body, r.headers...)
		if status != r.status || !strings.HasPrefix(got, r.method+" /") || !strings.Contains(got, fmt.Sprintf(" %d <nil>", len(r.body))) {
			p.Errorf("request %d: %d %s", i, status, got)
		}
		if i == 0 && !strings.HasSuffix(got, `"Bearer of the client"`) {
			p.Errorf("the service got %s", got)
		}
	}
	for i := 5; i <= 25; i++ {
		status, header, got := p.send("GET", "/", "", "X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i), "X-Real-Ip", "192.0.2.1", "Forwarded", "for=192.0.2.1")
		if passes := i <= 20; (status == 200) != passes || !passes && (status != 429 || header.Get("Retry-After") == "" || header.Get("Weir-Denial") == "") {
			p.Fatalf("request %d: %d %v %s", i, status, header, got)
		}
	}
	p.usedUp("ip:127.0.0.1")
}

// usedUp asserts that the server counted the requests under the address of their client.
func (p *proxied) usedUp(key string) {
	p.Helper()
	body := fmt.Sprintf(`{"key":%q,"limit":{"n":20,"per":"1m"},"peek":true}`, key)
	req, err := http.NewRequest(http.MethodPost, "http://"+p.weir.addr+"/v1/allow", strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+p.token)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusTooManyRequests {
		p.Errorf("%s: %d", key, answer.StatusCode)
	}
}

// without asserts what clients get while the server is stopped, after it goes on, and once it is gone. Without timeouts in
// the recipe the first answer comes after a minute, or never.
func (p *proxied) without(stopped, gone int) {
	p.Helper()
	p.signal(syscall.SIGSTOP)
	transporttest.Eventually(p.T, "every thread of Weir stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.weir.Process.Pid))
		return err == nil && !slices.ContainsFunc(threads, func(stat string) bool {
			text, err := os.ReadFile(stat)
			return err == nil && !bytes.Contains(text, []byte(") T "))
		})
	})
	for _, path := range []string{"/", "/again"} {
		began := time.Now()
		status, _, got := p.send("GET", path, "")
		if took := time.Since(began); status != stopped || took > 30*time.Second {
			p.Errorf("with Weir stopped: %d %s after %v, want %d", status, got, took, stopped)
		} else {
			p.Logf("with Weir stopped: %d after %v", status, took.Round(10*time.Millisecond))
		}
	}
	p.signal(syscall.SIGCONT)
	transporttest.Eventually(p.T, "a denial once Weir goes on", func() bool {
		status, _, _ := p.send("GET", "/", "")
		return status == http.StatusTooManyRequests
	})
	p.signal(syscall.SIGKILL)
	<-p.weir.ended
	began := time.Now()
	if status, _, got := p.send("GET", "/", ""); status != gone {
		p.Errorf("without Weir: %d %s, want %d", status, got, gone)
	}
	p.Logf("without Weir: %d after %v", gone, time.Since(began).Round(10*time.Millisecond))
}

func (p *proxied) signal(s syscall.Signal) {
	p.Helper()
	if err := p.weir.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
}

// recipeTimeouts are the timeouts of the recipes, which a busy machine may exceed: the limits are tried with longer ones.
var recipeTimeouts = regexp.MustCompile(`(?m)((?:_timeout|timeout) (?:= )?)(1s|300)\b`)

func patiently(text string) string {
	return recipeTimeouts.ReplaceAllStringFunc(text, func(s string) string {
		return strings.NewReplacer("1s", "60s", "300", "60000").Replace(s)
	})
}

func TestCaddy(t *testing.T) {
	p := newProxied(t)
	run := func(text string) func() {
		return p.run("caddy", "run", "--adapter", "caddyfile", "--config", p.file("Caddyfile", "{\n\tadmin off\n}\n", text, ""))
	}
	stop := run(patiently(recipe(t, "caddyfile")))
	p.limits20()
	stop()
	run(recipe(t, "caddyfile"))
	p.without(http.StatusGatewayTimeout, http.StatusBadGateway)
}

func TestNginx(t *testing.T) {
	p := newProxied(t)
	before := "daemon off; master_process off; pid nginx.pid; error_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		before += temp + "_temp_path " + p.dir + ";\n"
	}
	run := func(text string) func() {
		return p.run("nginx", "-p", p.dir, "-e", "stderr", "-c", p.file("nginx.conf", before, text, "}\n"))
	}
	stop := run(patiently(recipe(t, "nginx")))
	p.limits20()
	stop()
	stop = run(recipe(t, "nginx"))
	p.without(http.StatusInternalServerError, http.StatusInternalServerError)
	stop()
	// The lines of the page that let requests pass.
	page, err := os.ReadFile("../../docs/proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	open := regexp.MustCompile("`(proxy_intercept_errors [^`]*)`[^`]*`location = /weir`[^`]*`(location = /weir-away [^`]*)`").FindStringSubmatch(strings.ReplaceAll(string(page), "\n", " "))
	if open == nil {
		t.Fatal("docs/proxies.md does not say how nginx lets requests pass")
	}
	run(strings.Replace(recipe(t, "nginx"), "    location = /weir {\n", "    "+open[2]+"\n    location = /weir {\n        "+open[1]+"\n", 1))
	if status, _, got := p.send("GET", "/", ""); status != http.StatusOK {
		t.Errorf("without Weir, open: %d %s", status, got)
	}
}

func TestHAProxy(t *testing.T) {
	p := newProxied(t)
	run := func(lua string) func() {
		p.file("weir.lua", "", lua, "")
		return p.run("haproxy", "-db", "-f", p.file("haproxy.cfg", "", recipe(t, "haproxy"), ""))
	}
	stop := run(patiently(recipe(t, "lua"))) // what it repeats counts twice
	p.limits20()
	stop()
	run(recipe(t, "lua"))
	p.without(http.StatusServiceUnavailable, http.StatusServiceUnavailable)
}

// Traefik is not in Debian: this is what its ForwardAuth sends, by its documentation.
func TestTraefik(t *testing.T) {
	p := newProxied(t)
	_, address, _ := strings.Cut(p.here.Replace(recipe(t, "yaml")), `address: "`)
	address, _, _ = strings.Cut(address, `"`)
	for i := 1; i <= 21; i++ {
		req, err := http.NewRequest("GET", address, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"X-Forwarded-Method": "POST", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "shop.example.com", "X-Forwarded-Uri": "/upload?a=b", "X-Forwarded-For": "192.0.2.7",
			"X-Weir-Token": p.token, "Authorization": "Bearer of the client", "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "User-Agent": "Mozilla/5.0",
		} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := map[bool]int{true: 200, false: 429}[i <= 20]; resp.StatusCode != want {
			t.Fatalf("request %d: %d", i, resp.StatusCode)
		}
	}
	p.usedUp("ip:192.0.2.7")
}
