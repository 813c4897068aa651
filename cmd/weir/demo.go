package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/policy"
)

// checkDemo sets up a server in memory for a demonstration, and refuses settings that it would ignore: hits that are made up
// must not get among real ones.
func (f *serveFlags) checkDemo(from cli.Sources) error {
	if !f.demo {
		return nil
	}
	f.node.Ephemeral = true
	f.node.Policies.Set = demoPolicies()
	f.node.HTTP.Web = []string{demoSite}
	return f.refuse(from, "demo", "the demo is a single open server in memory with its own policies: remove one of the two",
		"data", "cluster", "nats", "replicas", "region", "history", "history-url", "policy", "tokens", "clock", "web")
}

// makeDemo makes traffic until ctx ends; ended waits for the last of it.
func (f *serveFlags) makeDemo(ctx context.Context, n *node.Node, log *slog.Logger) (ended func(), err error) {
	traffic := newTraffic(n.Engine(), n.Handler(), uint64(time.Now().UnixNano()))
	if err := traffic.Past(time.Now); err != nil {
		return nil, fmt.Errorf("--demo: %w", err)
	}
	log.Info("serving sample traffic: open the dashboard", "url", "http://"+n.Addr()+"/")
	var running sync.WaitGroup
	running.Go(func() { traffic.Run(ctx) })
	return running.Wait, nil
}

// This file generates the traffic of a shop that does not exist, for people who try Weir: a day's rhythm, bursts of single
// pages, and clients of which one asks too much.
//
// Its invariant: what it makes for the past and what it makes now follow the same rates. It hits the engine as a
// program would that embeds Weir, and asks for decisions over HTTP, as others do.

//go:embed policies.yaml
var policies []byte

// demoPolicies returns the policies that limit the traffic.
func demoPolicies() *policy.Set {
	set, err := policy.Parse("demo", policies)
	if err != nil {
		panic(err) // it is embedded, and a test reads it
	}
	return set
}

type demoTraffic struct {
	engine   *weir.Engine
	listener http.Handler // of the server, for hits and decisions of now
	random   *rand.Rand
	lines    bytes.Buffer // hits of now, a line each
	visits   bytes.Buffer // of the site, a line of JSON each
}

// newTraffic returns the traffic of a server; it is the same for the same seed.
func newTraffic(engine *weir.Engine, listener http.Handler, seed uint64) *demoTraffic {
	return &demoTraffic{engine: engine, listener: listener, random: rand.New(rand.NewPCG(seed, seed))}
}

// ages are the steps in which the past is made, up to an age, both in seconds.
var ages = []struct{ upTo, step int64 }{{7200, 1}, {2 * 86400, 16}, {14 * 86400, 128}}

// Past makes the two weeks that end at now, with the decisions that there would have been, in a few seconds. A busy
// machine takes longer: what passes meanwhile is made too.
func (t *demoTraffic) Past(now func() time.Time) error {
	end := now().Unix()
	for i := len(ages) - 1; i >= 0; i-- {
		newest := int64(0)
		if i > 0 {
			newest = ages[i-1].upTo
		}
		for back := ages[i].upTo; back > newest; back -= ages[i].step {
			if err := t.moment(end-back, float64(ages[i].step)); err != nil {
				return err
			}
			if t.visits.Len() > 64<<10 {
				if err := t.sendVisits(context.Background()); err != nil {
					return err
				}
			}
		}
	}
	for ; end < now().Unix(); end++ {
		if err := t.moment(end, 1); err != nil {
			return err
		}
	}
	return t.sendVisits(context.Background())
}

// moment makes the hits of so many seconds at once, with decisions as limits would have made them, about.
func (t *demoTraffic) moment(second int64, seconds float64) error {
	var viewed uint64
	for kind, sources := range [][]source{pages, countries, clients, logins, views} {
		for i := range sources {
			n := t.count(sources[i].at(second) * seconds)
			if err := t.hit(second, sources[i].key, n); err != nil {
				return err
			}
			if kind == 0 {
				viewed += n
			}
		}
	}
	for left := uint64(8); left > 0; left-- { // a visitor of the past views several pages at once: it takes less time
		n := viewed / left
		viewed -= n
		if err := t.hit(second, t.visitor(), n); err != nil {
			return err
		}
	}
	t.visit(second, seconds)
	return errors.Join(
		t.decided(second, "client", clients, 10, seconds, "denied"),
		t.decided(second, "login", logins, 5./60, seconds, "denied"),
		t.decided(second, "client-trial", clients, 5, seconds, "shadow_denied"))
}

