package node_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
	"github.com/weir-counter/weir/policy"
)

// world is some regions of one node each, which link to each other.
type world struct {
	t     *testing.T
	names []string
	addrs []string
	cfgs  []node.Config
	nodes []*node.Node
	asks  []*client.Client
}

// newRegions returns regions by name, and for each those that it pulls from.
func newRegions(t *testing.T, links map[string][]string, names ...string) *world {
	t.Helper()
	return newRegionsEvery(t, 100*time.Millisecond, links, names...)
}

func newRegionsEvery(t *testing.T, every time.Duration, links map[string][]string, names ...string) *world {
	t.Helper()
	return newRegionsWith(t, every, links, func(*node.Config) {}, names...)
}

// newRegionsWith has change change the configuration of each.
func newRegionsWith(t *testing.T, every time.Duration, links map[string][]string, change func(*node.Config), names ...string) *world {
	t.Helper()
	w := &world{t: t, names: names, addrs: transporttest.Addrs(t, len(names)), nodes: make([]*node.Node, len(names))}
	at := map[string]string{}
	for i, name := range names {
		at[name] = w.addrs[i]
	}
	dir := t.TempDir()
	for i, name := range names {
		cfg := node.Config{Logger: transporttest.Logger(t, slog.LevelWarn)}
		cfg.HTTP.Addr = w.addrs[i]
		cfg.Engine.Memory, cfg.Engine.LimitMemory = 64<<20, 1<<20
		cfg.Journal.Dir = filepath.Join(dir, name)
		cfg.Journal.FlushEvery = 20 * time.Millisecond
		cfg.Regions = node.Regions{Region: name, Every: every, Memory: 32 << 20}
		for _, to := range links[name] {
			cfg.Regions.Links = append(cfg.Regions.Links, to+"=http://"+at[to])
		}
		change(&cfg)
		w.cfgs = append(w.cfgs, cfg)
		c, err := client.New("http://"+w.addrs[i], client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.asks = append(w.asks, c)
		w.start(i)
	}
	return w
}

func (w *world) start(i int) { w.nodes[i] = nodetest.Open(w.t, w.cfgs[i]) }

func (w *world) stop(i int) { nodetest.Close(w.t, w.nodes[i]) }

func (w *world) hit(i int, key string, n uint64) {
	w.t.Helper()
	if err := w.nodes[i].Engine().HitN(key, n); err != nil {
		w.t.Fatal(err)
	}
}

// agree waits until some regions count so many hits of a key, and never more.
func (w *world) agree(key string, want uint64, at ...int) {
	w.t.Helper()
	w.await(key, want, want, at)
}

// settle is agree where there were more.
func (w *world) settle(key string, want uint64, at ...int) {
	w.t.Helper()
	w.await(key, want, math.MaxUint64, at)
}

func (w *world) await(key string, want, most uint64, at []int) {
	w.t.Helper()
	for _, i := range at {
		var last string
		w.t.Cleanup(func() {
			if w.t.Failed() {
				w.t.Logf("%s of %s, last: %s", key, w.names[i], last)
			}
		})
		transporttest.Eventually(w.t, fmt.Sprintf("%s has %d hits of %s", w.names[i], want, key), func() bool {
			counts, err := w.asks[i].Count(w.t.Context(), client.CountQuery{Keys: []string{key}, Windows: []time.Duration{time.Hour}})
			if err != nil {
				last = err.Error()
				return false // it is starting
			}
			last = fmt.Sprintf("%+v", counts[0])
			if counts[0].Lower > most {
				w.t.Fatalf("%s: too many hits of %s: %d, want %d", w.names[i], key, counts[0].Lower, want)
			}
			return counts[0].Lower == want // on a busy machine a region may be late all the time, and says so
		})
	}
}

func mesh(names ...string) map[string][]string {
	links := map[string][]string{}
	for _, from := range names {
		for _, to := range names {
			if from != to {
				links[from] = append(links[from], to)
			}
		}
	}
	return links
}

// Whatever the shape of the links, each region counts the hits of all, once; a deletion takes those of the region that
// deletes.
func TestRegionsCountTogether(t *testing.T) {
	t.Parallel()
	names := []string{"eu", "us", "ap"}
	for shape, links := range map[string]map[string][]string{
		"mesh": mesh(names...),
		"star": {"eu": {"us", "ap"}, "us": {"eu"}, "ap": {"eu"}},
		"ring": {"eu": {"us"}, "us": {"ap"}, "ap": {"eu"}},
	} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			w := newRegions(t, links, names...)
			for i := range names {
				w.hit(i, "a", uint64(1+i))
				w.hit(i, "only:"+names[i], 7)
			}
			w.agree("a", 6, 0, 1, 2)
			w.agree("*", 27, 0, 1, 2)
			w.agree("only:ap", 7, 0, 1, 2)
			if err := w.asks[1].Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			w.settle("a", 4, 0, 2)
			w.hit(1, "a", 10)
			w.agree("a", 14, 0, 1, 2)
			w.agree("*", 37, 0, 1, 2)
		})
	}
}

