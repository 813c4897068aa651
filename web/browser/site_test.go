package browser

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/weir-counter/weir/node"
)

// views counts views of pages of localhost as a server reports them, each by a visitor of its own.
func (w *weirAt) views(n int, path, referrer, agent, token string) {
	w.Helper()
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"site":"localhost","path":%q,"referrer":%q,"user_agent":%q,"address":"192.0.2.%d"}`, path, referrer, agent, i))
	}
	r, err := http.NewRequest(http.MethodPost, w.url+"/v1/web", strings.NewReader("["+strings.Join(list, ",")+"]"))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		w.Fatal(answer.Status)
	}
}

// site has views of all kinds.
func (w *weirAt) site(token string) {
	const linux, phone = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Mobile/15E148 Safari/604.1"
	w.views(40, "/?utm_source=letter", "https://news.example/x", linux, token)
	w.views(25, "/about", "", phone, token)
	w.views(12, "/a/rather/long/path/of-a-page-that-says-much", "https://search.example/", linux, token)
	w.views(3, "/<b>bold</b>", "", linux, token)
	w.views(7, "/", "", "Examplebot/1.0 (+https://example.com/bot)", token)
	for day := 1; day < 20; day++ {
		w.hit("localhost:visitors", uint64(40+day*7%30), time.Duration(day)*24*time.Hour)
	}
}

// The page of a site shows who is there, what they read, and where they come from.
func TestSite(t *testing.T) {
	w := start(t, func(cfg *node.Config) { cfg.HTTP.Web = []string{"localhost"} })
	w.site("")
	p := open(t, w.url+"/#/site")
	p.says(`data-site="localhost"`)
	p.says(w.url + "/w.js")
	p.audit("sites")
	p.do(chromedp.Click(`//main//a[.="localhost"]`))
	tiles := `[...document.querySelectorAll(".tile strong")].map(e => e.textContent).join(" ")`
	p.until(tiles + ` === "65 65 80 7"`)
	p.until(`[...document.querySelectorAll("main .card h2")].map(e => e.textContent).join() === "Views (views/h),Pages,Referrers,Campaigns utm_source,Events,Browsers,Devices,Filtered"`)
	rows := value[string](p, `[...document.querySelectorAll(".rows tr")].map(e => e.innerText.replace(/\s+/g, " ")).join("|")`)
	if want := "/ 40|/about 25|/a/rather/long/path/of-a-page-that-says-much 12|/<b>bold</b> 3|news.example 40|search.example 12|letter 40|firefox 55|safari 25|desktop 55|phone 25|crawler 7"; !strings.HasPrefix(rows, want) {
		t.Errorf("lists: %s", rows)
	}
	p.audit("site")
	w.views(30, "/new", "", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "")
	p.until(tiles + ` === "65 65 110 7"`) // it goes on by itself
	p.do(chromedp.Click(`//a[text()="30 days"]`))
	p.until(`location.hash.includes("period=30d") && document.querySelectorAll(".tile strong")[2]?.textContent.length > 3`)
	p.do(chromedp.Click(chromedp.CSS(`.values summary`)))
	p.until(`document.querySelectorAll(".values tbody tr").length === 30`)
	day := time.Now().Add(-5 * 24 * time.Hour).Format("01022006")
	p.do(chromedp.SendKeys(chromedp.CSS(`#from`), day), chromedp.SendKeys(chromedp.CSS(`#to`), day+kb.Enter))
	p.until(`/period=\d{4}-\d\d-\d\d\.\./.test(decodeURIComponent(location.hash))`)
	p.until(`/^0 \d+ 0$/.test(` + strings.Replace(tiles, ".map", ".slice(1).map", 1) + `)`)
	p.do(chromedp.Click(`//a[text()="Today"]`))
	p.says("/about")
	p.do(chromedp.Click(`//main//a[.="/about"]`))
	p.until(`document.querySelector("h1").textContent === "localhost:path:/about"`)
	p.do(chromedp.EmulateViewport(390, 780))
	p.at("/site/localhost")
	p.until(`document.querySelector(".tops") && document.body.innerText.includes("/about") && document.documentElement.scrollWidth <= innerWidth`)
}

// With a token for none, everybody sees the page of a site that says so, and no way to another.
func TestPublicSite(t *testing.T) {
	path := file(t, "tokens.yaml", strings.Replace(tokens("all"), "{role: read}", "{role: read}, {role: ingest}", 1))
	w := start(t, func(cfg *node.Config) { cfg.HTTP.Web, cfg.Tokens.File = []string{"localhost;public"}, path })
	w.site("weir_all_secret")
	p := open(t, w.url+"/#/site/localhost")
	p.says("news.example")
	p.until(`document.querySelectorAll(".tile strong")[2].textContent === "80"`)
	if links := value[string](p, `[...document.querySelectorAll("main a, nav a, input")].filter(e => e.checkVisibility()).map(e => e.textContent || e.type).join()`); links != "Today,7 days,30 days" {
		t.Errorf("links: %s", links)
	}
	p.audit("public site")
	p.expectFailures(true)
	p.at("/site")
	p.says("This server needs a token")
}

// Set SHOTS to a folder for pictures of the page of a site.
func TestSiteShots(t *testing.T) {
	folder := os.Getenv("SHOTS")
	if folder == "" {
		return
	}
	w := start(t, func(cfg *node.Config) { cfg.HTTP.Web = []string{"localhost"} })
	w.site("")
	for name, c := range map[string]struct {
		theme, place string
		width        int64
	}{"light": {"light", "/site/localhost?period=30d", 1280}, "dark": {"dark", "/site/localhost", 1280}, "phone": {"light", "/site/localhost?period=7d", 390}, "sites": {"light", "/site", 1280}} {
		p := open(t, w.url+"/#"+c.place)
		p.do(chromedp.EmulateViewport(c.width, 1300), call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.theme}}}), chromedp.Reload())
		p.says("localhost")
		if name != "sites" {
			p.says("/about")
		}
		shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(folder+"/"+name+".png", shot, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
