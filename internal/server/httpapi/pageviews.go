package httpapi

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/dashboard"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/pageviews"
	"github.com/weir-counter/weir/internal/service/request"
)

// Page views of the sites of Config.Web: a script and an image for browsers, which have no identity, and POST /v1/web for
// servers. Pages of other sites may ask for the first two, so the guard of origins lets them through. A view counts only if
// its site is configured, and the browser names no page of another one.

//go:embed w.js
var script []byte

// image is a GIF of one transparent pixel.
var image = []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")

const (
	scriptPath = "/w.js"
	imagePath  = "/hit.gif"
	badgePath  = "/badge/"
)

// forOtherSites reports whether pages of other sites load the path.
func forOtherSites(path string) bool {
	return path == scriptPath || path == imagePath || strings.HasPrefix(path, badgePath)
}

func (s *Server) registerPageViews(to *router) {
	to.handle("GET "+scriptPath, need{open: true}, nil, sendScript)
	to.handle("GET "+badgePath+"{site}/{path...}", need{open: true}, s.service.Pools.Questions, s.badge)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
		to.handle(method+" "+imagePath, need{open: true}, s.service.Pools.Hits, s.countPage)
	}
	one := to.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[viewObject](), true, "View")
	describe[struct{}, answer[api.WebAnswer]](to, route{
		pattern: "POST /v1/web", id: "web", need: needOf(auth.Ingest),
		codes: []api.Code{
			api.CodeInvalidParameter, api.CodeInvalidJSON, api.CodeBodyBroken, api.CodeBodyTimeout, api.CodeBodyTooLarge, api.CodeTooManyLines, api.CodeNothingCounted,
			api.CodeUnsupportedType, api.CodeUnsupportedEncoding, api.CodeOverloaded, api.CodeClosed,
		},
		summary: "Count page views", description: "For servers that see the requests of a site named by `--web`. Browsers load `/w.js` or `/hit.gif` instead. If one view is wrong, none counts.",
		body: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {
			Schema: &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one}}},
		}}},
	}, s.takeViews)
}

func sendScript(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(script) // a client that left is not an error of ours
}

// countPage is /hit.gif: a view that a browser reports, by its script or as an image.
func (s *Server) countPage(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if err := s.countView(h, r); err != nil {
		ProblemOf(err).Write(w)
		return
	}
	if r.Method != http.MethodGet {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.Set("Content-Type", "image/gif")
	_, _ = w.Write(image)
}

func (s *Server) countView(h http.Header, r *http.Request) error {
	q, err := queryOf(r, ": there are site, path, ref and event", "site", "path", "ref", "event")
	if err != nil {
		return err
	}
	site, err := s.pages.Site(q.Get("site"))
	if err != nil {
		return err
	}
	origin, page := r.Header.Get("Origin"), r.Header.Get("Referer")
	for _, from := range []string{origin, page} {
		if from != "" && !site.Admits(from) {
			return fail(api.CodeForbiddenOrigin, "site", "a page of "+request.Clip(from)+" can't count views of "+site.Name+": name its own site, and start the server with --web and that site")
		}
	}
	if origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
	}
	if r.Method == http.MethodOptions || r.Header.Get("Dnt") == "1" || r.Header.Get("Sec-Gpc") == "1" {
		return nil
	}
	view := pageviews.View{
		Site: site.Name, Path: q.Get("path"), Referrer: q.Get("ref"), Event: q.Get("event"),
		Agent: r.UserAgent(), Client: clientAddress(r, site.Proxies), Prefetch: isPrefetch(r.Header),
	}
	if view.Path == "" { // an image need not say it
		if u, err := url.Parse(page); err == nil {
			view.Path = u.RequestURI()
		}
	}
	var t ingest.Tally
	pageviews.Everybody(&t)
	_, err = s.pages.Count(&t, s.service.Now(), &view)
	return s.service.Verdict(&t, err)
}

