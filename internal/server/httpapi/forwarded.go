package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
)

// Keys of requests that a proxy asks about are made from what it says in X-Forwarded fields: ip:(client) is
// ip:192.0.2.7. A field may hold a list, whose left part may be the client's own invention: each proxy adds on the
// right. So the last of a list counts, which the asking proxy wrote.
//
// Invariants. Whatever a client sends, a key of at most engine.MaxKeyBytes is made of it: no request passes, or fails,
// because its key could not be made. A value except an address holds no colon, so that no client can make the key of
// another by its path or a field.

// ForwardedMark is the field that proxies send when they ask whether a request may pass, and not when they only pass
// requests on. A page in a browser can't send it to another site unless that site agrees.
const ForwardedMark = "X-Forwarded-Uri"

// MaxForwardedHops is the most proxies before the service.
const MaxForwardedHops = 10

// ForwardedRequest is a request that a proxy asks about.
type ForwardedRequest struct {
	Header http.Header
	Hops   int // proxies that the request came through and that are trusted, from 1: the one that asks is the last of them
}

// last is the last value of a field, which the asking proxy wrote; "": there is none.
func (r *ForwardedRequest) last(field string) string {
	values := r.Header[field]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// lastOf is the last element of a list.
func lastOf(list string) string { return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:]) }

// client is the address that sent the request. An IPv6 address is its /64, which one household has.
func (r *ForwardedRequest) client() (string, error) {
	found, err := r.address()
	if err != nil {
		return "", err
	}
	return household(found), nil
}

// address is the address that sent the request: as the first of the trusted proxies wrote it, or the furthest that is one.
func (r *ForwardedRequest) address() (netip.Addr, error) {
	const field = "X-Forwarded-For"
	var found netip.Addr
	lines := r.Header[field]
	for i, left := len(lines)-1, r.Hops; i >= 0; i-- {
		for line, more := lines[i], true; more; left-- {
			if left == 0 {
				return found, nil
			}
			comma := strings.LastIndexByte(line, ',')
			addr, ok := address(strings.TrimSpace(line[comma+1:]))
			switch {
			case ok:
				found = addr
			case found.IsValid(): // no proxy wrote that
				return found, nil
			default:
				return found, &api.Error{Code: api.CodeInvalidParameter, Field: field, Message: "X-Forwarded-For ends with " + request.Clip(strconv.Quote(line[comma+1:])) + ", which is no address: have the proxy write the client's there"}
			}
			if more = comma >= 0; more {
				line = line[:comma]
			}
		}
	}
	if !found.IsValid() {
		return found, &api.Error{Code: api.CodeInvalidParameter, Field: field, Message: "(client) needs the field X-Forwarded-For, with the client's address last: have the proxy send it"}
	}
	return found, nil
}

