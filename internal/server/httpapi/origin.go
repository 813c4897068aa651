package httpapi

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/settings"
)

// Requests for a foreign Host, and requests that a page of another site sends, are refused. No page learns an answer,
// or makes the server do anything, unless its origin is the server's own or allowed.

// OriginGuard refuses what a web page of somebody else makes a browser send. A browser reaches
// loopback and private networks for whatever page is open in it. But each request says for which host it is, and which
// page sends it:
//
//   - Host. A page of evil.example may let that name resolve to 127.0.0.1 (DNS
//     rebinding), and its scripts then read answers as their own. So a name must be
//     one that a stranger can't own: see hostKnown.
//   - Sec-Fetch-Site and Origin. A page of another site may send any GET and POST to
//     an address, without being able to read the answer.
//
// A request with neither field comes from no browser, from a browser whose user follows a link, or from one that asks
// over plain HTTP beyond loopback by GET, which only asks questions.
type OriginGuard struct {
	next    http.Handler
	hosts   map[string]bool // lower case, without a port
	within  []string        // ".example.com": every name that ends so
	anyHost bool
	allowed map[string]bool // origins, lower case
	refused func()
}

// GuardConfig says who may ask.
type GuardConfig struct {
	Addr    string   // listened on, host:port
	Hosts   []string // further names of this server: a name, *.example.com, or * for all
	Origins []string // sites whose pages may ask it from a browser: scheme://host[:port]
}

const (
	// allowedMethods and allowedHeaders are what a page of an allowed origin may send.
	allowedMethods = "GET, POST, PUT, DELETE"
	allowedHeaders = "Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-Match, If-None-Match"
	exposedHeaders = "RateLimit, RateLimit-Policy, Retry-After, Idempotency-Replayed, ETag"
)

// NewGuard wraps next. refused is called for each request that is.
func NewGuard(next http.Handler, cfg GuardConfig, refused func()) *OriginGuard {
	o := &OriginGuard{next: next, hosts: map[string]bool{}, allowed: map[string]bool{}, refused: refused}
	own := []string{hostOf(cfg.Addr)}
	if name, err := os.Hostname(); err == nil {
		own = append(own, name)
	}
	for _, host := range append(own, cfg.Hosts...) {
		switch host = strings.ToLower(strings.TrimSuffix(host, ".")); {
		case host == "*":
			o.anyHost = true
		case strings.HasPrefix(host, "*."):
			o.within = append(o.within, host[1:])
		default:
			o.hosts[host] = true
		}
	}
	for _, origin := range cfg.Origins {
		o.allowed[strings.ToLower(origin)] = true
	}
	return o
}

// ServeHTTP implements http.Handler.
func (o *OriginGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !o.hostKnown(r.Host) {
		o.refuse(w, "Host", "this server does not know itself as "+request.Clip(r.Host)+", which may be a web page's trick (DNS rebinding): use its address, or start it with --allow-host "+request.Clip(hostOf(r.Host)))
		return
	}
	origin := ""
	if values := r.Header["Origin"]; len(values) > 0 { // the literal form: no look-up of another one
		origin = values[0]
	}
	switch {
	case ofProxy(r): // it passes on what its client's browser says of another site's pages
	case forOtherSites(r.URL.Path): // the handler looks at the origin
	case origin != "" && o.allowed[strings.ToLower(origin)]:
		if o.shares(w, r, origin) {
			return
		}
	case origin != "" && !isOriginOf(origin, r.Host):
		o.refuse(w, "Origin", "a web page of "+request.Clip(origin)+" sent this: start the server with --allow-origin "+request.Clip(origin)+" if it may")
		return
	case !ownSite(r) && !isLink(r):
		o.refuse(w, "Sec-Fetch-Site", "a web page of another site sent this: start the server with --allow-origin and that site's scheme://host:port if it may")
		return
	}
	o.next.ServeHTTP(w, r)
}

func (o *OriginGuard) refuse(w http.ResponseWriter, field, detail string) {
	o.refused()
	NewProblem(api.CodeForbiddenOrigin, field, detail).Write(w)
}

// hostKnown reports whether a request is for this server by a name that no stranger can own. These are an IP address, the
// machine's own name, the host of Config.Addr, and Config.Hosts. A name without a dot is one too: public DNS does not
// resolve it. Nor will it ever resolve names in .localhost and .internal (RFC 6761, ICANN 2024-07-29).
func (o *OriginGuard) hostKnown(host string) bool {
	name := strings.TrimSuffix(hostOf(host), ".")
	if o.anyHost || strings.IndexByte(name, '.') < 0 { // also an IPv6 address
		return true
	}
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		_, err := netip.ParseAddr(name)
		return err == nil
	}
	name = strings.ToLower(name)
	if o.hosts[name] || strings.HasSuffix(name, ".localhost") || strings.HasSuffix(name, ".internal") {
		return true
	}
	return slices.ContainsFunc(o.within, func(within string) bool { return strings.HasSuffix(name, within) })
}

// shares lets a page of an allowed origin read the answer (CORS). done says that the
// browser only asked whether it may send its request.
func (o *OriginGuard) shares(w http.ResponseWriter, r *http.Request, origin string) (done bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", exposedHeaders)
		return false
	}
	h.Set("Access-Control-Allow-Methods", allowedMethods)
	h.Set("Access-Control-Allow-Headers", allowedHeaders)
	h.Set("Access-Control-Max-Age", "600")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// isOriginOf reports whether an origin is the page's own server. Its scheme is not
