package policy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// watchEvery is how often Watch looks at the file.
const watchEvery = time.Second

// Watch keeps the Set in use that of the file at path until ctx ends: it looks once a
// second whether the file has other content, and at once for each value from reload, which
// may be nil. A file that is replaced by renaming another one over it is followed.
//
// report is called from Watch's goroutine: with nil when the file's policies are in use
// after a change, or after a reload that was asked for; else with what is wrong with the
// file, while the policies in use stay. That is told once for each content of the file,
// and again when a reload is asked for.
//
// The content is what is compared, not the time of the file: a time may stand still over
// two changes, or change with nothing else. Reading a file of 1 MiB at most costs less than
// a millisecond.
func (l *Live) Watch(ctx context.Context, path string, reload <-chan struct{}, report func(error)) {
	w := watcher{live: l, path: path, report: report, seen: seen{content: l.Set().content}}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look(false)
		case _, ok := <-reload:
			if !ok {
				reload = nil
				continue
			}
			w.look(true)
		}
	}
}

// watcher is what Watch knows of a file.
type watcher struct {
	live   *Live
	path   string
	report func(error)
	seen   seen
}

// seen is what the last look at the file found.
type seen struct {
	content contentHash
	trouble string // why it could not be read, else ""
}

// look reads the file, and takes its policies over if it is not as it was; always if
// that was asked for.
func (w *watcher) look(asked bool) {
	data, err := readFile(w.path)
	var now seen
	if err != nil {
		now.trouble = err.Error()
	} else {
		now.content = sha256.Sum256(data)
	}
	if now == w.seen && !asked {
		return
	}
	w.seen = now
	if err == nil && now.content != w.live.Set().content {
		err = w.take(data)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s: the file is gone: the policies in use stay; put it back, or write `limits: []` for none: %w", w.path, err)
	case err != nil:
		err = fmt.Errorf("%w\n%s: the policies in use stay until the file is corrected", err, w.path)
	}
	w.report(err)
}

func (w *watcher) take(data []byte) error {
	set, err := Parse(w.path, data)
	if err != nil {
		return err
	}
	return w.live.Replace(set)
}
