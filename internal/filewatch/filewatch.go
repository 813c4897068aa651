// Package filewatch reads files of settings, and reads them again when they have changed.
package filewatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Hash identifies the content of a file.
type Hash [sha256.Size]byte

// HashOf is the Hash of a file's content.
func HashOf(data []byte) Hash { return sha256.Sum256(data) }

// Read reads a regular file, up to one byte more than most, by which the parser sees that it is
// too large. Another kind of file, a pipe for example, could make the reader wait for ever. what
// names its content in the error, "tokens" say.
func Read(path, what string, most int64) (data []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file: name a file of %s", path, what)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(file, most+1))
	return data, errors.Join(err, file.Close())
}

// every is how often a File looks.
const every = time.Second

// File is one that is followed.
type File struct {
	Path   string
	What   string                               // its content, in errors: "tokens"
	Gone   string                               // what to do when the file is gone, in its error
	Read   func(path string) ([]byte, error)    // as the first time
	InUse  func() Hash                          // of the content that is in use
	Take   func(path string, data []byte) error // parses the content, and puts it in use
	Report func(error)                          // see Watch

	// Settles says that Read reads several files, which change one after the other: what is wrong is looked at again before it is reported.
	Settles bool
}

// Watch keeps the content of the file in use until ctx ends. It reads the file once a second, and at once for each value from
// reload, which may be nil. A file that is replaced by renaming another one over it is followed.
//
// Watch's goroutine calls Report: with nil when the file's content is in use after a change or a requested reload, else with what is wrong
// with the file. The content in use then stays. Each wrong content is reported once, and again when a reload is requested.
//
// Watch compares contents, because the time of a file may stand still over two changes. Reading and hashing 1 MiB costs about a
// millisecond.
func (f *File) Watch(ctx context.Context, reload <-chan struct{}) {
	last := seen{content: f.InUse()}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			last = f.look(last, false)
		case _, ok := <-reload:
			if !ok {
				reload = nil
				continue
			}
			last = f.look(last, true)
		}
	}
}

// seen is what a look at a file found.
type seen struct {
	content Hash
	trouble string // why it could not be read, else ""
	settles bool   // it is wrong, and was not reported yet
}

// look reads the file, and takes its content over if it has changed since the last look, or if a reload was asked for.
func (f *File) look(last seen, asked bool) (now seen) {
	data, err := f.Read(f.Path)
	if err != nil {
		now.trouble = err.Error()
	} else {
		now.content = HashOf(data)
	}
	same := now.content == last.content && now.trouble == last.trouble
	if same && !last.settles && !asked {
		return now
	}
	if err == nil && now.content != f.InUse() {
		err = f.Take(f.Path, data)
	}
	if now.settles = f.Settles && err != nil && !same && !asked; now.settles {
		return now
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s: the file is gone: the %s in use stay; %s: %w", f.Path, f.What, f.Gone, err)
	case err != nil:
		err = fmt.Errorf("%w\n%s: the %s in use stay until the file is corrected", err, f.Path, f.What)
	}
	f.Report(err)
	return now
}
