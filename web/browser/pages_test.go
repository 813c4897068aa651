package browser

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/replay/shadow"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/web"
)

const policies = `limits:
  - {name: login, keys: "login:{user}:*", by: "login:{user}", limit: 5, per: 1m}
  - {name: trial, keys: "login:*", limit: 2, per: 1m, mode: shadow}
`

// The reference of the API has an index of all operations, opens what the address names, and filters.
func TestReference(t *testing.T) {
	w := start(t, nil)
	p := open(t, w.url+"/docs")
	p.until(`document.querySelectorAll("nav a").length > 60 && !document.querySelector("details[open]")`)
	p.audit("reference")
	p.at("schema-CountAnswer")
	p.until(`document.querySelector("details[open]")?.id === "schema-CountAnswer"`)
	p.do(chromedp.SendKeys("nav input", "forward"))
	p.until(`[...document.querySelectorAll("nav li")].filter(e => e.offsetParent).length === 1`)
}

// Every page shows what the server has, and goes on by itself.
func TestPages(t *testing.T) {
	w := start(t, func(cfg *node.Config) { cfg.Policies.File = file(t, "policies.yaml", policies) })
	for ago := range 240 {
		w.hit("url:/home", 3, time.Duration(ago)*time.Second)
		w.hit("url:/cart", 1, time.Duration(ago)*time.Second)
	}
	for ago := 10; ago < 280; ago += 3 {
		w.hit("url:/home", 1, time.Duration(ago)*time.Minute)
	}
	denial := w.allow("login:bob:10.0.0.1", 7)
	p := open(t, w.url+"/")

	t.Run("Overview", func(t *testing.T) {
		p.T = t
		p.until(live)
		p.says("/home")
		rows := value[string](p, `[...document.querySelectorAll(".card h2, .rows tr th")].map(e => e.textContent).slice(-3).join(" ")`)
		if rows != "Pages url: /home /cart" {
			t.Errorf("keys: %s", rows)
		}
		w.hit("url:/new", 100_000, 0)
		p.until(`document.querySelector(".rows tr th").textContent === "/new"`)
		p.says("100,000")
		p.until(`document.querySelector(".plot canvas") && document.querySelector(".spark path").getAttribute("d").length > 100`)
		p.audit("overview")
		p.drag()
		p.until(`/key\/\*\?.*from=\d+/.test(location.hash) && document.querySelector(".said").textContent.includes("each point is")`)
		p.at("/")
		p.until(live)
		p.at("/?by=key")
		p.until(`[...document.querySelectorAll(".rows tr th")].map(e => e.textContent).join(" ") === "url:/new url:/home url:/cart"`)
		for i := range 20 {
			w.hit(fmt.Sprintf("more:%d", i), 1, 0)
		}
		p.do(chromedp.Click(`//a[text()="Show more"]`))
		p.until(`document.querySelectorAll(".rows tr").length === 23`)
		p.audit("all keys")
		p.at("/?window=1h&prefix=url%3A%2Fc")
		p.until(`document.querySelectorAll(".rows tr").length === 1`)
		p.says("Top keys in 1 hour")
	})
	t.Run("Search", func(t *testing.T) {
		p.T = t
		p.do(chromedp.KeyEvent("/"))
		p.until(`document.activeElement.getAttribute("role") === "combobox"`)
		value[string](p, `document.activeElement.value = ""`) // a key event of the protocol types, whatever the page says
		p.do(chromedp.KeyEvent("url:/c"))
		p.until(`document.querySelector("#found li")?.textContent === "url:/cart"`)
		p.audit("search")
		p.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
		p.until(`document.querySelector("h1").textContent === "url:/cart" && document.activeElement === document.querySelector("h1")`)
	})
	t.Run("Key", func(t *testing.T) {
		p.T = t
		p.at("/key/url%3A%2Fcart?window=5m")
		p.says("240")
		p.until(`document.querySelector(".plot canvas") && document.querySelector(".said").textContent.includes("exact")`)
		p.do(chromedp.Click(chromedp.CSS(`.values summary`)))
		p.until(`document.querySelectorAll(".values tbody tr").length > 50`)
		p.until(`document.querySelectorAll(".heat tbody td").length === 168 && document.querySelector(".legend").textContent.includes("hits an hour")`)
		at := value[[]float64](p, `(() => { const e = document.querySelector(".u-over"); e.scrollIntoView(); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
		p.do(call(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at[0], Y: at[1]}))
		p.until(`/Hits [\d.]+ per/.test(document.querySelector(".tip:not([hidden])")?.textContent)`) // next to the pointer
		p.do(chromedp.SendKeys(chromedp.CSS(`input[aria-label="Compare with another key"]`), "url:/home"+kb.Enter))
		p.until(`location.hash.includes("with=url%3A%2Fhome") && document.querySelector(".u-legend").textContent.includes("url:/home")`)
		p.audit("key")
		p.do(chromedp.Click(chromedp.CSS(`.compared a`)))
		p.until(`!location.hash.includes("with=")`)
		p.at("/key/url%3A%2Fhome?window=1d")
		p.says("Hits over 1 day")
		p.until(`/\(hits\/(s|min|h|d)\)/.test(document.querySelector("figure.chart").parentElement.querySelector("h2").textContent)`)
		p.until(`[...document.querySelector(".u-legend").querySelectorAll(".u-value")].every(e => e.textContent !== "" && e.textContent !== "--")`) // nothing is pointed at; bars of today alone have a value "so far" only
		p.until(live)
		p.do(chromedp.Click(`//button[@aria-label="Closer"]`))
		p.until(`location.hash.includes("from=") && document.querySelector(".said").textContent.includes("each point is")`)
		p.do(chromedp.Click(`//a[text()="Now"]`))
		p.until(`!location.hash.includes("from=")`)
	})
	t.Run("Limits", func(t *testing.T) {
		p.T = t
		p.at("/limits")
		p.until(`document.querySelectorAll(".rows tr").length === 2`)
		cells := value[string](p, `[...document.querySelectorAll(".rows tr:first-child td")].map(e => e.innerText).join("|")`)
		if !strings.HasPrefix(cells, "5 per 1 min|5|2|29%|") {
			t.Errorf("login: %s", cells)
		}
		p.at("/limits/login")
		p.says("denied now")
		p.says("for each login:{user}")
		p.until(`document.querySelector(".plot canvas")`)
		p.until(`document.querySelector(".rows td.denied")?.textContent === "2"`) // the most denied key
		if to := value[string](p, `document.querySelector('a[aria-label="why? login:bob"]').hash`); to != "#/why/"+denial {
			t.Errorf("the newest denial is %s, and why leads to %s", denial, to)
		}
		p.audit("limit")
		p.do(chromedp.Click(chromedp.CSS(`button[aria-label="Change login:bob"]`)))
		p.do(chromedp.Click(`//button[text()="Ban it for this time"]`), chromedp.Click(`//button[text()="Ban it for this time: sure?"]`))
		p.says("It is denied from now on.")
		p.do(chromedp.Click(`//button[text()="Lift its ban"]`), chromedp.Click(`//button[text()="Lift its ban: sure?"]`))
		p.says("It is not banned.")
		p.do(chromedp.Click(`//button[text()="Forget what it has used"]`), chromedp.Click(`//button[text()="Forget what it has used: sure?"]`))
		p.says("Its whole burst is there again.")
		p.do(chromedp.Click(`//button[text()="Grant"]`))
		p.says("10 more may pass.")
		p.do(chromedp.Click(`//dialog//button[text()="Close"]`))
		p.says("No key has used anything of this limit.")
		p.at("/limits/trial")
		p.says("would be denied")
		p.do(chromedp.SendKeys(chromedp.CSS(`input[aria-label="ID of a denial"]`), denial+kb.Enter))
		p.says("What filled it")
		p.says("5 of 5")
		// The two denials share an ID, unless the machine took a second between them.
		said := regexp.MustCompile(`^Denied \w+ \d+, \d{4}, [^,]+\.$`)
		if times := awaited[int](p, fmt.Sprintf(`fetch("v1/denials/%s").then((r) => r.json()).then((of) => of.times)`, denial)); times > 1 {
			said = regexp.MustCompile(fmt.Sprintf(`^Denied %d times, first \w+ \d+, \d{4}, [^,]+, last \w+ \d+, \d{4}, [^,]+\.$`, times))
		}
		if is := value[string](p, `document.querySelector(".said").textContent`); !said.MatchString(is) {
			t.Errorf("it says: %s", is)
		}
		p.audit("why")
		w.allow("login:mal:10.0.0.1", 5)
		r, err := http.Post(w.url+"/v1/bans?limit=login&key=login:mal&for=1h", "", nil)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		r.Body.Close()
		banned := w.allow("login:mal:10.0.0.1", 1)
		p.at("/limits/login")
		p.says("banned for")
		if cut := value[bool](p, `[...document.querySelectorAll("th.key")].some(e => e.scrollWidth > e.clientWidth)`); cut {
			t.Error("a key's name is cut")
		}
		p.at("/why/" + banned)
		p.says("Banned until")
		if value[bool](p, `/What filled it|Used then/.test(document.querySelector("main").textContent)`) {
			t.Error("it speaks of the limit, which did not matter")
		}
		p.expectFailures(true)
		p.at("/why/none")
		p.says("no denial has the ID none")
		p.expectFailures(false)
	})
	t.Run("Nothing there", func(t *testing.T) {
		p.T = t
		p.at("/banana")
		p.says("There is no page #/banana")
		p.audit("no such page")
		p.at("/key/never:counted")
		p.says("No hit of this key is known")
		p.at("/key/url%3A%2Fhome")
		p.until(`[...document.querySelectorAll(".counts .value")].some((e) => /[1-9]/.test(e.textContent))`)
		if value[bool](p, `document.body.innerText.includes("No hit of this key")`) {
			t.Error("it says that a key was never counted that was")
		}
		p.expectFailures(true)
		p.at("/limits/nobody")
		p.says("nobody")
		p.until(`!document.querySelector(".refused").hidden`)
		if value[int](p, `[...document.querySelectorAll("main table")].filter((e) => e.checkVisibility()).length`) > 1 {
			t.Error("it has tables of a limit that is not there")
		}
		p.expectFailures(false)
	})
	t.Run("Live log", func(t *testing.T) {
		p.T = t
		p.at("/log")
		p.says("Nothing yet") // from now on it is noted
		w.post("live:<b>hit</b>\nurl:/home 4")
		p.until(`document.querySelectorAll(".rows tr").length === 2`)
		p.says("all hits and all denials")
		denial := w.allow("login:eve:10.0.0.1", 6)
		p.until(`document.querySelector(".rows td .denied")?.textContent === "denied by login"`)
		if to := value[string](p, `document.querySelector(".rows .sub a").getAttribute("href")`); to != "#/why/"+denial {
			t.Errorf("the denial %s has a link to %s", denial, to)
		}
		p.says("live:<b>hit</b>")
		p.audit("live log")
		p.do(chromedp.Click(`//button[text()="Freeze"]`))
		p.says("Frozen at")
		w.post("live:later")
		p.until(`document.querySelector(".fresh").textContent !== ` + fmt.Sprintf("%q", value[string](p, `document.querySelector(".fresh").textContent`))) // a view came
		if value[bool](p, `document.body.innerText.includes("live:later")`) {
			t.Error("it is frozen, and goes on")
		}
		p.do(chromedp.Click(`//button[text()="Freeze"]`))
		p.says("live:later")
		p.at("/log?kind=hit&prefix=live%3A") // another log, of its own
		p.says("Nothing yet")
		p.until(live)
		w.post("url:/home 4\nlive:two")
		p.until(`document.querySelector(".rows th")?.textContent === "live:two" && document.querySelectorAll(".rows tr").length === 1`)
		for range 50 {
			w.post(strings.Repeat("live:many\n", 1000))
		}
		p.until(`/1 in [0-9,]+ hits/.test(document.querySelector(".said").textContent) || document.querySelectorAll(".rows tr").length > 10`)
	})
	t.Run("Cluster", func(t *testing.T) {
		p.T = t
		p.at("/nodes")
		p.says("No alarms")
		p.says("alone, in memory")
		p.audit("cluster")
	})
}

// What teams have spent, and what open reservations have taken of it, is on the page of a limit, in dollars.
func TestBudgets(t *testing.T) {
	const budgets = `limits:
  - {name: spend, keys: "team:*", limit: 500000000, per: month, cost: microusd}
  - {name: jobs, keys: "job:*", max: 3, ttl: 60s}
`
	w := start(t, func(cfg *node.Config) { cfg.Policies.File = file(t, "policies.yaml", budgets) })
	for range 2 {
		r, err := http.Post(w.url+"/v1/reserve?ttl=10m", "application/json", strings.NewReader(`{"key":"team:7","costs":{"microusd":2500000}}`))
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		r.Body.Close()
	}
	for team, usd := range map[string]string{"7": "3000000", "8": "1000000"} {
		r, err := http.Post(w.url+"/v1/allow", "application/json", strings.NewReader(`{"key":"team:`+team+`","costs":{"microusd":`+usd+`}}`))
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		r.Body.Close()
	}
	p := open(t, w.url+"/#/limits/spend")
	p.says("$500.00 per month, UTC")
	p.until(`/^Spend of keys of spend: team:7 now /.test([...document.querySelectorAll(".plot")].map(e => e.getAttribute("aria-label"))[1])`)
	p.until(`[...document.querySelectorAll(".card h2")].some(e => /^Spend over time \(\$\/(s|min|h|d)\)$/.test(e.textContent))`)
	p.until(`[...document.querySelectorAll(".u-legend .u-label")].map(e => e.textContent).join().includes("team:7,team:8")`)
	p.says("$8.00 of $500.00")
	p.until(`[...document.querySelectorAll("td.reserved")].map(e => e.textContent).join() === "$5.00 in 2 open reservations,"`)
	p.says("3 for each key")
	p.audit("budgets")
	p.do(chromedp.EmulateViewport(360, 740))
	p.until(`document.documentElement.scrollWidth <= 360`)
	p.audit("budgets on a phone")
}

// drag moves the pointer over the middle of the first chart, with its button down.
func (p *tab) drag() {
	p.Helper()
	at := value[[]float64](p, `(() => { const e = document.querySelector(".u-over"); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return [r.x + r.width / 3, r.x + r.width / 2, r.y + r.height / 2]; })()`)
	for _, event := range []input.DispatchMouseEventParams{
		{Type: input.DispatchMouseEventTypeMouseMoved, X: at[0]}, {Type: input.DispatchMouseEventTypeMousePressed, X: at[0], Button: input.MouseButtonLeft, ClickCount: 1},
		{Type: input.DispatchMouseEventTypeMouseMoved, X: at[1], Button: input.MouseButtonLeft}, {Type: input.DispatchMouseEventTypeMouseReleased, X: at[1], Button: input.MouseButtonLeft, ClickCount: 1},
	} {
		event.Y = at[2]
		p.do(call(input.DispatchMouseEvent, event))
	}
}

// Reports are pages without a server.
func TestReports(t *testing.T) {
	at := func(s int64) replay.Time { return replay.Time{Time: time.Unix(s, 0)} }
	first, last := at(1_769_860_000), at(1_769_860_119)
	log := &replay.Report{
		Files: []replay.FileReport{{Name: "access.log", Totals: replay.Totals{Lines: 9, Hits: 9}}}, Totals: replay.Totals{Lines: 9, Hits: 9}, First: &first, Last: &last, SpanSeconds: 120,
		Line: &replay.Line{From: first, StepSeconds: 60, Hits: []uint64{4, 5}}, Busiest: []replay.Peak{{WindowSeconds: 1, At: last, Hits: 3}}, Now: []replay.Rate{{WindowSeconds: 60, Hits: 5, PerSecond: 5. / 60}},
		Top: []replay.Top{{Template: "url:{path}", Keys: []replay.TopKey{{Key: "</script><b>", Hits: 9, Lower: 9, Upper: 9}}, Of: 9}},
	}
	limits := &shadow.Report{
		Files: log.Files, Policies: "policies.yaml", Requests: 9, Allowed: 5, Denied: 4, First: &first, Last: &last, SpanSeconds: 120, Summary: []string{"login: would have denied 4"},
		Limits: []shadow.Limit{{
			Name: "login", Keys: "ip:*", Rule: shadow.Rule{N: 5, PerSeconds: 60, Burst: 5}, Enforced: true, Requests: 9, Denied: 4, DeniedShare: 4. / 9, Needs: []shadow.Need{{N: 9, Burst: 9}},
			Timeline: shadow.Timeline{Start: first, BucketSeconds: 60, Requests: []uint64{4, 5}, Denied: []uint64{1, 3}}, Top: []shadow.Key{{Key: "ip:::1", Requests: 4, Denied: 4, DeniedShare: 1}},
		}},
	}
	for kind, report := range map[string]any{"replay": log, "limits": limits} {
		var page bytes.Buffer
		if err := web.Report(&page, kind, "v1", time.Now(), report); err != nil {
			t.Fatal(err)
		}
		p := open(t, "file://"+file(t, kind+".html", page.String()))
		p.until(`document.querySelector(".plot canvas") && document.querySelectorAll("tbody th").length > 1`)
		want := "</script><b>"
		if kind == "limits" {
			want = "Would deny nobody"
		}
		p.says(want)
		p.do(chromedp.Click(`//button[starts-with(text(),"Time:")]`))
		p.says("Time: UTC")
		p.audit(kind)
	}
}

// Whatever a key is named, it is text, and its link leads to it.
func TestHostileNames(t *testing.T) {
	names := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "\u202egnp.exe", "مرحبا", "a\nb\tc\x00", "\x1b[31m\u009b", "👩‍👩‍👧‍👦🏴", "%2e%2e/../?a=b&c#d", "__proto__", "constructor",
		"javascript:alert(1)", strings.Repeat("x", 512), strings.Repeat("é", 256), " ", "limit:", "a/b//c",
	}
	w := start(t, nil)
	for i, name := range names {
		w.hit(name, uint64(1000-i), 0)
	}
	p := open(t, w.url+"/#/?by=key&n=100")
	p.until(fmt.Sprintf(`document.querySelectorAll(".rows tr").length >= %d`, len(names)-1)) // limit: is listed apart
	if n := value[int](p, `document.querySelectorAll(".rows img, .rows script, body > script").length`); n != 0 {
		t.Errorf("%d elements of names", n)
	}
	for i, name := range names {
		p.at("/key/" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20") + "?window=1m")
		p.until(fmt.Sprintf(`document.querySelector(".counts .value")?.textContent === "%s"`, grouped(1000-i)))
		shown := value[string](p, `document.querySelector("h1").textContent`)
		if want := pictured(name); shown != want {
			t.Errorf("%q is shown as %q, not %q", name, shown, want)
		}
		if wide := value[bool](p, `document.documentElement.scrollWidth > innerWidth`); wide {
			t.Errorf("%q makes the page wider than the window", name)
		}
	}
	p.do(chromedp.Click(chromedp.CSS(`.brand`)))
	p.until(`document.querySelectorAll(".rows tr a").length > 3`)
	p.do(chromedp.Click(chromedp.CSS(`.rows tr:first-child a`)))
	p.until(`document.querySelector("h1").textContent === "<script>alert(1)</script>"`)
}

func grouped(n int) string {
	if n >= 1000 {
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
}

func pictured(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r < 0x20:
			b.WriteRune(0x2400 + r)
		case r >= 0x80 && r < 0xa0 || r == 0x202e:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
