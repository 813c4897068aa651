package browser

import (
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// The page of a real cluster, of which one node is cut off and comes back.
func TestLateNode(t *testing.T) {
	c := transporttest.New(t, 3, nil)
	network := transporttest.NewNetwork(t, 0)
	var configs []*transport.Config
	for i := range c.Configs {
		configs = append(configs, &c.Configs[i])
	}
	network.Between(t, configs)
	nodes := make([]*node.Node, len(c.Configs))
	var starting sync.WaitGroup
	for i := range nodes {
		starting.Go(func() {
			cfg := node.Config{Logger: c.Configs[i].Logger}
			cfg.HTTP.Addr = "127.0.0.1:0"
			cfg.Journal.Dir, cfg.Journal.Join = t.TempDir(), c.Configs[i]
			cfg.Journal.Join.Dir = "" // it is the journal's
			n, err := node.Start(t.Context(), cfg)
			if err != nil {
				t.Error(err)
			}
			nodes[i] = n
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		network.Cut("n3", false)
		nodetest.Close(t, nodes...)
	})
	if err := nodes[2].Engine().HitN("from n3", 5); err != nil {
		t.Fatal(err)
	}
	p := open(t, "http://"+nodes[0].Addr()+"/#/nodes")
	p.until(`document.querySelectorAll(".map .heard").length === 2`)
	p.until(`[...document.querySelectorAll(".rows tr")].filter((row) => row.innerText.includes("in time")).length === 3`)
	p.says("No alarms")
	p.audit("cluster of three")

	network.Cut("n3", true)
	p.until(`document.querySelectorAll(".map .late").length === 1`)
	p.says("1 not reachable")
	p.until(`[...document.querySelectorAll(".rows tr")].some((row) => row.innerText.includes("n3") && /not reachable for \d+ s: hits since .* may be missing/.test(row.innerText))`)
	p.says("Without n3 its hits are counted here until")
	p.says("n3 is not reachable since")
	p.audit("cluster with a late node")
	p.at("/key/from%20n3")
	p.until(`document.querySelector(".counts .value")?.textContent === "\u2265 5"`) // a lower bound now
	p.until(`/\u2265 [\d.]+ per/.test(document.querySelector(".u-legend").textContent)`)
	p.until(`document.querySelector(".heat tbody td[title*='\u2265']")`)
	p.at("/")
	p.until(`[...document.querySelectorAll(".tiles strong")].slice(0, 2).every((e) => e.textContent.startsWith("\u2265 "))`)
	p.audit("overview with a late node")
	p.at("/key/from%20n3")

	network.Cut("n3", false)
	p.until(`document.querySelector(".counts .value")?.textContent === "5"`)
	p.at("/nodes")
	p.until(`document.querySelectorAll(".map .heard").length === 2`)
	p.do(chromedp.EmulateViewport(360, 740))
	if wide := value[int](p, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("it is %d pixels wide", wide)
	}
}
