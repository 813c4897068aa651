package pageviews

import (
	_ "embed"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxName bounds what a view adds to a key, in bytes.
const maxName = 200

// Path is the path of an address without its query, as keys have it: /a, //a, /b/../a, /%61 and /a/ are one. A key
// holds no white space, control character, colon, ? or #: those are percent-encoded. A longer path than 200 bytes is cut.
func Path(address string) string {
	text, _, _ := strings.Cut(address, "#")
	text, _, _ = strings.Cut(text, "?")
	if _, after, absolute := strings.Cut(text, "://"); absolute && !strings.HasPrefix(text, "/") {
		_, text, _ = strings.Cut(after, "/")
	}
	if plain, err := url.PathUnescape(text); err == nil {
		text = plain
	}
	return path.Clean(escape(path.Clean("/" + text)))
}

// escape is a name as keys have it: at most maxName bytes of UTF-8.
func escape(name string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range name { // U+FFFD for what is not UTF-8
		text := string(c)
		if c == ':' || c == '%' || c == '?' || c == '#' || unicode.IsSpace(c) || unicode.IsControl(c) {
			text = ""
			for _, octet := range utf8.AppendRune(nil, c) {
				text += string([]byte{'%', digits[octet>>4], digits[octet&15]})
			}
		}
		if b.Len()+len(text) > maxName {
			break
		}
		b.WriteString(text)
	}
	return b.String()
}

// word is the name of an event or the value of a parameter: lower case, without white space around it.
func word(text string) string { return escape(strings.ToLower(strings.TrimSpace(text))) }

// HostOf is the host of an address or an origin in lower case, without a port; "": it has none.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// isHost reports whether a text is a name or an address, as HostOf writes it.
func isHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	return text != "" && len(text) <= maxName && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" && strings.Trim(text, ".-") == text
}

// referrerOf is the site that a view came from; "": none, or the site itself.
func referrerOf(address, site string) string {
	host := strings.TrimPrefix(HostOf(address), "www.")
	if !isHost(host) || within(host, strings.TrimPrefix(site, "www.")) {
		return ""
	}
	return strings.ReplaceAll(host, ":", ".") // of IPv6
}

// within reports whether a host is a site or below it.
func within(host, site string) bool { return host == site || strings.HasSuffix(host, "."+site) }

// campaigns are the parameters of a query that count, unless a site names others.
var campaigns = []string{"utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"}

//go:embed bots.txt
var botList string

// botPatterns are the list. Most of it is plain text, which is found faster than as part of the expression: 0.17 ms instead
// of 0.46 ms for a browser.
type botPatterns struct {
	within, prefixes []string
	other            *regexp.Regexp
}

var bots = sync.OnceValue(func() *botPatterns {
	var b botPatterns
	var other []string
	for line := range strings.Lines(botList) {
		line = strings.TrimRight(line, "\n")
		text, begins := strings.CutPrefix(line, "^")
		switch {
		case strings.HasPrefix(line, "#"):
		case regexp.QuoteMeta(text) != text:
			other = append(other, line)
		case begins:
			b.prefixes = append(b.prefixes, text)
		default:
			b.within = append(b.within, text)
		}
	}
	b.other = regexp.MustCompile("(?:" + strings.Join(other, ")|(?:") + ")")
	return &b
})

// match reports whether no person uses a user agent, in lower case.
func (b *botPatterns) match(text string) bool {
	return slices.ContainsFunc(b.prefixes, func(p string) bool { return strings.HasPrefix(text, p) }) ||
		slices.ContainsFunc(b.within, func(p string) bool { return strings.Contains(text, p) }) || b.other.MatchString(text)
}

// agent is what a user agent says.
type agent struct {
	bot             bool
	browser, device string
}

const (
	maxAgent  = 512  // bytes of a user agent that are read
	maxAgents = 4096 // that are remembered, for the list of bots costs much
)

// agents remembers user agents. The zero agents is ready.
type agents struct {
	mu    sync.Mutex
	known map[string]agent
}

func (a *agents) find(text string) agent {
	text = strings.ToLower(text[:min(len(text), maxAgent)])
	a.mu.Lock()
	is, known := a.known[text]
	a.mu.Unlock()
	if known {
		return is
	}
	is = agent{bot: text == "" || bots().match(text), browser: first(text, browsers), device: first(text, devices)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxAgents || a.known == nil {
		a.known = map[string]agent{}
	}
	a.known[text] = is
	return is
}

// browsers and devices are names, and a text in lower case that their user agents have. The first one counts: most
// browsers name those that they descend from.
var (
	browsers = [][2]string{
		{"edg", "edge"}, {"opr/", "opera"}, {"samsungbrowser", "samsung"}, {"vivaldi", "vivaldi"}, {"yabrowser", "yandex"}, {"duckduckgo", "duckduckgo"},
		{"firefox", "firefox"}, {"fxios", "firefox"}, {"crios", "chrome"}, {"chrome", "chrome"}, {"safari", "safari"},
	}
	devices = [][2]string{
		{"ipad", "tablet"}, {"tablet", "tablet"}, {"iphone", "phone"}, {"mobile", "phone"}, {"android", "tablet"},
		{"windows", "desktop"}, {"macintosh", "desktop"}, {"x11", "desktop"}, {"linux", "desktop"}, {"cros", "desktop"},
	}
)

func first(text string, list [][2]string) string {
	for _, pair := range list {
		if strings.Contains(text, pair[0]) {
			return pair[1]
		}
	}
	return "other"
}