// decided counts the decisions that a limit of most per second would have made.
func (t *demoTraffic) decided(second int64, name string, sources []source, most, seconds float64, stopped string) error {
	var allowed, over float64
	for i := range sources {
		rate := sources[i].at(second)
		allowed += min(rate, most)
		over += max(rate-most, 0)
	}
	if err := t.hit(second, admit.HitPrefix+name+":allowed", t.count(allowed*seconds)); err != nil {
		return err
	}
	return t.hit(second, admit.HitPrefix+name+":"+stopped, t.count(over*seconds))
}

func (t *demoTraffic) hit(second int64, key string, n uint64) error {
	if n == 0 {
		return nil
	}
	_, err := t.engine.HitAt(time.Unix(second, 0), key, n)
	return err
}

// count is how many come where mean are expected: of a Poisson distribution, or near it where the mean is large.
func (t *demoTraffic) count(mean float64) uint64 {
	if mean > 30 {
		return uint64(max(0, math.Round(mean+math.Sqrt(mean)*t.random.NormFloat64())))
	}
	n := uint64(0)
	for left := math.Exp(-mean); ; n++ {
		if left = left / max(t.random.Float64(), 1e-300); left > 1 {
			return n
		}
	}
}

// tick is how often traffic is made.
const tick = 100 * time.Millisecond

// Run makes traffic until ctx ends.
func (t *demoTraffic) Run(ctx context.Context) {
	concurrency.Every(ctx, tick, func() bool { return t.now(ctx, time.Now().Unix()) == nil })
}

// now makes the traffic of one tick.
func (t *demoTraffic) now(ctx context.Context, second int64) error {
	part := tick.Seconds()
	for i := range pages {
		for range t.count(pages[i].at(second) * part) {
			fmt.Fprintf(&t.lines, "%s\n%s\n", t.visitor(), pages[i].key)
		}
	}
	for _, sources := range [][]source{countries, views} {
		for i := range sources {
			for range t.count(sources[i].at(second) * part) {
				fmt.Fprintln(&t.lines, sources[i].key)
			}
		}
	}
	t.visit(second, part)
	if err := t.sendVisits(ctx); err != nil {
		return err
	}
	for _, sources := range [][]source{clients, logins} {
		for i := range sources {
			for range t.count(sources[i].at(second) * part) {
				fmt.Fprintln(&t.lines, sources[i].key) // who asks is counted too: what another limit would deny is worked out from hits
				if err := t.ask(ctx, sources[i].key); err != nil {
					return err
				}
			}
		}
	}
	defer t.lines.Reset()
	return t.send(ctx, "/v1/hits", "text/plain", &t.lines)
}

// visitor is the key of one of the visitors. A few come often: the numbers of others follow Zipf's law, about.
func (t *demoTraffic) visitor() string {
	n := int(math.Pow(visitors, t.random.Float64()))
	return fmt.Sprintf("visitor:10.0.%d.%d", n/250, n%250)
}

// visit makes the visits of the site in so many seconds, of one page or several.
func (t *demoTraffic) visit(second int64, seconds float64) {
	for n := t.count(viewRate * demoDay(second) * seconds); n > 0; {
		seen := min(n, 1+t.random.Uint64N(4)*(1+n/16))
		n -= seen
		fmt.Fprintf(&t.visits, `{"key":"%s:visitors","n":%d,"at":%d,"distinct":"%d-%d"}`+"\n",
			demoSite, seen, second, second/86400, int(math.Pow(visitors, t.random.Float64())*4))
	}
}

func (t *demoTraffic) sendVisits(ctx context.Context) error {
	defer t.visits.Reset()
	if t.visits.Len() == 0 {
		return nil
	}
	return t.send(ctx, "/v1/hits", "application/x-ndjson", &t.visits)
}

// ask asks the limits of a key.
func (t *demoTraffic) ask(ctx context.Context, key string) error {
	return t.send(ctx, "/v1/allow", "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key)))
}

// send sends a request to the server.
func (t *demoTraffic) send(ctx context.Context, path, contentType string, body io.Reader) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", contentType)
	t.listener.ServeHTTP(discard{}, r)
	return nil
}

// discard drops an answer.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// source is something that is hit, or asked for, again and again.
type source struct {
	key  string
	rate float64 // a second, on the average of a day
	// bursts are when there is more: for the first `lasts` seconds of every `every`, `times` as much, beginning `after` seconds later.
	every, lasts, after int64
	times               float64
}

const (
	demoSite = "shop.example"
	viewRate = .8 // of the site, per second
)