// A region that was away goes on where it was; one that comes back with an empty disk counts nothing twice; one that is
// forgotten is in no count, until it comes back.
func TestRegionsComeAndGo(t *testing.T) {
	t.Parallel()
	names := []string{"eu", "us", "ap"}
	w := newRegions(t, mesh(names...), names...)
	for i := range names {
		w.hit(i, "a", 10)
	}
	w.agree("a", 30, 0, 1, 2)

	w.stop(1)
	w.hit(0, "a", 1)
	w.start(1)
	w.hit(1, "a", 1)
	w.agree("a", 32, 0, 1, 2)

	w.stop(2)
	w.cfgs[2].Journal.Dir = filepath.Join(t.TempDir(), "new")
	w.start(2)
	w.hit(2, "a", 5)
	w.settle("a", 27, 0, 1, 2)

	w.stop(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.asks[0].ForgetRegion(ctx, "us"); err != nil {
		t.Fatal(err)
	}
	w.settle("a", 16, 0, 2)
	w.start(1)
	w.agree("a", 27, 0, 1, 2)
}

// Each region lets its part of a limit pass, whichever is asked first and for how long; one without a part lets none pass, and says so.
func TestLimitOverRegions(t *testing.T) {
	t.Parallel()
	set, err := policy.Parse("limits.yaml", []byte("limits:\n- {name: api, keys: \"api:*\", limit: 50, per: 1h, where: global, regions: {eu: 60%, us: 40%}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"eu", "us", "ap"}
	w := newRegionsWith(t, 100*time.Millisecond, mesh(names...), func(cfg *node.Config) { cfg.Policies.Set = set }, names...)
	admitted := map[string]int{}
	denial := "" // of eu
	for i := range 150 {
		at := i % 3
		d, err := w.asks[at].Allow(t.Context(), client.Check{Key: "api:bob"})
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			admitted[names[at]]++
		} else if at == 0 {
			denial = d.Denial
		}
		if l := d.Limits[0]; l.NoPart != (at == 2) {
			t.Fatalf("region %s: %+v", names[at], l)
		}
	}
	if admitted["eu"] != 30 || admitted["us"] != 20 || admitted["ap"] != 0 {
		t.Errorf("admitted %v, want 30 of eu and 20 of us", admitted)
	}
	limits, err := w.asks[0].Limits(t.Context(), time.Hour)
	if err != nil || fmt.Sprint(limits.Limits[0].Regions) != "[{eu 60 30} {us 40 20}]" {
		t.Errorf("%+v, %v", limits.Limits, err)
	}
	why, err := w.asks[0].Why(t.Context(), denial)
	if err != nil || len(why.Limits) != 1 {
		t.Fatalf("%+v, %v", why, err)
	}
	if l := why.Limits[0]; l.Region != "eu" || l.Burst != 30 || fmt.Sprint(l.Regions) != "[{eu 60 30} {us 40 20}]" || l.Whole == nil || l.Whole.Limit != 50 || l.Whole.Per() != time.Hour {
		t.Errorf("%+v", l)
	}
}

// RESP asks in the scopes that HTTP has.
func TestRegionsOverRESP(t *testing.T) {
	t.Parallel()
	w := newRegionsWith(t, 100*time.Millisecond, mesh("eu", "us"), func(cfg *node.Config) { cfg.RESP.Addr = "127.0.0.1:0" }, "eu", "us")
	w.hit(0, "a", 3)
	w.hit(1, "a", 4)
	w.agree("a", 7, 0)
	conn, err := net.Dial("tcp", w.nodes[0].RESPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for _, c := range []struct {
		ask  string
		want []string // lines of the answer, in order
	}{
		{"COUNT a 1h", []string{":7"}},
		{"COUNT a 1h SCOPE region", []string{":3"}},
		{"COUNT a 1h SCOPE node", []string{":3"}},
		{"COUNT a 1h BY region", []string{":7", "eu", ":3", "us", ":4"}},
		{"RATE a 1h SCOPE global BY region", []string{"eu", ":3", "us", ":4"}},
		{"SERIES a 1h SCOPE region", []string{":3"}},
		{"TOP 1h 10 SCOPE region", []string{"a", ":3"}},
		{"TOP 1h 10", []string{"a", ":7"}},
	} {
		if _, err := io.WriteString(conn, c.ask+"\r\nPING\r\n"); err != nil {
			t.Fatal(err)
		}
		at := 0
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line = strings.TrimSpace(line); line == "+PONG" {
				break
			}
			if at < len(c.want) && line == c.want[at] {
				at++
			}
		}
		if at < len(c.want) {
			t.Errorf("%s: no %s", c.ask, c.want[at])
		}
	}
}

// Two regions of one name are distinguished, where one has a link and the other pulls; a forget of a region that is alive
// brings it back.
func TestANameTwice(t *testing.T) {
	t.Parallel()
	w := newRegions(t, mesh("eu", "us"), "eu", "us")
	w.hit(0, "a", 1)
	w.agree("a", 1, 0, 1)
	alarms := func() (codes []string) {
		regions, err := w.asks[1].Regions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range regions.Alarms {
			codes = append(codes, a.Code)
		}
		return codes
	}
	if err := w.asks[1].ForgetRegion(t.Context(), "eu"); err != nil {
		t.Fatal(err)
	}
	w.settle("a", 1, 1)
	if codes := alarms(); slices.Contains(codes, "region_name_twice") {
		t.Errorf("alarms of one region eu: %v", codes)
	}
	second := w.cfgs[0]
	second.HTTP.Addr, second.Journal.Dir = transporttest.Addrs(t, 1)[0], filepath.Join(t.TempDir(), "second")
	nodetest.Open(t, second)
	transporttest.Eventually(t, "us says that there are two regions eu", func() bool { return slices.Contains(alarms(), "region_name_twice") })
}

// In a cluster where not all nodes have the region yet, one that has it writes the digests.
func TestRegionOfSomeNodes(t *testing.T) {
	t.Parallel()
	members := transporttest.New(t, 3, nil)
	nodes := make([]*node.Node, 3)
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	startNodes(t, nodes, members, func(i int, cfg *node.Config) {
		if i > 0 {
			cfg.Regions.Region = "eu"
		}
	})
	for i, want := range []bool{true, false} {
		c, err := client.New("http://"+nodes[1+i].Addr(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		transporttest.Eventually(t, "one of the two writes digests", func() bool {
			regions, err := c.Regions(t.Context())
			return err == nil && regions.Owner == want
		})
	}
}

// A tree of two levels and a mesh give equal answers, whichever region is asked.
func TestTreeAndMeshAgree(t *testing.T) {
	t.Parallel()
	cells := []string{"ap", "eu", "us"}
	tree := newRegions(t, map[string][]string{"all": cells, "ap": {"all"}, "eu": {"all"}, "us": {"all"}}, append(slices.Clone(cells), "all")...)
	flat := newRegions(t, mesh(cells...), cells...)
	at := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	want := uint64(0)
	for i := range 200 {
		n := uint64(1 + i%7)
		want += n
		for _, w := range []*world{tree, flat} {
			if _, err := w.nodes[i%3].Engine().HitAt(at.Add(time.Duration(i)*time.Second), fmt.Sprintf("k%d", i%17), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	tree.agree("*", want, 0, 1, 2, 3)
	flat.agree("*", want, 0, 1, 2)
	end := at.Add(5 * time.Minute)
	answers := func(c *client.Client) string {
		var keys []string
		for i := range 17 {
			keys = append(keys, fmt.Sprintf("k%d", i))
		}
		counts, err := c.Count(t.Context(), client.CountQuery{Keys: keys, Windows: []time.Duration{time.Minute, 5 * time.Minute, time.Hour}, At: end, ByRegion: true})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, one := range counts {
			text += fmt.Sprint(one.Key, one.WindowSeconds, one.Lower, one.Estimate)
			for _, part := range one.Regions {
				if part.Region != "all" {
					text += fmt.Sprint(" ", part.Region, part.Lower, part.Estimate)
				}
			}
			text += "\n"
		}
		top, err := c.Top(t.Context(), client.TopQuery{Window: 5 * time.Minute, N: 17, At: end})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range top.Keys {
			text += fmt.Sprint(one.Key, one.Lower, " ")
		}
		series, err := c.Series(t.Context(), client.SeriesQuery{Key: "*", From: at, To: end, Step: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range series.Points {
			text += fmt.Sprint(one.Lower, " ")
		}
		return text
	}
	first := answers(flat.asks[0])
	for _, c := range append(flat.asks[1:], tree.asks...) {
		if got := answers(c); got != first {
			t.Errorf("got\n%s\nwant\n%s", got, first)
		}
	}
}