func household(addr netip.Addr) string {
	if addr.Is4() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// address reads an address as proxies write it: with a port or without.
func address(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		with, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = with.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

const (
	maxParts   = 4   // variables of a template
	maxLiteral = 100 // bytes of a template's text
	maxValue   = 100 // bytes that a variable makes; a longer value is cut
)

// ForwardedTemplate makes keys. The zero Template makes none.
type ForwardedTemplate struct {
	parts   []part
	literal int // bytes
}

// part is text, or what is read of a request.
type part struct {
	literal string
	read    func(*ForwardedRequest) (string, error) // nil: literal
}

// known is what error messages say of variables.
const known = "(client), (host), (method), (path), (path:2) for its first two parts, (header:X-Name) or (hash:X-Name)"

// ParseForwarded reads a template such as ip:(client). {client} is the same. It fails with an *api.Error.
func ParseForwarded(text string) (ForwardedTemplate, error) {
	var t ForwardedTemplate
	for rest := text; rest != ""; {
		begin := strings.IndexAny(rest, "({")
		if begin < 0 {
			begin = len(rest)
		}
		if begin > 0 {
			t.parts = append(t.parts, part{literal: rest[:begin]})
			t.literal += begin
			rest = rest[begin:]
			continue
		}
		closing := map[byte]string{'(': ")", '{': "}"}[rest[0]]
		name, after, closed := strings.Cut(rest[1:], closing)
		if !closed {
			return t, wrong(text, "a %c is not closed by %s", rest[0], closing)
		}
		read, err := variable(name)
		if err != "" {
			return t, wrong(text, "%s", err)
		}
		t.parts = append(t.parts, part{read: read})
		rest = after
	}
	switch variables := t.variables(); {
	case len(t.parts) == 0:
		return t, wrong(text, "it is empty")
	case variables > maxParts:
		return t, wrong(text, "it has %d variables: at most %d", variables, maxParts)
	case t.literal > maxLiteral:
		return t, wrong(text, "it has %d bytes of text without its variables: at most %d", t.literal, maxLiteral)
	}
	return t, nil
}

func (t ForwardedTemplate) variables() (n int) {
	for _, p := range t.parts {
		if p.read != nil {
			n++
		}
	}
	return n
}

func wrong(text, why string, args ...any) error {
	return &api.Error{Code: api.CodeInvalidKey, Field: "key", Message: "key " + request.Clip(text) + ": " + fmt.Sprintf(why, args...) + "; write for example ip:(client)"}
}

// Key makes the key of a request. It fails with an *api.Error if the proxy does not send what the template needs.
func (t ForwardedTemplate) Key(asked *ForwardedRequest) (string, error) {
	var key strings.Builder
	key.Grow(t.literal + 48)
	for _, p := range t.parts {
		value := p.literal
		if p.read != nil {
			var err error
			if value, err = p.read(asked); err != nil {
				return "", err
			}
		}
		key.WriteString(value)
	}
	return key.String(), nil
}

// nothing stands for a value that is not there. All requests without it share a key, which a pattern such as
// user:{user} matches.
const nothing = "-"

// secrets are fields whose values are not written into keys, which lists, logs and backups show.
var secrets = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Weir-Token"}

// methods have a key each. A client may invent others, and would have a key of its own for each.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}

// variable is how the value of a variable is read, or what is wrong with its name.
func variable(text string) (read func(*ForwardedRequest) (string, error), bad string) {
	name, argument, has := strings.Cut(text, ":")
	plain := func(read func(*ForwardedRequest) string) func(*ForwardedRequest) (string, error) {
		return func(r *ForwardedRequest) (string, error) { return read(r), nil }
	}
	switch {
	case text == "client":
		return (*ForwardedRequest).client, ""
	case text == "host":
		return plain((*ForwardedRequest).host), ""
	case text == "method":
		return plain((*ForwardedRequest).method), ""
	case text == "path":
		return plain(func(r *ForwardedRequest) string { return r.path(0) }), ""
	case name == "path" && has:
		parts, err := strconv.Atoi(argument)
		if err != nil || parts < 1 || parts > 9 {
			return nil, "(" + text + ") must have a number from 1 to 9"
		}
		return plain(func(r *ForwardedRequest) string { return r.path(parts) }), ""
	case (name == "header" || name == "hash") && argument != "":
		field := textproto.CanonicalMIMEHeaderKey(argument)
		if name == "hash" {
			return plain(func(r *ForwardedRequest) string { return r.hash(field) }), ""
		}
		if slices.Contains(secrets, field) {
			return nil, "the value of " + field + " is a secret, and keys are not: write (hash:" + argument + ")"
		}
		return plain(func(r *ForwardedRequest) string { return written(r.last(field), false) }), ""
	}
	return nil, "(" + text + ") is unknown: there are " + known
}

func (r *ForwardedRequest) host() string {
	host := strings.ToLower(lastOf(r.last("X-Forwarded-Host")))
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		host = host[:at]
	}
	return written(strings.TrimSuffix(host, "."), false)
}

func (r *ForwardedRequest) method() string {
	switch method := r.last("X-Forwarded-Method"); {
	case method == "":
		return nothing
	case slices.Contains(methods, method):
		return method
	}
	return "OTHER"
}

// path is what the client asks for, decoded and cleaned, so that /a, //a, /b/../a, /%61 and /a/ are one. It has the
// first parts only, or with 0 all.
func (r *ForwardedRequest) path(parts int) string {
	text := r.last(ForwardedMark)
	if _, after, absolute := strings.Cut(text, "://"); absolute && !strings.HasPrefix(text, "/") {
		_, text, _ = strings.Cut(after, "/")
	}
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	text = path.Clean("/" + decoded(text))
	for i := range text {
		if i > 0 && text[i] == '/' {
			if parts--; parts == 0 {
				text = text[:i]
				break
			}
		}
	}
	return written(text, true)
}

// decoded undoes percent-encoding once; what is not well encoded stays as it is.
func decoded(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := hex.DecodeString(text[i+1 : i+3]); err == nil {
				b.WriteByte(c[0])
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// hash is half of the digits of a field's SHA-256: enough to tell secrets apart, and not to guess one.
func (r *ForwardedRequest) hash(field string) string {
	value := r.last(field)
	if value == "" {
		return nothing
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// written is a value as keys have it: valid UTF-8 with at most maxValue bytes, and what separates the
// parts of a key percent-encoded.
func written(value string, slashes bool) string {
	if value == "" {
		return nothing
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(min(len(value), maxValue))
	for _, c := range value { // U+FFFD for what is not UTF-8
		encode := c <= ' ' || c == 0x7f || c == ':' || c == '%' || c == '/' && !slashes
		size := len(string(c))
		if encode {
			size = 3
		}
		if b.Len()+size > maxValue {
			break
		}
		if encode {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// ForwardAuthPath is where proxies ask.
const ForwardAuthPath = "/v1/forward-auth"

// TokenHeader is where a proxy sends its token: Authorization has what its client sent, who is unknown to this server.
const TokenHeader = "X-Weir-Token"

// maxQueryKeys bounds the keys of a URL.
const maxQueryKeys = 8

// forwardAuth answers a proxy that asks whether a request may pass: 200, or 429 with the time to
// wait. Whatever else goes wrong is a server's error, since the proxy may pass it to its client.
func (s *Server) forwardAuth(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.ContentLength != 0 { // nothing of a body is read
		w.Header().Set("Connection", "close") // else net/http reads it, before the answer leaves
	}
	a := s.decisions.Get().(*allowing)
	defer s.decisions.Put(a)
	denied, err := s.decideForwarded(a, r)
	if err != nil {
		ProblemOfProxy(err).Write(w)
		return
	}
	d, h := &a.decision, w.Header()
	setRateLimit(h, d, &a.fields)
	if d.Allowed {
		w.WriteHeader(http.StatusOK)
		return
	}
	seconds := ratelimitfields.RetryAfter(d.RetryAfter)
	h.Set("Retry-After", seconds)
	setDenial(h, d)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	a.answer = append(append(append(a.answer[:0], "Too many requests: try again in "...), seconds...), " s.\n"...)
	w.WriteHeader(denied)
	if _, err := w.Write(a.answer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

// forwardParams are the parameters of ForwardAuthPath.
var forwardParams = []string{"denied", "hops", "key", "limit", "per", "burst", "algorithm", "name", "n"}

// decideForwarded asks the limits, and says with which status a denial is answered.
func (s *Server) decideForwarded(a *allowing, r *http.Request) (denied int, err error) {
	if len(r.Header[ForwardedMark]) == 0 {
		return 0, fail(api.CodeInvalidParameter, ForwardedMark, "this is for proxies, which say in "+ForwardedMark+" what their client asks for: have the proxy send it (docs/proxies.md), or ask /v1/allow")
	}
	q, err := queryOf(r, "", forwardParams...)
	if err != nil {
		return 0, err
	}
	for name, values := range q {
		switch {
		case slices.Contains(values, ""):
			return 0, fail(api.CodeInvalidParameter, name, name+" is empty: give it a value or leave it out")
		case len(values) > 1 && name != "key":
			return 0, fail(api.CodeInvalidParameter, name, fmt.Sprintf("%s is given %d times: give it once", name, len(values)))
		}
	}
	denied = http.StatusTooManyRequests
	if q.Has("denied") {
		if denied, err = strconv.Atoi(q.Get("denied")); err != nil || denied < 400 || denied > 499 {
			return 0, fail(api.CodeInvalidParameter, "denied", "denied must be a status from 400 to 499: nginx takes 403")
		}
	}
	asked := ForwardedRequest{Header: r.Header, Hops: 1}
	if q.Has("hops") {
		if asked.Hops, err = strconv.Atoi(q.Get("hops")); err != nil || asked.Hops < 1 || asked.Hops > MaxForwardedHops {
			return 0, fail(api.CodeInvalidParameter, "hops", "hops must be a number from 1 to "+strconv.Itoa(MaxForwardedHops)+": how many proxies of yours a request comes through")
		}
	}
	requests, err := limitOf(q)
	if err != nil {
		return 0, err
	}
	for i := range requests {
		template, err := ParseForwarded(requests[i].Key)
		if err != nil {
			return 0, err
		}
		if requests[i].Key, err = template.Key(&asked); err != nil {
			return 0, err
		}
	}
	return denied, s.askLimits(a, r, requests, false)
}

// limitOf reads what is asked: for each key a request, all with the same limit.
func limitOf(q url.Values) ([]admit.Request, error) {
	keys := q["key"]
	switch {
	case len(keys) == 0:
		return nil, fail(api.CodeMissingKey, "key", "key is missing: name the key that is limited")
	case len(keys) > maxQueryKeys:
		return nil, fail(api.CodeInvalidCount, "key", fmt.Sprintf("there are %d keys: at most %d", len(keys), maxQueryKeys))
	}
	one := admit.Request{N: 1, Limit: q.Get("limit")}
	var err error
	if q.Has("n") {
		if one.N, err = numberOf(q, "n", 0); err != nil {
			return nil, err
		}
	}
	if q.Has("per") {
		if one.Inline, err = inlineOf(q); err != nil {
			return nil, err
		}
		one.Limit = q.Get("name")
	} else {
		for _, name := range []string{"burst", "algorithm", "name"} {
			if q.Has(name) {
				return nil, fail(api.CodeInvalidLimit, name, name+" belongs to a limit of the request's own: give limit and per too, such as limit=100&per=1m")
			}
		}
	}
	requests := make([]admit.Request, len(keys))
	for i, key := range keys {
		requests[i] = one
		requests[i].Key = key
	}
	return requests, nil
}

// inlineOf reads a limit that the request brings along.
func inlineOf(q url.Values) (*engine.Limit, error) {
	l := new(engine.Limit)
	var err error
	if l.N, err = numberOf(q, "limit", 1); err != nil {
		return nil, err
	}
	if l.Per, err = units.ParseDuration(q.Get("per")); err != nil {
		return nil, fail(api.CodeInvalidLimit, "per", "per: "+err.Error())
	}
	if q.Has("burst") {
		if l.Burst, err = numberOf(q, "burst", 1); err != nil {
			return nil, err
		}
	}
	ok := false
	if l.Algorithm, ok = limit.ParseAlgorithm(q.Get("algorithm")); !ok && q.Has("algorithm") {
		return nil, fail(api.CodeInvalidLimit, "algorithm", "algorithm must be window, fixed or gcra")
	}
	return l, nil
}

func numberOf(q url.Values, name string, least uint64) (uint64, error) {
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil || n < least || n > limit.MaxBurst {
		code, more := api.CodeInvalidCount, ""
		if name == "limit" {
			more = ", for there is a per; a policy is named without one"
		}
		return 0, fail(code, name, fmt.Sprintf("%s must be a whole number from %d to %d%s", name, least, uint64(limit.MaxBurst), more))
	}
	return n, nil
}

// forwardQuestion describes forwardParams and the fields that are read.
type forwardQuestion struct {
	Keys      []string `query:"key,explode" required:"true" maxItems:"8" doc:"Template of the key. May be repeated, at most 8 times." example:"[\"ip:(client)\"]"`
	Denied    int      `query:"denied" minimum:"400" maximum:"499" default:"429" doc:"The status of a denial: auth_request of nginx knows 403 only."`
	Hops      int      `query:"hops" minimum:"1" maximum:"10" default:"1" doc:"Number of your proxies that a request passes, including the asking one. It selects the client's address in X-Forwarded-For, from the right."`
	Limit     string   `query:"limit" doc:"Name of one policy; or, with per, a number: a limit sent with the request. Default: all policies that match the key."`
	Per       string   `query:"per" doc:"The period of a limit of the request's own, such as 1m."`
	Burst     uint64   `query:"burst" minimum:"1" maximum:"35184372088832" doc:"How many at once. Default: the limit."`
	Algorithm string   `query:"algorithm" enum:"window,fixed,gcra" default:"window" doc:"Algorithm of the limit."`
	Name      string   `query:"name" doc:"Name under which the usage of keys is stored. Default: inline/, the algorithm and the period."`
	N         uint64   `query:"n" minimum:"0" maximum:"35184372088832" doc:"How many admissions; 0 asks only."`
	URI       string   `header:"X-Forwarded-Uri" required:"true" doc:"The client's request URI. Its presence marks the sender as a proxy."`
	For       string   `header:"X-Forwarded-For" doc:"Of (client)."`
	Host      string   `header:"X-Forwarded-Host" doc:"Of (host)."`
	Method    string   `header:"X-Forwarded-Method" doc:"Of (method)."`
	Token     string   `header:"X-Weir-Token" doc:"Of a server with a tokens file."`
}

const forwardAuthDescription = `Decides for a proxy whether a request of its client may pass: forward_auth of Caddy, auth_request of nginx, ForwardAuth of Traefik. 200: it
may; 429: it may not. Any method works, and no body is read.

**Keys** are made of what the proxy reports:

- ` + "`ip:(client)`" + `: the client's address, IPv6 as its /64: the last one of X-Forwarded-For, or with ` + "`hops=2`" + ` the last but one
- ` + "`(host)`" + `, ` + "`(method)`" + `: X-Forwarded-Host in lower case without the port, and X-Forwarded-Method
- ` + "`(path)`" + `: X-Forwarded-Uri, decoded and cleaned; ` + "`(path:2)`" + ` its first two parts
- ` + "`(header:X-User)`" + `: a field, ` + "`(hash:Authorization)`" + ` the hash of one

` + "`{client}`" + ` is the same as ` + "`(client)`" + `. A missing value is ` + "`-`" + `.

**Tokens** are in X-Weir-Token, since Authorization belongs to the client.

**Other errors** are 500 or 503, whatever the code: the proxy's client can do nothing about them.`

// registerForwardAuth routes any method, and describes GET.
func (s *Server) registerForwardAuth(to *router) {
	responses := describe[forwardQuestion, RateLimitFields](to, route{
		pattern: ForwardAuthPath, id: "forwardAuth", need: decides.isHot(), status: http.StatusOK,
		codes:   []api.Code{api.CodeInternal, api.CodeOwnerUnreachable, api.CodeOverloaded, api.CodeClosed},
		summary: "Decide for a proxy whether a request may pass", description: forwardAuthDescription,
	}, s.forwardAuth)
	delete(responses, "401")
	responses["200"].Description = "The request may pass"
	responses["403"].Description = "With `denied=403`, a limit denies the request. Or, as a problem: `" + string(api.CodeForbiddenOrigin) + "`"
	responses["429"] = &huma.Response{
		Description: "A limit denies the request, and nothing was taken", Headers: deniedFields(responses["200"].Headers),
		Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	responses["500"].Description = "The proxy's request is invalid: a problem with the code and the reason"
	responses["503"].Description = "No node decides now, or the proxy's identity has reached its ceiling: a problem with the code and the reason"
}
