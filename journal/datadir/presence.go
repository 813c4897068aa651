package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrGone is why a process can't go on: files that it writes to are at their place no more.
// A system goes on to take writes to them, and forgets them when the process ends.
var ErrGone = errors.New("removed, renamed or replaced while it was in use")

// Presence remembers directories, so that one that is gone is noticed. It does not change,
// and is safe for many goroutines.
type Presence struct {
	paths []string
	was   []fs.FileInfo
}

// NotePresence remembers the directories that are at paths now; all must be there.
func NotePresence(paths ...string) (*Presence, error) {
	p := &Presence{paths: paths}
	for _, path := range paths {
		is, err := os.Lstat(path)
		if err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		p.was = append(p.was, is)
	}
	return p, nil
}

// Check returns an ErrGone that names the first directory that is not at its path any more,
// or that another one took the place of. It costs one lstat for each, about a microsecond.
// What else keeps it from looking tells nothing, and whoever writes has that error too.
func (p *Presence) Check() error {
	for i, path := range p.paths {
		is, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		case err != nil, os.SameFile(p.was[i], is):
			continue
		}
		return fmt.Errorf("data directory: %s was %w", path, ErrGone)
	}
	return nil
}