// isPrefetch reports whether a browser loads a page that its user may never see.
func isPrefetch(h http.Header) bool {
	for _, field := range []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		value := strings.ToLower(h.Get(field))
		if strings.Contains(value, "prefetch") || strings.Contains(value, "prerender") || strings.Contains(value, "preview") {
			return true
		}
	}
	return false
}

// clientAddress is the address of the client of a request that came through proxies: see pageviews.Site.
func clientAddress(r *http.Request, proxies int) netip.Addr {
	from, _ := address(r.RemoteAddr)
	if proxies < 0 && (from.IsLoopback() || from.IsPrivate()) {
		proxies = 1
	}
	if proxies <= 0 {
		return from
	}
	asked := ForwardedRequest{Header: r.Header, Hops: proxies}
	if client, err := asked.address(); err == nil {
		return client
	}
	return from
}

// viewObject is a view as servers send it.
type viewObject struct {
	_         struct{} `additionalProperties:"false"`
	Site      string   `json:"site" example:"example.com" doc:"A site of --web."`
	Path      string   `json:"path" example:"/about" doc:"The page. Of its query only utm_ parameters count."`
	Referrer  string   `json:"referrer,omitempty" doc:"The address of the page before."`
	Event     string   `json:"event,omitempty" doc:"Name of an event, which counts instead of a view."`
	UserAgent string   `json:"user_agent" doc:"The browser's User-Agent. A view without one counts as a crawler's."`
	Address   string   `json:"address,omitempty" doc:"The browser's IP address. A view without one has no visitor and no limit."`
}

// badge is /badge/SITE/PATH.svg: a picture with the views of a page, for a site that has said so.
func (s *Server) badge(w http.ResponseWriter, r *http.Request) {
	count, err := s.badgeCount(r)
	if err != nil {
		ProblemOf(err).Write(w)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	text := shortCount(count.Bounds)
	value := 14 + 7*len([]rune(text))
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="views %s"><title>views %[2]s</title>`+
		`<rect width="46" height="20" fill="#555"/><rect x="46" width="%d" height="20" fill="#0b62a8"/>`+
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle"><text x="23" y="14">views</text><text x="%d" y="14">%[2]s</text></g></svg>`+"\n",
		46+value, text, value, 46+value/2)
}

// badgeWindow is the window of a badge whose address names none.
const badgeWindow = 30 * 24 * time.Hour

func (s *Server) badgeCount(r *http.Request) (count api.CountAnswer, err error) {
	q, err := queryOf(r, ": there is window", "window")
	if err != nil {
		return count, err
	}
	window := badgeWindow
	if q.Has("window") {
		if window, err = request.ParseWindow("window", q.Get("window")); err != nil {
			return count, err
		}
	}
	site, err := s.pages.Site(r.PathValue("site"))
	page, isPicture := strings.CutSuffix(r.PathValue("path"), ".svg")
	if err != nil || !site.Badge || !isPicture {
		return count, fail(api.CodeNotFound, "", "there is no badge: ask for "+badgePath+"SITE/PATH.svg, of a site that the server was started with, --web 'SITE;badge'")
	}
	return s.service.CountPublic(r.Context(), site.Name+":path:"+pageviews.Path("/"+page), window)
}

// shortCount is a number in a few characters: 999, 12.3k, 4.5M, marked if it is an estimate or a lower bound.
func shortCount(b api.Bounds) string {
	n, mark := b.Estimate, ""
	switch {
	case !b.HasUpper():
		n, mark = b.Lower, "≥"
	case !b.Exact:
		mark = "≈"
	}
	if n < 1000 {
		return mark + strconv.FormatUint(n, 10)
	}
	scaled, unit := float64(n)/1000, 0
	for scaled >= 999.95 && unit < 3 {
		scaled, unit = scaled/1000, unit+1
	}
	return mark + strings.TrimSuffix(strconv.FormatFloat(scaled, 'f', 1, 64), ".0") + "kMGT"[unit:unit+1]
}

