package replay

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/engine"
)

// MaxTop is the most keys that a report lists per template.
const MaxTop = 10_000

// Options say what to read and what to find out. Files is required; other zero values mean the defaults.
type Options struct {
	// Files are read one after the other, as parts of one log: plain, gzip or zstd. "-" (Stdin) is the standard input.
	Files []string
	// Stdin is what "-" reads. Default: nothing.
	Stdin io.Reader
	// Format of all files. Default Auto.
	Format Format
	// Keys are the templates that make keys of a line, at most MaxTemplates. Default: url:{path} and host:{host} for CLF, else {key}.
	Keys []string
	// Site, if set, makes keys in place of Keys.
	Site *Site
	// Outcomes has Scan give the status of the answers.
	Outcomes bool
	// DefaultKeys, if set, returns the templates for a format if Keys is empty; none: the default of Keys.
	DefaultKeys func(Format) []string

	// Top is how many keys the report lists per template. Default 10, at most MaxTop.
	Top int

	// Memory is the budget of the report's engine in bytes. Default 1 GiB.
	Memory int64
	// MaxAhead is how far in the future a line's time may be; a line after that is not counted. Default 5 s.
	MaxAhead time.Duration
	// Workers is how many goroutines parse. Default GOMAXPROCS.
	Workers int

	// To sends all keys' hits to a server, instead of keeping them in an engine. Every line is one hit per template there.
	To *client.Client

	// Again counts lines again that the server took from these files within the last ten minutes. By default a batch of regular
	// files has an idempotency key, made of its place and content.
	Again bool

	// Follow goes on reading the last file as it grows, through rotation, until the context ends. It must not be compressed.
	Follow bool
	// FromEnd begins a followed file at its end. It needs Follow.
	FromEnd bool
	// Poll is how often a followed file is looked at. Default 250 ms.
	Poll time.Duration
	// Status, if set, is called with the state of the replay every StatusEvery (default 10 s) on the collector's goroutine.
	Status      func(Status)
	StatusEvery time.Duration
	// Now is the present. Default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Format = cmp.Or(o.Format, Auto)
	o.Top = cmp.Or(o.Top, 10)
	o.MaxAhead = cmp.Or(o.MaxAhead, 5*time.Second)
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.StatusEvery = cmp.Or(o.StatusEvery, 10*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Stdin == nil {
		o.Stdin = strings.NewReader("")
	}
	return o
}

// An OptionError says which field of Options is outside what it may be.
type OptionError struct{ Field, Message string }

func (e *OptionError) Error() string { return e.Message }

func (o Options) validate() error {
	bad := func(field, format string, args ...any) error {
		return &OptionError{Field: field, Message: fmt.Sprintf(format, args...)}
	}
	if len(o.Files) == 0 {
		return bad("Files", "no file to read")
	}
	if i := slices.Index(o.Files, Stdin); i >= 0 && slices.Contains(o.Files[i+1:], Stdin) {
		return bad("Files", "the standard input (-) can be read once")
	}
	if o.Follow && o.Files[len(o.Files)-1] == Stdin {
		return bad("Follow", "the standard input cannot be followed: it is read to its end anyway")
	}
	if o.FromEnd && !o.Follow {
		return bad("FromEnd", "beginning at the end of a file needs --follow: there is nothing after it otherwise")
	}
	if !slices.Contains(Formats, o.Format) {
		return bad("Format", "%q is not a format: %v", o.Format, Formats)
	}
	if o.Top < 1 || o.Top > MaxTop {
		return bad("Top", "%d keys: it must be 1 to %d", o.Top, MaxTop)
	}
	return nil
}

// plainToFollow refuses to follow a compressed file. The reader reports what can't be opened.
func (o Options) plainToFollow() error {
	if !o.Follow {
		return nil
	}
	name := o.Files[len(o.Files)-1]
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer file.Close()
	magic := make([]byte, magicBytes)
	n, _ := io.ReadFull(file, magic)
	if kind := compression(magic[:n]); kind != "" {
		return &OptionError{Field: "Follow", Message: fmt.Sprintf("%s is compressed (%s) and cannot be followed: follow the log that is being written, or leave --follow out", name, kind)}
	}
	return nil
}

// validKey reports whether hits can be counted under key.
func validKey[T string | []byte](key T) bool {
	return len(key) > 0 && len(key) <= engine.MaxKeyBytes && string(key) != engine.AllKeys
}

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
