package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/weir-counter/weir/node"
)

// tabTo presses Tab until an element that the selector means has the focus, and checks that it can be seen there.
func (p *tab) tabTo(selector string) {
	p.Helper()
	for range 40 {
		p.do(chromedp.KeyEvent(kb.Tab))
		if value[bool](p, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			if !value[bool](p, `document.activeElement.matches(":focus-visible") && getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
				p.Errorf("%s has the focus, and nothing shows it", selector)
			}
			return
		}
	}
	p.Fatalf("40 times Tab lead to no %s, but to %s", selector, value[string](p, "document.activeElement.outerHTML"))
}

// Whoever has no mouse reaches everything in the order in which it stands, and sees where they are.
func TestKeyboard(t *testing.T) {
	w := start(t, func(cfg *node.Config) { cfg.Policies.File = file(t, "policies.yaml", policies) })
	w.hit("login:bob:10.0.0.1", 7, 0)
	p := open(t, w.url+"/")
	p.until(live)
	p.tabTo(".skip")
	p.tabTo(".brand")
	for _, page := range []string{"Overview", "Sites", "Limits", "Live", "Cluster"} {
		p.do(chromedp.KeyEvent(kb.Tab))
		if at := value[string](p, "document.activeElement.textContent"); at != page {
			t.Errorf("the next link of the navigation is %s, not %s", at, page)
		}
	}
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`document.activeElement === document.querySelector("h1") && document.activeElement.textContent === "Cluster"`)

	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(w.url+"/#/")) // Tab begins at the top
	p.says("bob:10.0.0.1")
	p.tabTo(`nav[aria-label="Which keys"] a:last-child`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`location.hash.includes("by=key") && document.querySelector(".rows th")?.textContent === "login:bob:10.0.0.1"`)

	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(w.url+"/#/log"))
	p.says("Nothing yet")
	p.tabTo(`nav[aria-label="What is shown"] a:last-child`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`location.hash.includes("kind=denial") && document.activeElement.textContent === "Live log"`)
	p.tabTo(`input[aria-label="Only keys that begin with"]`)
	p.do(chromedp.KeyEvent("login:"), chromedp.KeyEvent(kb.Enter))
	p.until(`location.hash.includes("prefix=login%3A") && document.activeElement.textContent === "Live log"`)
	p.until(live)
	p.says("Of the last")
	const freeze = `main .row button`
	p.tabTo(freeze)
	p.do(chromedp.KeyEvent(" "))
	p.until(`document.activeElement.getAttribute("aria-pressed") === "true"`)
	p.says("Frozen at")
	p.do(chromedp.KeyEvent(" "))
	p.until(`document.activeElement.matches("` + freeze + `") && document.activeElement.getAttribute("aria-pressed") === "false"`)
}
