// Package pageviews counts the page views of web sites: pages, visitors, referrers, browsers and events, each under a key
// of the site. A listener says which view it was; this package decides whether it counts, and how its keys are written.
//
// Invariants. A view of a site that is not configured counts nothing. The number of keys of a site is bounded, whatever
// clients send, and no client can use up that bound alone. Neither an address nor a user agent is kept: visitors are
// distinguished by a hash with a salt that is in memory alone, and another one each day.
package pageviews

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/request"
)

// Site is a site whose views count.
type Site struct {
	Name    string // its host, which begins its keys
	Proxies int    // that requests come through; -1: one, if the connection is from loopback or a private network
	Badge   bool   // everybody may see how many views its pages have

	// Parameters of the query of an address that count, each under ClassOf.
	Parameters []string

	// Public is who everybody is that reads the page of the site; nil: nobody may without an identity.
	Public *auth.Login

	lists map[string]*names
}

// publicReads bounds the questions of everybody together, for a site, per second. A page takes some 15.
const publicReads = 200

const (
	maxSites      = 100 // of a server
	maxParameters = 10  // of a site
)

// ClassOf is what keys are named by of a parameter of the query: utm_source, or query_ref of others.
func ClassOf(parameter string) string {
	if strings.HasPrefix(parameter, "utm_") {
		return parameter
	}
	return "query_" + parameter
}

// Classes are what a site's keys are about, after its name.
func (s *Site) Classes() []string {
	list := []string{"path", "ref"}
	for _, parameter := range s.Parameters {
		list = append(list, ClassOf(parameter))
	}
	return append(list, "event", "browser", "device", "bot")
}

// ParseSites reads sites, each written HOST, HOST;badge, HOST;public, HOST;proxies=N or HOST;query=NAME+NAME.
func ParseSites(texts []string) (map[string]*Site, error) {
	sites := map[string]*Site{}
	for _, text := range texts {
		host, options, _ := strings.Cut(text, ";")
		s := &Site{Name: strings.ToLower(host), Proxies: -1, Parameters: campaigns, lists: map[string]*names{}}
		if !isHost(s.Name) || strings.Contains(s.Name, ":") {
			return nil, fmt.Errorf("%s: write the host of a site without a scheme and a port, such as example.com", request.Clip(strconv.Quote(text)))
		}
		for option := range strings.SplitSeq(options, ";") {
			n, isNumber := strings.CutPrefix(option, "proxies=")
			proxies, err := strconv.Atoi(n)
			query, isQuery := strings.CutPrefix(option, "query=")
			switch {
			case option == "":
			case option == "badge":
				s.Badge = true
			case option == "public":
				s.Public = auth.NewPublic("everybody at "+s.Name, s.Name+":", auth.Ceilings{Requests: publicReads})
			case isQuery:
				s.Parameters = strings.Split(query, "+")
				for _, name := range s.Parameters {
					if len(s.Parameters) > maxParameters || len(name) > 32 || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
						return nil, fmt.Errorf("%s: after query= come up to %d parameters of lower case letters, digits, _ and -, such as query=utm_source+ref", request.Clip(strconv.Quote(text)), maxParameters)
					}
				}
			case !isNumber || err != nil || proxies < 0 || proxies > 10:
				return nil, fmt.Errorf("%s: after a site comes ;badge, ;public, ;query=utm_source+ref with the parameters that count, or ;proxies=N with the number of proxies before this server, 0 to 10", request.Clip(strconv.Quote(text)))
			default:
				s.Proxies = proxies
			}
		}
		most := map[string]int{"path": 10_000, "ref": 5000, "event": 500}
		for _, parameter := range s.Parameters {
			most[ClassOf(parameter)] = 500
		}
		for class, most := range most {
			s.lists[class] = &names{prefix: s.Name + ":" + class + ":", most: most}
		}
		sites[s.Name] = s
	}
	if len(sites) > maxSites {
		return nil, fmt.Errorf("there are %d sites: at most %d", len(sites), maxSites)
	}
	return sites, nil
}