const sitePattern = "GET /v1/views/site"

type siteQuestion struct {
	Site   string `query:"site" doc:"A site of --web. Without one, the answer lists those that the caller may read." example:"example.com"`
	More   string `query:"more" doc:"The list with up to 100 names in place of 11. Ignored without a token." example:"path"`
	Period string `query:"period" default:"today" doc:"today, 7d, 30d, 365d, or days such as 2026-01-01..2026-01-31. Days that ended, and days before the retention, are of history. Everybody may ask for today, 7d and 30d." example:"7d"`
	TZ     string `query:"tz" doc:"The time zone of days, by its name; default UTC. Ignored without a token." example:"Europe/Berlin"`
}

// identifyReader is identify for the page of a site. Who may not read its keys is everybody, if the site is public: an identity
// that may read the keys of this site, and nothing else.
func (s *Server) identifyReader(r *http.Request) (access.Caller, error) {
	c, err := s.identify(r)
	if err != nil || !s.service.Locked() {
		return c, err
	}
	site, unknown := s.pages.Site(r.URL.Query().Get("site"))
	if unknown == nil && site.Public != nil && !(c.Known() && s.service.ReadsPrefix(c, site.Name+":")) {
		q := r.URL.Query()
		q.Del("tz") // the page is made once for all
		r.URL.RawQuery = q.Encode()
		return c.As(site.Public), nil
	}
	return c, nil
}

// siteView is the page of a site, or the list of sites.
func (s *Server) siteView(ctx context.Context, c access.Caller, q *siteQuestion) (view api.SiteView, err error) {
	_, zone, err := request.ParseAlign(string(calendar.Day), q.TZ)
	if err != nil {
		return view, err
	}
	if q.Site == "" {
		return s.sites(c), nil
	}
	site, err := s.pages.Site(q.Site)
	if err != nil {
		return view, err
	}
	query := dashboard.SiteQuery{Site: site.Name, Classes: site.Classes(), Period: q.Period, Zone: zone}
	if public := c.Known() && c.Login().Everybody(); !public {
		if slices.Contains(query.Classes, q.More) {
			query.More = q.More
		}
		return s.pageOf(ctx, c, query, false)
	}
	c = access.Caller{}.As(c.Login()) // the answer is for all readers, so it does not count toward the share of one
	if !slices.Contains([]string{"", "today", "7d", "30d"}, q.Period) {
		return view, fail(api.CodeForbidden, "period", "everybody may see the periods today, 7d and 30d: send a token for others")
	}
	view, err = s.pageOf(ctx, c, query, true)
	if e := request.As(err); err != nil && e.Code != api.CodeInvalidParameter && e.Code != api.CodeInternal {
		err = &api.Error{Code: e.Code, RetryAfter: e.RetryAfter, Message: "the page can't be made now: load it again in a minute"}
	}
	return view, err
}

// pageOf makes the page of a site once for all who ask the same. Everybody has few periods to choose from.
func (s *Server) pageOf(ctx context.Context, c access.Caller, q dashboard.SiteQuery, public bool) (none api.SiteView, err error) {
	name, err := s.viewName(c, []string{q.Site, q.More, q.Period, q.Zone.String()})
	if err != nil {
		return none, err
	}
	keys, err := dashboard.Shared(ctx, &s.lists, name, func(ctx context.Context) ([]string, error) { return q.Keys(ctx, s.service, c) })
	if err != nil {
		return none, err
	}
	return dashboard.Shared(ctx, &s.views, name, func(ctx context.Context) (api.SiteView, error) {
		view, err := dashboard.SiteView(ctx, s.service, c, q, keys)
		if view.Public = public; !public {
			return view, err
		}
		if len(view.Late) > 0 { // everybody need not know how many nodes there are, nor their names
			view.Late = []api.Late{{Node: "a node", Since: view.AsOf}}
		}
		for _, d := range []*api.Distinct{view.Now, view.Visitors} {
			if d != nil {
				d.Region = ""
			}
		}
		return view, err
	})
}

