package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/node"
)

// A static site with a strict Content-Security-Policy counts its views, visitors, referrers and events in a browser, also
// those of a single page application.
func TestPageViews(t *testing.T) {
	testsupport.Program(t, "chromium")
	w := start(t, func(cfg *node.Config) { cfg.HTTP.Web = []string{"localhost"} })
	page := fmt.Sprintf(`<!doctype html><title>site</title><script defer src="%s/w.js" data-site="localhost"></script><p>a page`, w.url)
	site := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		to.Header().Set("Content-Type", "text/html; charset=utf-8")
		to.Header().Set("Content-Security-Policy", "default-src 'none'; script-src "+w.url+"; connect-src "+w.url+"; img-src "+w.url+"; require-trusted-types-for 'script'")
		_, _ = to.Write([]byte(page))
	}))
	t.Cleanup(site.Close)
	address := strings.Replace(site.URL, "127.0.0.1", "localhost", 1)
	const visitors = 10
	for i := range visitors + 1 {
		agent := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%d.0", 100+i, 100+i)
		if i == visitors {
			agent = "Mozilla/5.0 (compatible; Examplebot/1.0; +https://example.com/bot)"
		}
		p := &tab{T: t}
		var end context.CancelFunc
		p.ctx, end = chromedp.NewContext(chromium, chromedp.WithListener(func(event any) { p.heard(event, "") }))
		if err := chromedp.Do(p.ctx); err != nil {
			t.Fatal(err)
		}
		p.do(call(network.Enable, network.EnableParams{}),
			chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
				_, err := cdp.Call(ctx, to, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: agent})
				return err
			}),
			chromedp.Navigate(address+"/?utm_source=letter&secret=1"))
		p.until(`window.weir`)
		value[bool](p, `(history.pushState(null, "", "/about/?tab=2"), history.pushState(null, "", "/about/?tab=3"), weir.event("Signup"), true)`)
		value[bool](p, `(history.back(), true)`)
		p.until(`location.search === "?tab=2"`)
		value[bool](p, `(history.back(), true)`)
		p.until(`location.pathname === "/"`)
		p.do(chromedp.Navigate("about:blank")) // what is sent at the end of a page arrives too
		end()
	}
	want := map[string]float64{
		"localhost:path:/": 2 * visitors, "localhost:path:/about": visitors, "localhost:visitors": 3 * visitors, "localhost:event:signup": visitors,
		"localhost:utm_source:letter": 2 * visitors, "localhost:browser:firefox": 3 * visitors, "localhost:device:desktop": 3 * visitors, "localhost:bot": 4,
	}
	got := map[string]float64{}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for tries := 0; ; tries++ {
		for key := range want {
			got[key] = counted(t, w.url+"/v1/count?window=1h&key="+url.QueryEscape(key)).Estimate
		}
		if fmt.Sprint(got) == fmt.Sprint(want) {
			break
		}
		if tries == 300 {
			t.Fatalf("counts:\n%v\nnot\n%v", got, want)
		}
		<-look.C
	}
	if n := counted(t, w.url+"/v1/count?window=1h&distinct=true&key=localhost:visitors").Distinct.Estimate; n != visitors {
		t.Errorf("%v visitors", n)
	}
}

type count struct {
	Estimate float64
	Distinct struct{ Estimate float64 }
}

func counted(t *testing.T, address string) (c count) {
	t.Helper()
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}