// Admits reports whether a page of this origin, or with this address, may count views of the site.
func (s *Site) Admits(address string) bool { return within(HostOf(address), s.Name) }

// View is what a page, or a server for it, says.
type View struct {
	Site     string
	Path     string // with the query or without
	Referrer string // the address of the page before
	Event    string // "": it is a view of the page
	Agent    string // User-Agent
	Client   netip.Addr
	Prefetch bool // a browser asks in advance
}

// Counter counts views.
type Counter struct {
	sites  map[string]*Site
	ingest *ingest.Service
	engine *engine.Engine
	agents agents

	byClient, byPage, byName *limiter

	mu   sync.Mutex
	salt [32]byte
	day  int64 // of the salt, since 1970
}

// New returns a Counter of sites.
func New(sites map[string]*Site, to *ingest.Service, e *engine.Engine) *Counter {
	return &Counter{
		sites: sites, ingest: to, engine: e, day: -1,
		byClient: newLimiter(300, 100, time.Minute), byPage: newLimiter(10, 10, time.Minute), byName: newLimiter(100, 100, time.Hour),
	}
}

// Site is a site by its name. It fails if its views do not count.
func (c *Counter) Site(name string) (*Site, error) {
	if s := c.sites[strings.ToLower(name)]; s != nil {
		return s, nil
	}
	if name == "" {
		return nil, &api.Error{Code: api.CodeInvalidParameter, Field: "site", Message: "site is missing: name the site, such as site=example.com"}
	}
	return nil, &api.Error{Code: api.CodeInvalidParameter, Field: "site", Message: "this server counts no site " + request.Clip(name) + ": start it with --web " + request.Clip(name)}
}

// Sites are the names of all, in order.
func (c *Counter) Sites() []string { return slices.Sorted(maps.Keys(c.sites)) }

// Everybody begins the Tally of a view that a browser sends, which has no identity.
func Everybody(t *ingest.Tally) {
	t.Reset(access.Rights{Permission: auth.Everything, Role: auth.Ingest})
}

// Count counts a view at a time, and returns why it did not, a word such as crawler; "": it did. What became of its keys
// is noted in t.
func (c *Counter) Count(t *ingest.Tally, at time.Time, v *View) (filtered string, err error) {
	s, err := c.Site(v.Site)
	if err != nil {
		return "", err
	}
	page, agent := Path(v.Path), agent{}
	client, visitor := c.hashes(at, s, v)
	limited := v.Client.IsValid()
	if limited && !c.byClient.allow(client) { // first: it costs least
		filtered = "rate"
	} else if agent = c.agents.find(v.Agent); agent.bot {
		filtered = "crawler"
	} else if v.Prefetch {
		filtered = "prefetch"
	} else if limited && !c.byPage.allow(visitor^engine.HashID(v.Event+"\x00"+page)) {
		filtered = "rate"
	}
	if filtered != "" {
		if err := c.hit(t, at, s.Name+":bot", 0); err != nil {
			return filtered, err
		}
		return filtered, c.hit(t, at, s.Name+":bot:"+filtered, 0)
	}
	may := func() bool { return c.byName.allow(client) }
	name := func(class, name string) string { return s.lists[class].key(c.engine, name, may) }
	if v.Event != "" {
		return "", c.hit(t, at, name("event", word(v.Event)), 0)
	}
	for _, key := range s.keys(v, agent, name) {
		if err := c.hit(t, at, key, 0); err != nil {
			return "", err
		}
	}
	if err := c.hit(t, at, s.Name+":visitors", visitor); err != nil {
		return "", err
	}
	return "", c.hit(t, at, name("path", page), visitor)
}

// keys returns the keys of a view under which no visitors count. name makes the key of a name of some class.
func (s *Site) keys(v *View, by agent, name func(class, name string) string) []string {
	keys := []string{s.Name + ":browser:" + by.browser, s.Name + ":device:" + by.device}
	if from := referrerOf(v.Referrer, s.Name); from != "" {
		keys = append(keys, name("ref", from))
	}
	if _, text, has := strings.Cut(v.Path, "?"); has {
		query, _ := url.ParseQuery(text) // of a broken one what can be read
		for _, parameter := range s.Parameters {
			if value := word(query.Get(parameter)); value != "" {
				keys = append(keys, name(ClassOf(parameter), value))
			}
		}
	}
	return keys
}

