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
