package replay

import (
	"fmt"
	"slices"
)

// A Site makes the keys of the page views in the log of a web site.
type Site struct {
	// Keys are templates that the report lists keys by. Their fields are not read.
	Keys []string
	// Make returns the keys of a request; none: it is not a view of a page. Many goroutines call it.
	Make func(Request) []string
}

// A Request is what the log of a web site says of one. Fields that its line does not have are nil.
type Request struct{ Method, Status, Path, Referrer, Agent, Purpose []byte }

// requestFields are the names that logs have for the fields of a Request: of Apache and nginx, and in JSON of Caddy, Traefik
// and nginx. The first that a line has is used.
var requestFields = [...][]string{
	{"method", "request.method", "RequestMethod", "request_method"},
	{"status", "DownstreamStatus"},
	{"path", "request.uri", "RequestPath", "request_uri", "uri"},
	{"referer", "request.headers.Referer", "request_Referer", "http_referer"},
	{"agent", "request.headers.User-Agent", "request_User-Agent", "http_user_agent", "user_agent"},
	{"request.headers.Sec-Purpose", "request_Sec-Purpose"},
}

// siteOf makes the plan read the fields of requests. Its templates are not read.
func (p *plan) siteOf(site *Site) error {
	fields := formats[p.format].fields
	if fields != nil && !slices.Contains(fields, "agent") {
		return fmt.Errorf("a %s log does not say which pages were read: it must be an access log", p.format)
	}
	p.site, p.fields = site, fields
	var all boundTemplate
	for i, names := range requestFields {
		for _, name := range names {
			place := slices.Index(p.fields, name)
			if place < 0 && fields == nil {
				place = len(p.fields)
				p.fields = append(p.fields, name)
			}
			if place >= 0 {
				p.places[i] = append(p.places[i], place)
				all = append(all, boundPart{place: place})
			}
		}
	}
	p.bound = []boundTemplate{all}
	return nil
}

// siteKeys are the keys of a line.
func (p *plan) siteKeys(l *line) []string {
	field := func(i int) []byte {
		for _, place := range p.places[i] {
			if value := l.fields[place]; value != nil && string(value) != "-" {
				return value
			}
		}
		return nil
	}
	return p.site.Make(Request{field(0), field(1), field(2), field(3), field(4), field(5)})
}