// hit counts one hit of a key, with a visitor if that is not 0.
func (c *Counter) hit(t *ingest.Tally, at time.Time, key string, visitor uint64) error {
	t.Line++
	if visitor != 0 {
		return c.ingest.HitDistinct(t, at, c.ingest.Expect(nil, []string{key})[0], 1, visitor)
	}
	return c.ingest.Hit(t, at, key, 1)
}

// hashes are of the client of a view, whom limits are for, and of its visitor. An IPv6 client is its /64, which one
// household has. Both are 0 of a view without a client.
func (c *Counter) hashes(at time.Time, s *Site, v *View) (client, visitor uint64) {
	if !v.Client.IsValid() {
		return 0, 0
	}
	network := v.Client
	if network.Is6() {
		network = netip.PrefixFrom(network, 64).Masked().Addr()
	}
	salt := c.saltAt(at)
	hash := func(parts ...string) uint64 {
		h := sha256.New()
		_, _ = h.Write(salt[:]) // a hash takes everything
		for _, part := range parts {
			_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(part))))
			_, _ = h.Write([]byte(part))
		}
		return max(1, binary.LittleEndian.Uint64(h.Sum(nil)))
	}
	return hash(network.String()), hash(v.Client.String(), v.Agent, s.Name)
}

// saltAt is the salt of the day, in UTC.
func (c *Counter) saltAt(at time.Time) [32]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if day := at.Unix() / (24 * 60 * 60); day > c.day {
		_, _ = rand.Read(c.salt[:]) // it never fails
		c.day = day
	}
	return c.salt
}

// Log makes the keys of a site of what its access log says, as Counter does of what browsers say. It has no limits and
// no bound of names: who writes the log is trusted.
type Log struct {
	site   *Site
	agents agents
}

// NewLog returns a Log of a site, which is written as for ParseSites.
func NewLog(site string) (*Log, error) {
	sites, err := ParseSites([]string{site})
	if err != nil {
		return nil, err
	}
	l := &Log{}
	for _, l.site = range sites { // it is one
	}
	return l, nil
}

// Views is the key of all views, and Filtered of what crawlers asked for.
func (l *Log) Views() string    { return l.site.Name + ":visitors" }
func (l *Log) Filtered() string { return l.site.Name + ":bot" }

// Templates are how the keys begin that Keys makes, for a report.
func (l *Log) Templates() []string {
	list := []string{l.Views()}
	for _, class := range l.site.Classes() {
		if class != "event" { // which no log has
			list = append(list, l.site.Name+":"+class+":{name}")
		}
	}
	return list
}

// Keys are the keys of a request; none: it is not for a page. Many goroutines may call it.
func (l *Log) Keys(method, status string, v *View) []string {
	page := Path(v.Path)
	if method != "GET" || len(status) != 3 || status[0] != '2' && status != "304" || assets[strings.ToLower(path.Ext(page))] {
		return nil
	}
	by, site := l.agents.find(v.Agent), l.site.Name
	switch {
	case by.bot:
		return []string{l.Filtered(), site + ":bot:crawler"}
	case v.Prefetch:
		return []string{l.Filtered(), site + ":bot:prefetch"}
	}
	keys := l.site.keys(v, by, func(class, name string) string { return site + ":" + class + ":" + name })
	return append(keys, l.Views(), site+":path:"+page)
}

// assets are the extensions of files that are no pages.
var assets = func() map[string]bool {
	all := map[string]bool{}
	for _, extension := range strings.Fields("avif bmp css csv eot gif gz ico jpeg jpg js json map mjs mp3 mp4 ogg otf pdf png rss svg tgz ttf txt wasm wav webm webmanifest webp woff woff2 xml zip") {
		all["."+extension] = true
	}
	return all
}()
