package middleware

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-counter/weir"
)

// Config of a Middleware.
type Config struct {
	// Decider decides the requests: Limits, or one of another package.
	Decider Decider

	// Rules are the limits of a request, 1 to weir.MaxChecks: all or none.
	Rules []Rule

	// Fail says what becomes of requests while Weir can't be reached.
	Fail Fail

	// Skip reports whether a request goes on to the handler without a limit. Nil: none does.
	Skip func(r *http.Request) bool

	// Denied answers a denied request. The fields of its limits and Retry-After are
	// in the header; d is not to be used after it returns. Nil: AnswerDenied.
	Denied func(w http.ResponseWriter, r *http.Request, d *Decision)

	// Refused answers a request that was not decided and does not go on: by
	// FailClosed, or because of what it asks for; err says why. Nil: AnswerRefused.
	Refused func(w http.ResponseWriter, r *http.Request, err error)

	// OnError is called for each request that was not decided, unless its client went away. Nil: a warning by slog.Default,
	// at most one in ten seconds.
	OnError func(r *http.Request, err error)

	// HideFields leaves RateLimit-Policy and RateLimit out of answers, for limits
	// that clients are not to know. Retry-After stays.
	HideFields bool
}

// Rule is one limit of the requests.
type Rule struct {
	// Limit is its name at the Decider. A Decider with policies takes "" for all policies that the key fits.
	Limit string

	// Key says what of a request is counted.
	Key Key

	// Prefix goes before each key, up to 128 bytes, for example to choose a policy by it. Default none.
	Prefix string

	// Optional lets a request without such a key through under the other rules: a client that leaves out a header
	// leaves out the rule. Without it such a request is refused, with 400.
	Optional bool

	// Cost is how many admissions the request takes; of 0 the limit is not asked. Nil: 1.
	Cost func(r *http.Request) uint64
}

// Fail says what becomes of requests that are not decided.
type Fail uint8

const (
	// FailOpen lets them through: a Weir that is down takes nothing down with it. What
	// ends with ErrMisconfigured is refused anyway.
	FailOpen Fail = iota

	// FailClosed refuses them, with 503: never more than the limits.
	FailClosed
)

// maxPrefixBytes leaves space for a key after a prefix.
const maxPrefixBytes = 128

