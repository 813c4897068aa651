package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/service/pageviews"
	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/node"
)

// caddy serves a folder with a strict Content-Security-Policy, and writes an access log.
func caddy(t *testing.T, folder, log, weir string) (address string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	address = "http://localhost:" + port
	config := fmt.Sprintf(`{
	admin off
	auto_https off
}
%s {
	bind 127.0.0.1
	root * %s
	file_server
	header Content-Security-Policy "default-src 'none'; script-src %s; connect-src %[3]s; img-src 'self' %[3]s; require-trusted-types-for 'script'"
	log {
		output file %s
		format json
	}
}
`, address, folder, weir, log)
	c := exec.CommandContext(t.Context(), testsupport.Program(t, "caddy"), "run", "--adapter", "caddyfile", "--config", file(t, "Caddyfile", config))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.Stderr = t.Output()
	c.Env = append(os.Environ(), "XDG_DATA_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Wait() }) // after its context, and so it, ended
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for end := time.After(patience); ; {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return address
		}
		select {
		case <-look.C:
		case <-end:
			t.Fatal("caddy does not listen")
		}
	}
}

// The access log of a site gives the same keys, counts and visitors as the script in its pages: of 20 pages, 40 visitors and 10 bots.
func TestCaddy(t *testing.T) {
	testsupport.Program(t, "chromium")
	const pages, visitors, crawlers = 20, 40, 10
	w := start(t, func(cfg *node.Config) { cfg.HTTP.Web = []string{"localhost"} })
	folder := t.TempDir()
	for i := range pages {
		name := filepath.Join(folder, fmt.Sprintf("p%d", i), "index.html")
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		next := fmt.Sprintf("/p%d/?utm_source=page&utm_medium=M%d&secret=1", (i+1)%pages, i%2)
		page := fmt.Sprintf(`<!doctype html><title>%d</title><script defer src="%s/w.js" data-site="localhost"></script><img src="/a.png"><a href="%s">next</a>`, i, w.url, next)
		if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(t.TempDir(), "access.log")
	address := caddy(t, folder, log, w.url)
	news := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		to.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(to, `<!doctype html><a href="%s%s">read</a>`, address, r.URL.Query().Get("to"))
	}))
	t.Cleanup(news.Close)
	want := map[string]uint64{}
	count := func(keys ...string) {
		for _, key := range keys {
			want["localhost:"+key]++
		}
	}
	for i := range visitors + crawlers {
		agent := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%d.0", 100+i, 100+i)
		if i >= visitors {
			agent = fmt.Sprintf("Mozilla/5.0 (compatible; Examplebot/1.%d; +https://example.com/bot)", i)
			count("bot", "bot:crawler", "bot", "bot:crawler")
		} else {
			count("visitors", "browser:firefox", "device:desktop", fmt.Sprintf("path:/p%d", i%pages), "ref:127.0.0.1")
			count("visitors", "browser:firefox", "device:desktop", fmt.Sprintf("path:/p%d", (i+1)%pages), "utm_source:page", fmt.Sprintf("utm_medium:m%d", i%pages%2))
		}
		p := &tab{T: t, quiet: true} // there is no picture
		var end context.CancelFunc
		p.ctx, end = chromedp.NewContext(chromium, chromedp.WithListener(func(event any) { p.heard(event, "") }))
		if err := chromedp.Do(p.ctx); err != nil {
			t.Fatal(err)
		}
		follow := func(title string) {
			p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("a").click()`))
			p.until(fmt.Sprintf(`document.title === %q && window.weir && document.readyState === "complete"`, title))
		}
		p.do(call(network.Enable, network.EnableParams{}),
			chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
				_, err := cdp.Call(ctx, to, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: agent})
				return err
			}),
			chromedp.Navigate(fmt.Sprintf("%s/?to=/p%d/", news.URL, i%pages)))
		follow(fmt.Sprint(i % pages))
		follow(fmt.Sprint((i + 1) % pages))
		p.do(chromedp.Navigate("about:blank"))
		end()
	}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for tries := 0; ; tries++ {
		var top struct {
			Keys []struct {
				Key      string
				Estimate uint64
			}
		}
		r, err := http.Get(w.url + "/v1/top?window=1h&n=1000&prefix=localhost:")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(r.Body).Decode(&top)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]uint64{}
		for _, k := range top.Keys {
			got[k.Key] = k.Estimate
		}
		if fmt.Sprint(got) == fmt.Sprint(want) {
			break
		}
		if tries == 300 {
			t.Fatalf("the script counts:\n%v\nnot\n%v", got, want)
		}
		<-look.C
	}
	if n := counted(t, w.url+"/v1/count?window=1h&distinct=true&key=localhost:visitors").Distinct.Estimate; n != visitors {
		t.Errorf("%v visitors", n)
	}
	site, err := pageviews.NewLog("localhost")
	if err != nil {
		t.Fatal(err)
	}
	report, err := replay.Run(t.Context(), replay.Options{Files: []string{log}, Top: 1000, Site: &replay.Site{Keys: site.Templates(), Views: site.Views(), Filtered: site.Filtered(), Make: func(r replay.Request) []string {
		return site.Keys(string(r.Method), string(r.Status), &pageviews.View{Path: string(r.Path), Referrer: string(r.Referrer), Agent: string(r.Agent), Prefetch: strings.HasPrefix(string(r.Purpose), "pre")})
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if d := report.Visitors; d.Estimate != visitors || d.Error != 0 || report.Views != 2*visitors {
		t.Errorf("the log has %d views of %+v", report.Views, d)
	}
	got := map[string]uint64{}
	for _, list := range report.Top {
		for _, k := range list.Keys {
			got[k.Key] = k.Hits
		}
	}
	delete(want, "localhost:bot") // its parts are listed
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the log counts:\n%v\nnot\n%v", got, want)
	}
}
