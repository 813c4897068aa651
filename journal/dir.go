package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A data directory:
//
//	lock         held by the process that uses the directory; its pid
//	manifest     what the directory is, and the epoch in use
//	mark         how far the journal was acknowledged
//	room         for a moment, after an error of writing: is there room?
//	jetstream/   the embedded server's files: the journal and the snapshots
//	jetstream.damaged-TIME/   of a node of a cluster, until it has all from the others
const (
	lockFile     = "lock"
	manifestFile = "manifest"
	markFile     = "mark"
	roomFile     = "room"
	serverDir    = "jetstream"
)

// dirLock is the lock on a data directory. The kernel lets it go when the
// process ends, however it ends.
type dirLock struct{ file *os.File }

// lockDir makes the directory if needed, for its owner only, and locks it.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			holder, _ := io.ReadAll(io.LimitReader(file, 32))
			return nil, fmt.Errorf("data directory %s is in use by process %s: stop it, or choose another --data", dir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("data directory %s: lock: %w", dir, err)
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &dirLock{file}, nil
}

func (l *dirLock) release() error { return l.file.Close() }

// writeFileSynced replaces a file as a whole: after a crash it is the old one or
// the new one.
func writeFileSynced(path string, data []byte) error {
	tmp, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := tmp.Write(data); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := tmp.Sync(); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes renames in a directory survive a crash of the machine.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
