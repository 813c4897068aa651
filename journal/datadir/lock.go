package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Lock is the lock on a data directory. The kernel lets it go when the process
// ends, however it ends.
//
// The lock is on the directory itself: a file in it can be removed while it is locked,
// and a second process would make and lock another one. The file lock is locked too,
// for file systems that can't lock a directory (NFS), and holds the pid.
type Lock struct {
	Path      string // of the directory: absolute, without symbolic links
	dir, file *os.File
}

// LockDir makes the directory if needed, for its owner only, and locks it. path may lead
// through symbolic links: they are followed here, once. In the directory there may be none.
func LockDir(path string) (_ *Lock, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, cannotUse(err)
	}
	l := &Lock{}
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
	if l.dir, err = os.OpenFile(l.Path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0); err != nil {
		return nil, cannotUse(err)
	}
	if err := l.take(l.dir); err != nil && !cannotLock(err) {
		return nil, err
	}
	if err := l.still(); err != nil {
		return nil, err
	}
	if err := refuseLinks(l.Path); err != nil {
		return nil, err
	}
	if l.file, err = os.OpenFile(filepath.Join(l.Path, LockFile), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600); err != nil {
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
func (l *Lock) take(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return fmt.Errorf("data directory %s is in use by process %s: stop it, or choose another --data", l.Path, holder(l.Path))
	case err != nil:
		return fmt.Errorf("data directory %s: lock: %w", l.Path, err)
	}
	return nil
}

// cannotLock tells that a file system has no locks for directories: NFS wants a
// descriptor that can write, which a directory has not.
func cannotLock(err error) bool {
	return errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL)
}

// holder is the pid of the process that has the lock, as far as it is known.
func holder(dir string) string {
	file, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "(unknown: its lock file is gone)"
	}
	defer file.Close()
	pid, _ := io.ReadAll(io.LimitReader(file, 32))
	return strings.TrimSpace(string(pid))
}

// still makes sure that the directory that was locked is the one that the path leads to:
// another process may have removed it, and made one of the same name, meanwhile.
func (l *Lock) still() error {
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
func (l *Lock) Release() error {
	var errs []error
	for _, file := range []*os.File{l.file, l.dir} {
		if file != nil {
			// A child process that is just being started has the descriptor until its exec:
			// to close this one alone would leave the lock to it. Without a lock this does nothing.
			_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}
