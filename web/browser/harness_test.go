package browser

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/node"
)

// patience bounds everything that a test waits for.
const patience = time.Minute

// chromium is the one browser of all tests, in which each has a tab. It ends with the process.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	path, err := testsupport.LookProgram("chromium")
	if err != nil {
		os.Exit(m.Run()) // each test that opens a page is left out
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 860), chromedp.Flag("lang", "en-US"))
	allocated, endAll := chromedp.NewExecAllocator(context.Background(), options...)
	var end context.CancelFunc
	chromium, end = chromedp.NewContext(allocated)
	if err := chromedp.Do(chromium); err != nil {
		fmt.Fprintln(os.Stderr, "chromium does not start:", err)
		os.Exit(1)
	}
	code := m.Run()
	end()
	endAll()
	os.Exit(code)
}

// weirAt is a server of a test.
type weirAt struct {
	*testing.T
	node *node.Node
	url  string
}

// start starts a server in memory. change may be nil.
func start(t *testing.T, change func(*node.Config)) *weirAt {
	t.Helper()
	cfg := node.Config{Ephemeral: true, Engine: weir.Config{Memory: 64 << 20}, HTTP: httpapi.Config{Addr: "127.0.0.1:0"}, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if change != nil {
		change(&cfg)
	}
	n, err := node.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(context.Background()) })
	return &weirAt{t, n, "http://" + n.Addr()}
}

// file writes a file for a server.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hit counts hits of a key, some time ago.
func (w *weirAt) hit(key string, n uint64, ago time.Duration) {
	w.Helper()
	if _, err := w.node.Engine().HitAt(time.Now().Add(-ago), key, n); err != nil {
		w.Fatal(err)
	}
}

// post counts hits as clients do, a line each.
func (w *weirAt) post(lines string) {
	w.Helper()
	r, err := http.Post(w.url+"/v1/hits", "text/plain", strings.NewReader(lines))
	if err != nil {
		w.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		w.Fatal(r.Status)
	}
}

// allow asks the limits of a key, so many times, and returns the ID of the last denial.
func (w *weirAt) allow(key string, times int) (denial string) {
	w.Helper()
	for range times {
		r, err := http.Post(w.url+"/v1/allow", "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key)))
		if err != nil {
			w.Fatal(err)
		}
		r.Body.Close()
		denial = r.Header.Get("Weir-Denial")
	}
	return denial
}

// tab is a page in the browser. A test fails when one asks another server, when its
// Content-Security-Policy is broken, or when it throws.
type tab struct {
	*testing.T
	ctx context.Context

	mu    sync.Mutex
	quiet bool // failures of requests are expected
}

func open(t *testing.T, address string) *tab {
	t.Helper()
	testsupport.Program(t, "chromium")
	testsupport.File(t, axe)
	p := &tab{T: t}
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var cancel context.CancelFunc
	p.ctx, cancel = chromedp.NewContext(chromium, chromedp.WithListener(func(event any) { p.heard(event, at.Host) }))
	t.Cleanup(cancel)
	if err := chromedp.Do(p.ctx); err != nil { // the tab lives as long as the context of its first call
		t.Fatal(err)
	}
	p.do(call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}), chromedp.Navigate(address))
	return p
}

// call is a command of the protocol as an action.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// heard notes what happens in the tab.
func (p *tab) heard(event any, host string) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if to, err := url.Parse(e.Request.URL); err != nil || to.Host != host && host != "" && to.Scheme != "data" {
			p.Errorf("the page asks %s", e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		p.Errorf("the page throws: %s", e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		p.mu.Lock()
		defer p.mu.Unlock()
		if e.Entry.Level == log.EntryLevelError && !(p.quiet && e.Entry.Source == log.EntrySourceNetwork) {
			p.Errorf("the page logs: %s %s", e.Entry.Text, e.Entry.URL)
		}
	}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// expectFailures lets requests fail from now on, or not.
func (p *tab) expectFailures(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet = yes
}

// until waits for an expression to be true.
func (p *tab) until(expression string) {
	p.Helper()
	look := time.NewTicker(40 * time.Millisecond)
	defer look.Stop()
	for end := time.After(patience); ; {
		if is, err := evaluate[bool](p, "!!("+expression+")"); err == nil && is {
			return
		}
		select {
		case <-look.C:
		case <-end:
			text, err := evaluate[string](p, "document.body.innerText")
			p.Fatalf("never: %s\n%s %v", expression, text, err)
		}
	}
}

// says waits for a text on the page.
func (p *tab) says(text string) {
	p.Helper()
	p.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func evaluate[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// value is that of an expression.
func value[T any](p *tab, expression string) T {
	p.Helper()
	made, err := evaluate[T](p, expression)
	if err != nil {
		p.Fatal(err)
	}
	return made
}

// at goes to a place of the page, what follows the #.
func (p *tab) at(place string) {
	p.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = %q", place)))
}

const live = `document.querySelector(".status").dataset.state === "live"`
