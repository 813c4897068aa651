package replay

import (
	"fmt"
	"slices"

	"github.com/weir-counter/weir/internal/engine"
)

// A Site makes the keys of the page views in the log of a web site.
type Site struct {
	// Keys are templates that the report lists keys by. Their fields are not read.
	Keys []string
	// Make returns the keys of a request; none: it is not for a page. Many goroutines call it.
	Make func(Request) []string
	// Views is the key of the page views, whose visitors the report counts, and Filtered the key of requests of crawlers.
	Views, Filtered string
}

// A Request is what the log of a web site says of a request. Fields that its line does not have are nil.
type Request struct{ Method, Status, Path, Referrer, Agent, Purpose, Client []byte }

// statusField is the place of the status among requestFields.
const statusField = 1

// requestFields are the names that logs have for the fields of a Request: of Apache and nginx, and in JSON of Caddy, Traefik
// and nginx. The first that a line has is used.
var requestFields = [...][]string{
	{"method", "request.method", "RequestMethod", "request_method"},
	{"status", "DownstreamStatus"},
	{"path", "request.uri", "RequestPath", "request_uri", "uri"},
	{"referer", "request.headers.Referer", "request_Referer", "http_referer"},
	{"agent", "request.headers.User-Agent", "request_User-Agent", "http_user_agent", "user_agent"},
	{"request.headers.Sec-Purpose", "request_Sec-Purpose"},
	{"request.client_ip", "request.remote_ip", "ClientHost", "remote_addr", "host"},
}

// siteOf makes the plan read the fields of requests. Its templates are not read.
func (p *plan) siteOf(site *Site) error {
	fields := formats[p.format].fields
	if fields != nil && !slices.Contains(fields, "agent") {
		return fmt.Errorf("a %s log does not say which pages were read: it must be an access log", p.format)
	}
	p.site, p.fields = site, fields
	for i := range requestFields {
		p.read(i)
	}
	return nil
}

// read makes the plan read a field of requests.
func (p *plan) read(i int) {
	for _, name := range requestFields[i] {
		if place := p.place(name); place >= 0 {
			p.places[i] = append(p.places[i], place)
		}
	}
}

// place is where a field is in line.fields; -1: lines of the format have none of this name.
func (p *plan) place(name string) int {
	at := slices.Index(p.fields, name)
	if at < 0 && formats[p.format].fields == nil {
		at = len(p.fields)
		p.fields = append(p.fields, name)
	}
	return at
}

// field is a field of a request; nil: the line has none.
func (p *plan) field(l *line, i int) []byte {
	for _, place := range p.places[i] {
		if value := known(l.fields[place]); value != nil {
			return value
		}
	}
	return nil
}

// siteKeys are the keys of a line, and its visitor: a hash of the day, the client and the user agent.
func (p *plan) siteKeys(l *line) (keys []string) {
	r := Request{p.field(l, 0), p.field(l, statusField), p.field(l, 2), p.field(l, 3), p.field(l, 4), p.field(l, 5), p.field(l, 6)}
	keys, l.visitor = p.site.Make(r), 0
	if slices.Contains(keys, p.site.Views) {
		l.visitor = engine.HashID(fmt.Sprintf("%d %s %s", l.at/(24*60*60), r.Client, r.Agent))
	}
	return keys
}
