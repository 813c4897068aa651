package pageviews

import (
	"path"
	"strings"
)

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
