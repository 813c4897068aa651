package browser

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weir-counter/weir/cluster/join/jointest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// A key's page has the parts of regions, and its history, where the server has them.
func TestRegionsAndHistory(t *testing.T) {
	addrs := jointest.Addrs(t, 2)
	regionAt := func(i int, name, other string) *node.Node {
		cfg := node.Config{Logger: jointest.Logger(t, slog.LevelWarn)}
		cfg.HTTP.Addr, cfg.Journal.Dir, cfg.Journal.FlushEvery = addrs[i], t.TempDir(), 20*time.Millisecond
		cfg.Engine.Memory = 64 << 20
		cfg.Regions = node.Regions{Region: name, Every: 100 * time.Millisecond, Memory: 32 << 20, Links: []string{other + "=http://" + addrs[1-i]}}
		cfg.History.On, cfg.History.Every = true, 100*time.Millisecond
		n := nodetest.Open(t, cfg)
		t.Cleanup(func() { nodetest.Close(t, n) })
		return n
	}
	eu, us := regionAt(0, "eu", "us"), regionAt(1, "us", "eu")
	for n, node := range map[uint64]*node.Node{3: eu, 4: us} {
		if err := node.Engine().HitN("url:/both", n); err != nil {
			t.Fatal(err)
		}
	}
	p := open(t, "http://"+addrs[0]+"/#/key/url%3A%2Fboth")
	p.until(`document.querySelector(".counts .value")?.textContent === "3"`)
	p.until(`[...document.querySelectorAll(".rows tr")].map((row) => row.querySelector("th").textContent + " " + row.querySelector(".value").textContent).join() === "eu 3,us 4"`)
	p.says("From the history of this server")
	p.audit("key of two regions")
}
