package browser

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/weir-counter/weir/node"
)

// A page says when the server is gone, and goes on when it is back.
func TestRestart(t *testing.T) {
	w := start(t, nil)
	w.hit("before", 1, 0)
	p := open(t, w.url+"/")
	p.says("before")
	p.expectFailures(true)
	addr := w.node.Addr()
	if err := w.node.Close(context.Background()); err != nil {
		t.Error(err)
	}
	p.says("Connection lost")
	p.says("before") // what was known stays
	again := start(t, func(cfg *node.Config) { cfg.HTTP.Addr = addr })
	again.hit("after", 1, 0)
	p.says("after")
	p.until(live)
}

func tokens(names ...string) string {
	var file strings.Builder
	file.WriteString("identities:\n")
	for _, name := range names {
		keys := ""
		if name == "shop" {
			keys = `, keys: ["shop:"]`
		}
		fmt.Fprintf(&file, "- {name: %s, permissions: [{role: read%s}], tokens: [{id: %s, sha256: %x}]}\n", name, keys, name, sha256.Sum256([]byte("weir_"+name+"_secret")))
	}
	return file.String()
}

// A server that is locked asks for a token: a wrong one is refused, a good one shows what it may
// read, and one that is revoked ends the page.
func TestTokens(t *testing.T) {
	path := file(t, "tokens.yaml", tokens("all", "shop"))
	w := start(t, func(cfg *node.Config) {
		cfg.Tokens.File, cfg.Policies.File = path, file(t, "policies.yaml", policies)
	})
	w.hit("shop:cart", 3, 0)
	w.hit("other", 5, 0)
	p := open(t, "about:blank")
	p.expectFailures(true) // 401
	p.do(chromedp.Navigate(w.url + "/"))
	p.until(`document.activeElement?.id === "token"`)
	p.audit("login")
	enter := func(token string) { p.do(chromedp.SendKeys(chromedp.CSS("#token"), token+kb.Enter)) }
	enter("weir_all_wrong")
	p.says("This server does not accept the token.")
	enter("weir_shop_secret")
	p.says("cart")
	if text := value[string](p, "document.body.innerText"); strings.Contains(text, "other") || strings.Contains(text, "Hits per second") {
		t.Errorf("it shows what is not the token's: %s", text)
	}
	p.at("/nodes")
	p.says("this concerns all keys and limits")
	p.at("/")
	p.do(chromedp.Reload())
	p.says("cart")
	if kept := value[string](p, `JSON.stringify(localStorage) + document.cookie + location.href`); strings.Contains(kept, "secret") {
		t.Errorf("the token is kept: %s", kept)
	}
	if err := os.WriteFile(path, []byte(tokens("all")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.node.Reload()
	p.says("The token is no longer good")
	enter("weir_all_secret")
	p.says("other")
	p.says("Hits per second")
	p.at("/limits/login") // role read has no button to change a key
	p.says("No key has used anything of this limit.")
	if shown := value[int](p, `[...document.querySelectorAll(".acts")].filter((e) => e.checkVisibility()).length`); shown != 0 {
		t.Errorf("%d places for actions of an admin", shown)
	}
	p.do(chromedp.Click(`//button[text()="Forget token"]`))
	p.until(`document.querySelector("#token") && sessionStorage.length === 0`)
}

// Behind a proxy a page may have any path.
func TestPathPrefix(t *testing.T) {
	w := start(t, nil)
	w.hit("behind", 3, 0)
	to, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/counts/weir", &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		if !strings.HasPrefix(r.In.RequestURI, "/counts/weir/") {
			t.Errorf("asks %s", r.In.RequestURI)
		}
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}))
	t.Cleanup(proxy.Close)
	p := open(t, proxy.URL+"/counts/weir/")
	t.Cleanup(func() { p.do(chromedp.Navigate("about:blank")) }) // before the proxy closes
	p.says("behind")
	p.at("/key/behind")
	p.until(`document.querySelector(".counts .value")?.textContent === "3"`)
}

// Numbers and times are written as in the reader's language.
func TestLocale(t *testing.T) {
	w := start(t, nil)
	w.hit("a", 1_234_567, time.Minute)
	p := open(t, "about:blank")
	p.do(call(emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "test", AcceptLanguage: "de-DE"}), chromedp.Navigate(w.url+"/"))
	p.says("1.234.567")
}

// Two themes and a time zone, by hand; and no page is wider than a phone, or has what hinders its readers there.
func TestThemes(t *testing.T) {
	w := start(t, func(cfg *node.Config) {
		cfg.HTTP.Web, cfg.Policies.File = []string{"localhost"}, file(t, "policies.yaml", policies)
	})
	w.site("")
	w.hit("a", 3, time.Minute)
	w.allow("login:bob:10.0.0.1", 7)
	p := open(t, w.url+"/")
	p.do(chromedp.EmulateViewport(360, 740))
	p.says("a")
	ground := func() string { return value[string](p, `getComputedStyle(document.body).backgroundColor`) }
	p.do(chromedp.Click(chromedp.CSS(`footer button`))) // light
	light := ground()
	p.do(chromedp.Click(chromedp.CSS(`footer button`)))
	if dark := ground(); dark == light {
		t.Errorf("light and dark are both %s", dark)
	}
	p.do(chromedp.Reload())
	p.says("Theme: dark")
	p.do(chromedp.Click(`//button[starts-with(text(),"Time:")]`))
	p.says("Time: UTC")
	for _, place := range []string{"/", "/?by=key", "/key/a", "/limits", "/limits/login", "/log", "/nodes", "/site", "/site/localhost"} {
		p.at(place)
		p.until(live)
		p.audit(place + " on a phone")
		if wide := value[int](p, `document.documentElement.scrollWidth`); wide > 360 {
			t.Errorf("%s is %d pixels wide", place, wide)
		}
	}
}
