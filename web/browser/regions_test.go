package browser

import (
	"log/slog"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// A key's page has the parts of regions, and its history, where the server has them; that of the cluster draws the
// regions, and says which is late and which link is down.
func TestRegionsAndHistory(t *testing.T) {
	addrs := transporttest.Addrs(t, 2)
	regionAt := func(i int, name, other string) *node.Node {
		cfg := node.Config{Logger: transporttest.Logger(t, slog.LevelWarn)}
		cfg.HTTP.Addr, cfg.Journal.Dir, cfg.Journal.FlushEvery = addrs[i], t.TempDir(), 20*time.Millisecond
		cfg.Engine.Memory = 64 << 20
		cfg.Regions = node.Regions{Region: name, Every: 100 * time.Millisecond, Memory: 32 << 20, Links: []string{other + "=http://" + addrs[1-i]}}
		cfg.History.On, cfg.History.Every = true, 100*time.Millisecond
		n := nodetest.Open(t, cfg)
		t.Cleanup(func() { nodetest.Close(t, n) })
		return n
	}
	euNode, usNode := regionAt(0, "eu", "us"), regionAt(1, "us", "eu")
	for n, node := range map[uint64]*node.Node{3: euNode, 4: usNode} {
		if err := node.Engine().HitN("url:/both", n); err != nil {
			t.Fatal(err)
		}
	}
	p := open(t, "http://"+addrs[0]+"/#/key/url%3A%2Fboth")
	p.until(`document.querySelector(".counts .value")?.textContent === "3"`)
	p.until(`[...document.querySelectorAll(".rows tr")].map((row) => row.querySelector("th").textContent + " " + row.querySelector(".value").textContent).join() === "eu 3,us 4"`)
	p.says("From the history of this server")
	p.audit("key of two regions")

	p.at("/nodes")
	p.until(`document.querySelectorAll(".map .heard .up").length === 1`)
	p.until(`/^eu hears: us: in time, link up since /.test(document.querySelector(".map svg").getAttribute("aria-label"))`)
	const us = `[...document.querySelectorAll(".rows tr")].find((row) => row.querySelector("th").textContent === "us")?.innerText`
	p.until(`/in time.*up since/s.test(` + us + `)`)
	p.says("1 other region pulls from this node now")
	p.says("a region of one node, with a journal")
	if value[bool](p, `document.body.innerText.includes("counts alone")`) {
		t.Error("it says that it counts alone, above the table of regions")
	}
	p.says("/s in, ")
	p.says("/s out")
	p.audit("cluster of two regions")
	nodetest.Close(t, usNode)
	p.until(`document.querySelectorAll(".map .late .down").length === 1`)
	p.until(`/not reachable for \d+ s: its hits since .* may be missing.*down since .*: ./s.test(` + us + `)`)
	p.says("link down")
	p.says("1 not reachable")
	p.audit("cluster with a region that is late")
	p.do(chromedp.EmulateViewport(360, 740))
	if wide := value[int](p, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("it is %d pixels wide", wide)
	}
}