// compared: a proxy may have taken the TLS off.
func isOriginOf(origin, host string) bool {
	_, named, ok := strings.Cut(origin, "://")
	return ok && strings.EqualFold(named, host)
}

// ownSite reports whether the browser says that a page of this server, or its user, sent the
// request. Another port of the same host is "same-site", and somebody else's.
func ownSite(r *http.Request) bool {
	site := r.Header["Sec-Fetch-Site"]
	return len(site) == 0 || site[0] == "same-origin" || site[0] == "none"
}

// isLink reports whether the user followed a link of another site to the pages that
// describe the API, which are the same for everybody.
func isLink(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		(r.URL.Path == "/" || r.URL.Path == "/docs" || r.URL.Path == "/docs/" || r.URL.Path == "/openapi.json")
}

// ofProxy reports whether a proxy asks whether a request may pass. A page that is not allowed can't
// make a browser send the field: it asks the server first (CORS), and is refused.
func ofProxy(r *http.Request) bool {
	return r.URL.Path == ForwardAuthPath && len(r.Header[ForwardedMark]) > 0
}

// hostOf is the host of host[:port], without brackets.
func hostOf(host string) string {
	if strings.HasPrefix(host, "[") {
		host, _, _ = strings.Cut(host[1:], "]")
		return host
	}
	if name, _, ok := strings.Cut(host, ":"); ok && strings.Count(host, ":") == 1 {
		return name
	}
	return host
}

// Validate returns a *engine.Error that names the setting, AllowHosts or AllowOrigins of the server,
// that no browser would match.
func (c GuardConfig) Validate() error {
	for _, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, "/@ ") || strings.Contains(strings.TrimPrefix(host, "*."), "*") && host != "*" || hostOf(host) != host {
			return settings.Invalid("AllowHosts", "AllowHosts has "+request.Clip(`"`+host)+`": write a name without a scheme and a port, *.example.com, or * for all`)
		}
	}
	for _, origin := range c.Origins {
		scheme, host, ok := strings.Cut(origin, "://")
		if !ok || scheme != "http" && scheme != "https" || host == "" || strings.ContainsAny(host, "/*@ ") {
			return settings.Invalid("AllowOrigins", "AllowOrigins has "+request.Clip(`"`+origin)+`": write scheme://host, with a port that is not the scheme's usual one, as the browser's address bar has it`)
		}
	}
	return nil
}

// Clients of an HTTP server must not take their time: a TimedBody and a TimedWriter must move at a MinRate. What the
// server itself takes does not count. While a body or an answer moves, its connection waits for its client.

// MinRate is how fast a client must send or take: it has some time for the first bytes, and a second more for each Rate
// bytes that have moved. A byte now and then is not enough, and a large body has the time that it needs.
type MinRate struct {
	Left time.Duration // that the client has
	Rate int64         // bytes per second, above 0
}

// moved takes the time that n bytes took, and gives what they earn.
func (p *MinRate) moved(n int, took time.Duration) {
	p.Left += time.Duration(n)*time.Second/time.Duration(p.Rate) - took
}

// TimedBody is a body that must arrive at a MinRate. The server reads it in pieces of many kilobytes, so that two
// readings of the clock cost little.
type TimedBody struct {
	io.ReadCloser
	control *http.ResponseController
	conn    *listener.Conn
	rate    MinRate
	answer  time.Duration // that is left for the answer, after the body
}

// NewTimedBody returns r's body, which must arrive at a rate, and then has a time left for its answer.
func NewTimedBody(w http.ResponseWriter, r *http.Request, rate MinRate, answer time.Duration) *TimedBody {
	return &TimedBody{r.Body, http.NewResponseController(w), ConnOf(r), rate, answer}
}

// Read implements io.Reader.
func (b *TimedBody) Read(piece []byte) (int, error) {
	start := time.Now()
	// A caller's own server may take no deadlines: then it has its own.
	_ = b.control.SetReadDeadline(start.Add(b.rate.Left))
	_ = b.control.SetWriteDeadline(start.Add(b.rate.Left + b.answer))
	b.conn.Waits(true)
	n, err := b.ReadCloser.Read(piece)
	b.conn.Waits(false)
	b.rate.moved(n, time.Since(start))
	return n, err
}

// TimedWriter is an answer that must be taken at a MinRate.
type TimedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	rate    MinRate
}

// NewTimedWriter returns w, which must be taken at a rate.
func NewTimedWriter(w http.ResponseWriter, rate MinRate) *TimedWriter {
	return &TimedWriter{w, http.NewResponseController(w), rate}
}

// NoDeadline lets go of the deadline that there is until the next Write, after work of the server's own.
func (w *TimedWriter) NoDeadline() { _ = w.control.SetWriteDeadline(time.Time{}) } // as in Body

// Write implements io.Writer.
func (w *TimedWriter) Write(piece []byte) (int, error) {
	start := time.Now()
	_ = w.control.SetWriteDeadline(start.Add(w.rate.Left)) // as in Body
	n, err := w.ResponseWriter.Write(piece)
	w.rate.moved(n, time.Since(start))
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *TimedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type connKey struct{}

// WithConn is an http.Server's ConnContext, by which ConnOf finds the connection of a request.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// ConnOf is the connection of a request; nil: a caller's own server accepted it.
func ConnOf(r *http.Request) *listener.Conn {
	c, _ := r.Context().Value(connKey{}).(*listener.Conn)
	return c
}
