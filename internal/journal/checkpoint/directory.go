package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/weir-counter/weir/internal/files"
)

// One process uses a data directory at a time, and follows no symbolic link in it. A directory that is filled only in part is refused. The
// names in it:
//
//	lock         the pid of the process that uses the directory, which holds a lock on
//	             the directory itself
//	manifest     what the directory is, and the epoch in use
//	mark         how far the journal was acknowledged
//	restoring/   of a restore that has not come to its end, or was killed
//	space        for a moment, after an error of writing: is there space?
//	jetstream/   the embedded server's files: the journal and the snapshots
//	jetstream.damaged-TIME/   of a node of a cluster, until it has all from the others
const (
	LockFile      = "lock"
	ManifestFile  = "manifest"
	WatermarkFile = "mark"
	SpaceFile     = "space"
	ServerDir     = "jetstream"
	HistoryFile   = "history.db" // that package history writes
)

// DirectoryLock is the lock on a data directory. The kernel lets it go when the process
// ends, however it ends.
//
// The lock is on the directory itself. A file in it could be removed while it is locked, and a second process would lock another one. The
// file lock is locked too, for file systems that can't lock a directory (NFS). It holds the pid.
type DirectoryLock struct {
	Path      string // of the directory: absolute, without symbolic links
	dir, file *os.File
}

// LockDirectory makes the directory if needed, for its owner only, and locks it. path may lead
// through symbolic links: they are followed here, once. In the directory there may be none.
func LockDirectory(path string) (_ *DirectoryLock, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, cannotUse(err)
	}
	l := &DirectoryLock{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Release())
		}
	}()
	if l.Path, err = filepath.EvalSymlinks(path); err == nil {
		l.Path, err = filepath.Abs(l.Path)
	}
	if err != nil {
		return nil, cannotUse(err)
	}
	if l.dir, err = files.OpenDirectory(l.Path); err != nil {
		return nil, cannotUse(err)
	}
	if err := l.take(l.dir); err != nil && !files.NoLocks(err) {
		return nil, err
	}
	if err := l.still(); err != nil {
		return nil, err
	}
	if err := refuseLinks(l.Path); err != nil {
		return nil, err
	}
	if l.file, err = os.OpenFile(filepath.Join(l.Path, LockFile), os.O_RDWR|os.O_CREATE|files.NoFollow, 0o600); err != nil {
		return nil, cannotUse(err)
	}
	if err := l.take(l.file); err != nil {
		return nil, err
	}
	if err := l.file.Truncate(0); err != nil {
		return nil, err
	}
	_, err = l.file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return l, err
}

// cannotUse says what to do about a directory that the system keeps from this process.
func cannotUse(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("data directory: %w: user %d must be able to write there: chown it, or choose another --data", err, os.Geteuid())
	}
	return fmt.Errorf("data directory: %w", err)
}

// take locks a file for this process alone.
func (l *DirectoryLock) take(file *os.File) error {
	err := files.TryLock(file)
	switch {
	case files.IsLocked(err):
		return fmt.Errorf("data directory %s is in use by process %s: stop it, or choose another --data", l.Path, holder(l.Path))
	case err != nil:
		return fmt.Errorf("data directory %s: lock: %w", l.Path, err)
	}
	return nil
}

// holder is the pid of the process that has the lock, as far as it is known.
func holder(dir string) string {
	file, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDONLY|files.NoFollow, 0)
	if err != nil {
		return "(unknown: its lock file is gone)"
	}
	defer file.Close()
	pid, _ := io.ReadAll(io.LimitReader(file, 32))
	return strings.TrimSpace(string(pid))
}

// still makes sure that the path leads to the directory that was locked: another process may have replaced it meanwhile.
func (l *DirectoryLock) still() error {
	locked, err := l.dir.Stat()
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if now, err := os.Lstat(l.Path); err != nil || !os.SameFile(locked, now) {
		return fmt.Errorf("data directory %s was removed or replaced while it was opened: try again", l.Path)
	}
	return nil
}

// refuseLinks refuses symbolic links in a data directory. What they lead to is not
// locked, and a name that is written to would be another file.
func refuseLinks(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // left by somebody meanwhile
			return nil
		case err != nil:
			return fmt.Errorf("data directory: %w", err)
		case entry.Type()&fs.ModeSymlink != 0:
			return fmt.Errorf("data directory: %s is a symbolic link, and none is followed there: replace it by what it leads to (--data itself may be a link)", path)
		}
		return nil
	})
}

// Release gives the directory back.
func (l *DirectoryLock) Release() error {
	var errs []error
	for _, file := range []*os.File{l.file, l.dir} {
		if file != nil {
			// A child process that is just being started has the descriptor until its exec:
			// to close this one alone would leave the lock to it. Without a lock this does nothing.
			files.Unlock(file)
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// LockExistingDirectory locks a data directory that must be there.
func LockExistingDirectory(dir string) (*DirectoryLock, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("data directory %s: it is a file", dir)
	}
	if _, err := os.Lstat(filepath.Join(dir, ManifestFile)); errors.Is(err, fs.ErrNotExist) { // before the lock leaves a file in it
		return nil, fmt.Errorf("data directory %s has no manifest: it is not one of Weir's, or nothing was ever written to it", dir)
	}
	return LockDirectory(dir)
}

// CopyDirectory copies what belongs to a data directory, but for the lock.
func CopyDirectory(from, to string) error {
	for _, name := range []string{ManifestFile, WatermarkFile} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			return err
		}
	}
	return os.CopyFS(filepath.Join(to, ServerDir), os.DirFS(filepath.Join(from, ServerDir)))
}

// DirectoryBytes is the size of all files in a directory, as far as they can be read.
func DirectoryBytes(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// spaceBytes is more than any message is with its frame.
const spaceBytes = 2 << 20

// DiskError is why the disk of a data directory takes nothing.
type DiskError struct {
	Dir string
	Err error
}

func (e *DiskError) Error() string {
	if errors.Is(e.Err, syscall.ENOSPC) || errors.Is(e.Err, syscall.EDQUOT) {
		return fmt.Sprintf("the disk is full: free some space on the disk of the data directory %s (%v)", e.Dir, e.Err)
	}
	return fmt.Sprintf("the data directory %s can't be written (%v)", e.Dir, e.Err)
}

func (e *DiskError) Unwrap() error { return e.Err }

// TrySpace reports whether the disk takes some MiB; the error is a *DiskError.
func TrySpace(dir string) error {
	if err := trySpace(dir); err != nil {
		return &DiskError{dir, err}
	}
	return nil
}

func trySpace(dir string) (err error) {
	file, err := os.OpenFile(filepath.Join(dir, SpaceFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|files.NoFollow, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if _, err := file.Write(make([]byte, spaceBytes)); err != nil {
		return err
	}
	return file.Sync()
}

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
// Other errors of lstat are ignored: a writer will get them too.
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