func (c *Config) validate() error {
	switch {
	case c.Decider == nil:
		return errors.New("middleware: no Decider: use Limits, or one of middleware/policies or middleware/remote")
	case len(c.Rules) < 1 || len(c.Rules) > weir.MaxChecks:
		return fmt.Errorf("middleware: %d rules: must be 1 to %d", len(c.Rules), weir.MaxChecks)
	case c.Fail > FailClosed:
		return fmt.Errorf("middleware: fail %d: must be FailOpen or FailClosed", c.Fail)
	}
	for i, r := range c.Rules {
		if err := r.validate(c.Decider); err != nil {
			return fmt.Errorf("middleware: rule %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *Rule) validate(d Decider) error {
	if len(r.Prefix) > maxPrefixBytes {
		return fmt.Errorf("prefix of %d bytes: at most %d", len(r.Prefix), maxPrefixBytes)
	}
	if err := r.Key.check(); err != nil {
		return err
	}
	return d.Knows(r.Limit)
}

// Key says what of a request is counted. Keys of different kinds never meet: each
// begins with its kind, so that no header can name another client's address.
type Key struct {
	read func(*http.Request) (string, bool)
	err  error
}

// longestValue is the longest value that a key has in plain. With its kind and a rule's prefix it fits weir.MaxKeyBytes.
const longestValue = 256

// ByHeader is the key "header:", the header's name in lower case, and a hash of its
// first value: header:x-api-key:en6OJ5nWYnSXp0Wx-ViHxw. The hash is SHA-256 cut to 128 bits, in 22
// characters. A request without the header has no key.
//
// The value is hashed because it may be a secret: keys stand in lists, logs and on disk. The hash has no secret, so that all
// servers count one key, also after a restart. Anyone who can read keys can guess a value of few bits from its hash. For
// such a value use ByFunc, with a keyed hash.
func ByHeader(name string) Key {
	return byHeader(name, func(kind, value string) string { return hashed(kind, value) })
}

// ByPlainHeader is ByHeader with the value as it is, header:x-tenant:acme, for values
// that are no secret. One of more than 256 bytes, or that is not UTF-8, is hashed.
func ByPlainHeader(name string) Key {
	return byHeader(name, func(kind, value string) string {
		if len(value) > longestValue || !utf8.ValidString(value) {
			return hashed(kind, value)
		}
		return kind + value
	})
}

func byHeader(name string, key func(kind, value string) string) Key {
	if !token(name) || len(name) > maxNameBytes {
		return Key{err: fmt.Errorf("header %.80q: must be the name of a header, at most %d bytes", name, maxNameBytes)}
	}
	kind := "header:" + strings.ToLower(name) + ":"
	return Key{read: func(r *http.Request) (string, bool) {
		value := r.Header.Get(name)
		if strings.EqualFold(name, "Host") {
			value = r.Host // net/http takes it out of the headers
		}
		if value == "" {
			return "", false
		}
		return key(kind, value), true
	}}
}

// ByCookie is the key "cookie:", the cookie's name, and a hash of its value as in
// ByHeader: a session's cookie is a secret. A request without it has no key.
func ByCookie(name string) Key {
	if !token(name) || len(name) > maxNameBytes {
		return Key{err: fmt.Errorf("cookie %.80q: must be the name of a cookie, at most %d bytes", name, maxNameBytes)}
	}
	kind := "cookie:" + name + ":"
	return Key{read: func(r *http.Request) (string, bool) {
		cookie, err := r.Cookie(name)
		if err != nil || cookie.Value == "" {
			return "", false
		}
		return hashed(kind, cookie.Value), true
	}}
}

// maxNameBytes is the longest name of a header or a cookie.
const maxNameBytes = 100

// ByFunc is the key that f returns, 1 to 512 bytes of UTF-8 with the rule's prefix. A longer one is hashed. f returns false,
// or "", for a request without one. It is called for each request, by many goroutines.
func ByFunc(f func(r *http.Request) (key string, ok bool)) Key {
	if f == nil {
		return Key{err: errors.New("ByFunc needs a function")}
	}
	return Key{read: func(r *http.Request) (string, bool) {
		key, ok := f(r)
		return key, ok && key != ""
	}}
}

// FirstOf is the first of keys that the request has: FirstOf(ByHeader("X-Api-Key"),
// ByAddress(o)) counts who sends no X-Api-Key by address.
func FirstOf(keys ...Key) Key {
	for _, k := range keys {
		if err := k.check(); err != nil {
			return Key{err: err}
		}
	}
	if len(keys) == 0 {
		return Key{err: errors.New("FirstOf needs keys")}
	}
	return Key{read: func(r *http.Request) (string, bool) {
		for _, k := range keys {
			if key, ok := k.read(r); ok {
				return key, true
			}
		}
		return "", false
	}}
}

// token reports whether s is a token of RFC 9110.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// check returns what is wrong with a key that a program made.
func (k Key) check() error {
	if k.err == nil && k.read == nil {
		return errors.New("no key: use ByAddress, ByHeader, ByPlainHeader, ByCookie, ByFunc or FirstOf")
	}
	return k.err
}

// bounded is prefix and key within what Weir takes as a key.
func bounded(prefix, key string) string {
	if len(prefix)+len(key) > weir.MaxKeyBytes || !utf8.ValidString(key) {
		return hashed(prefix+"hash:", key)
	}
	return prefix + key
}

// hashed is kind and the hash of value, which no other kind has of it.
func hashed(kind, value string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + value))
	return kind + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// AddressOptions say which address identifies a client. The zero value is right for a server that clients connect to
// without a proxy.
type AddressOptions struct {
	// Trusted are the addresses of your own proxies, which append to X-Forwarded-For. The header is read only if the request
	// comes from one of them, and only the part that they wrote. It is read from its right end to the first address that is not
	// trusted, the client. What is left of that address may be the client's own text. None: the header is not read.
	//
	// A network that clients can send from must not be in here.
	Trusted []netip.Prefix

	// IPv6Bits is how much of an IPv6 address makes the key, 1 to 128 bits. Default 64: a client has at least so large a
	// network for itself, and would have 2^64 allowances with all bits.
	IPv6Bits int
}

const forwardedFor = "X-Forwarded-For"

// ByAddress is the key "address:" with the client's address: address:203.0.113.7, or address:2001:db8::/64 for IPv6. An IPv4
// address in an IPv6 one is IPv4. If the part of X-Forwarded-For that counts has a fault, the key is the peer's address, which
// is the proxy. A peer without an IP address, such as a Unix socket, has no key. For another header, write a key by ByFunc.
func ByAddress(o AddressOptions) Key {
	a, err := newAddresses(o)
	if err != nil {
		return Key{err: err}
	}
	return Key{read: a.key}
}

// addresses are checked AddressOptions.
type addresses struct {
	trusted  []netip.Prefix // IPv4 as such, masked
	ipv6Bits int
}

func newAddresses(o AddressOptions) (*addresses, error) {
	a := &addresses{ipv6Bits: o.IPv6Bits}
	if a.ipv6Bits == 0 {
		a.ipv6Bits = 64
	}
	if a.ipv6Bits < 1 || a.ipv6Bits > 128 {
		return nil, fmt.Errorf("address: %d bits of IPv6: must be 1 to 128", o.IPv6Bits)
	}
	for _, p := range o.Trusted {
		if !p.IsValid() {
			return nil, errors.New(`address: a trusted network is not valid: write for example netip.MustParsePrefix("10.0.0.0/8")`)
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		a.trusted = append(a.trusted, p.Masked())
	}
	return a, nil
}

func (a *addresses) key(r *http.Request) (string, bool) {
	client, ok := a.client(r)
	if !ok {
		return "", false
	}
	const prefix = "address:"
	if client.Is4() || a.ipv6Bits == 128 {
		return prefix + client.String(), true
	}
	network, _ := client.Prefix(a.ipv6Bits) // can't fail: the bits were checked
	return prefix + network.String(), true
}

// client returns the address that sent the request; false if the peer has none.
func (a *addresses) client(r *http.Request) (netip.Addr, bool) {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	peer := plain(remote.Addr())
	if !a.trusts(peer) {
		return peer, true
	}
	client, ok := a.forwardedFor(r.Header[forwardedFor])
	if !ok {
		return peer, true
	}
	return client, true
}

// forwardedFor returns the rightmost address of the header's lines that is not trusted, or the leftmost if all are. It
// returns false if there is none, or a fault to its right.
func (a *addresses) forwardedFor(lines []string) (client netip.Addr, ok bool) {
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			comma := strings.LastIndexByte(line, ',')
			element := line[comma+1:]
			if more = comma >= 0; more {
				line = line[:comma]
			}
			if client, ok = parseAddress(strings.Trim(element, " \t")); !ok || !a.trusts(client) {
				return client, ok
			}
		}
	}
	return client, ok
}

// parseAddress reads an address, with or without a port; an IPv6 address may be in brackets.
func parseAddress(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err == nil {
		return plain(addr), true
	}
	if strings.HasSuffix(text, "]") {
		text += ":0"
	}
	with, err := netip.ParseAddrPort(text)
	return plain(with.Addr()), err == nil
}

func (a *addresses) trusts(addr netip.Addr) bool {
	for _, p := range a.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// plain returns the one form of an address: IPv4 as such, and without a zone, which means nothing on other machines.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