// pages, countries and views are hit, clients and logins are asked for.
var (
	views = []source{
		{key: demoSite + ":path:/", rate: .3}, {key: demoSite + ":path:/products", rate: .17}, {key: demoSite + ":path:/products/umbrella", rate: .1, every: 1800, lasts: 240, after: 1300, times: 4},
		{key: demoSite + ":path:/products/boots", rate: .07}, {key: demoSite + ":path:/cart", rate: .05}, {key: demoSite + ":path:/blog/rain", rate: .04}, {key: demoSite + ":path:/help", rate: .02},
		{key: demoSite + ":path:/products/tent", rate: .02}, {key: demoSite + ":path:/blog/snow", rate: .012}, {key: demoSite + ":path:/about", rate: .01}, {key: demoSite + ":path:/jobs", rate: .005}, {key: demoSite + ":path:/press", rate: .003},
		{key: demoSite + ":ref:search.example", rate: .2}, {key: demoSite + ":ref:news.example", rate: .06, every: 7200, lasts: 600, after: 900, times: 6}, {key: demoSite + ":ref:social.example", rate: .05},
		{key: demoSite + ":utm_source:newsletter", rate: .04}, {key: demoSite + ":utm_source:banner", rate: .01}, {key: demoSite + ":event:signup", rate: .004}, {key: demoSite + ":event:order", rate: .009},
		{key: demoSite + ":browser:chrome", rate: .45}, {key: demoSite + ":browser:safari", rate: .2}, {key: demoSite + ":browser:firefox", rate: .11}, {key: demoSite + ":browser:edge", rate: .04},
		{key: demoSite + ":device:phone", rate: .42}, {key: demoSite + ":device:desktop", rate: .34}, {key: demoSite + ":device:tablet", rate: .04},
		{key: demoSite + ":bot", rate: .12}, {key: demoSite + ":bot:crawler", rate: .1}, {key: demoSite + ":bot:prefetch", rate: .015}, {key: demoSite + ":bot:rate", rate: .005},
	}
	pages = []source{
		{key: "url:/", rate: 38, every: 1500, lasts: 90, after: 200, times: 2.2}, {key: "url:/products", rate: 24}, {key: "url:/search", rate: 13, every: 900, lasts: 60, after: 500, times: 3},
		{key: "url:/api/items", rate: 9}, {key: "url:/cart", rate: 6}, {key: "url:/products/umbrella", rate: 2.5, every: 1800, lasts: 240, after: 1300, times: 9},
		{key: "url:/checkout", rate: 2.2}, {key: "url:/login", rate: 1.6}, {key: "url:/help", rate: .9}, {key: "url:/about", rate: .4}, {key: "url:/jobs", rate: .08},
	}
	countries = []source{
		{key: "country:de", rate: 31}, {key: "country:us", rate: 24}, {key: "country:fr", rate: 14}, {key: "country:jp", rate: 11}, {key: "country:br", rate: 8}, {key: "country:in", rate: 7},
	}
	clients = []source{
		{key: "api:web", rate: 5.5}, {key: "api:mobile", rate: 3.5}, {key: "api:partner", rate: 1.5, every: 600, lasts: 30, after: 90, times: 3},
		{key: "api:scraper", rate: 1.2, every: 240, lasts: 80, after: 20, times: 22}, // the abuser
	}
	logins = []source{
		{key: "login:ada:10.0.0.7", rate: .05}, {key: "login:grace:10.0.0.9", rate: .04}, {key: "login:linus:10.0.1.3", rate: .03},
		{key: "login:admin:203.0.113.66", rate: .06, every: 420, lasts: 120, after: 60, times: 14}, // guesses passwords
	}
)

const visitors = 4000

// at is the rate at a second of the Unix epoch.
func (s *source) at(second int64) float64 {
	rate := s.rate * demoDay(second)
	if s.every > 0 && mod(second-s.after, s.every) < s.lasts {
		rate *= s.times
	}
	return rate
}

// demoDay is the rhythm of a day, in UTC: least at four in the morning, most in the afternoon, and less on the days that end
// a week. Its mean is about 1.
func demoDay(second int64) float64 {
	hour := float64(mod(second, 86400)) / 3600
	rhythm := 1 - .72*math.Cos(2*math.Pi*(hour-4)/24) + .14*math.Sin(4*math.Pi*(hour-1)/24)
	if weekday := time.Unix(second, 0).UTC().Weekday(); weekday == time.Saturday || weekday == time.Sunday {
		rhythm *= .75
	}
	return rhythm
}

func mod(a, b int64) int64 { return (a%b + b) % b }
