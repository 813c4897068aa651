package browser

import (
	"context"
	"fmt"
	"os"

	"github.com/chromedp/chromedp"
)

// axe is axe-core, which finds what hinders people who can't see or use a mouse.
const axe = "../node_modules/axe-core/axe.min.js"

// audit fails for what axe-core finds on the page, in both themes.
func (p *tab) audit(page string) {
	p.Helper()
	script, err := os.ReadFile(axe)
	if err != nil {
		p.Fatal(err)
	}
	p.do(chromedp.Evaluate[chromedp.Void](string(script)))
	for _, theme := range []string{"light", "dark"} {
		const run = `(async () => {
			const root = document.documentElement, was = root.dataset.theme;
			root.dataset.theme = %q;
			const found = await axe.run(document, { resultTypes: ["violations"] });
			if (was) root.dataset.theme = was; else delete root.dataset.theme;
			return found.violations.map((v) => v.id + ": " + v.help + "\n  " + v.nodes.map((n) => n.html + " " + n.failureSummary).join("\n  ")).join("\n");
		})()`
		found := awaited[string](p, fmt.Sprintf(run, theme))
		if found != "" {
			p.Errorf("%s, %s: %s", page, theme, found)
		}
	}
}

// awaited is what a promise comes to.
func awaited[T any](p *tab, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	made, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatal(err)
	}
	return made
}