// sites lists the sites that a caller may read.
func (s *Server) sites(c access.Caller) api.SiteView {
	now := api.Time{Time: s.service.Now()}
	a := api.SiteView{From: now, To: now, Line: []api.Point{}, Lists: []api.SiteTop{}, Freshness: s.service.Freshness()}
	for _, name := range s.pages.Sites() {
		if s.service.ReadsPrefix(c, name+":") {
			a.Sites = append(a.Sites, name)
		}
	}
	return a
}

// takeViews is POST /v1/web.
func (s *Server) takeViews(w http.ResponseWriter, r *http.Request) {
	var made api.WebAnswer
	if err := s.countViews(&made, w, r); err != nil {
		ProblemOf(err).Write(w)
		return
	}
	writeJSON(w, &made)
}

func (s *Server) countViews(made *api.WebAnswer, w http.ResponseWriter, r *http.Request) error {
	var t ingest.Tally
	client := clientOf(r)
	if err := s.service.Ingest(client, &t); err != nil {
		return err
	}
	if f, err := BodyFormatOf(r.Header.Get("Content-Type")); err != nil || f != JSONDocument {
		return fail(api.CodeUnsupportedType, "Content-Type", "send application/json (curl --json)")
	}
	at, err := s.arrive(client, w, r)
	defer at.leave()
	if err != nil {
		return err
	}
	whole, release, err := s.readBody(client, r)
	defer release()
	if err != nil {
		return err
	}
	views, err := s.readViews(client, whole)
	if err != nil {
		return err
	}
	for i := range views {
		filtered, err := s.pages.Count(&t, s.service.Now(), &views[i])
		if err == nil && t.RetryFrom > 0 {
			err = fail(api.CodeOverloaded, "", fmt.Sprintf("the server takes no more hits now: the views before number %d were counted, send that one and those after it again later", i+1))
		}
		if err != nil {
			return err
		}
		if filtered == "" {
			made.Counted++
		} else {
			made.Filtered++
		}
	}
	return s.service.Verdict(&t, nil)
}

// readViews reads one view or a list. All must be valid, and of sites that the caller may count for.
func (s *Server) readViews(client access.Caller, body []byte) ([]pageviews.View, error) {
	var list []viewObject
	var into any = &list
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		list = make([]viewObject, 1)
		into = &list[0]
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return nil, fail(api.CodeInvalidJSON, "", "nothing was counted: send a view or a list of views as JSON: "+request.Clip(err.Error()))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fail(api.CodeInvalidJSON, "", "nothing was counted: there is more after the JSON: send several views as one list")
	}
	if err := s.service.CheckBatch(len(list)); err != nil {
		return nil, err
	}
	views := make([]pageviews.View, len(list))
	seen := map[string]bool{}
	for i, v := range list {
		views[i] = pageviews.View{Site: v.Site, Path: v.Path, Referrer: v.Referrer, Event: v.Event, Agent: v.UserAgent}
		site, err := s.pages.Site(v.Site)
		if err == nil && !seen[site.Name] {
			seen[site.Name] = true
			err = s.service.Permit(client, access.Need{Roles: []auth.Role{auth.Ingest}}, site.Name+":")
		}
		if err == nil && v.Address != "" {
			var ok bool
			if views[i].Client, ok = address(v.Address); !ok {
				err = fail(api.CodeInvalidParameter, "address", "address is "+request.Clip(v.Address)+", which is no IP address")
			}
		}
		if err != nil {
			e := *request.As(err)
			e.Message = fmt.Sprintf("nothing was counted: view %d: %s", i+1, e.Message)
			return nil, &e
		}
	}
	return views, nil
}
