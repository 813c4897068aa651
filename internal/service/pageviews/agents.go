package pageviews

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"
)

//go:embed bots.txt
var botList string

// bots matches the lower case of user agents that no person uses.
var bots = sync.OnceValue(func() *regexp.Regexp {
	var list []string
	for line := range strings.Lines(botList) {
		if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return regexp.MustCompile("(?:" + strings.Join(list, ")|(?:") + ")")
})

// agent is what a user agent says.
type agent struct {
	bot             bool
	browser, device string
}

const (
	maxAgent  = 512  // bytes of a user agent that are read
	maxAgents = 4096 // that are remembered: the list of bots costs some 100 µs
)

// agents remembers user agents. The zero agents is ready.
type agents struct {
	mu    sync.Mutex
	known map[string]agent
}

func (a *agents) of(text string) agent {
	text = strings.ToLower(text[:min(len(text), maxAgent)])
	a.mu.Lock()
	is, known := a.known[text]
	a.mu.Unlock()
	if known {
		return is
	}
	is = agent{bot: text == "" || bots().MatchString(text), browser: first(text, browsers), device: first(text, devices)}
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
	for _, of := range list {
		if strings.Contains(text, of[0]) {
			return of[1]
		}
	}
	return "other"
}
