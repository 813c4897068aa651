//go:build !windows

package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// NoFollow is a flag of os.OpenFile that refuses a symbolic link.
const NoFollow = syscall.O_NOFOLLOW

// OpenDirectory opens a directory, and refuses a symbolic link.
func OpenDirectory(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}

// SyncDirectory makes renames in a directory survive a crash of the machine.
func SyncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Lock waits until it locks a file for this process alone. The kernel releases the lock when the process ends.
func Lock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX) }

// TryLock is Lock that does not wait: see IsLocked and NoLocks for its errors.
func TryLock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// Unlock releases a lock. Without a lock it does nothing.
func Unlock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }

// IsLocked reports whether TryLock failed because another process has the lock.
func IsLocked(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }

// NoLocks reports whether TryLock failed because the file system has no locks for directories: NFS wants a
// descriptor that can write, which a directory has not.
func NoLocks(err error) bool {
	return errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL)
}

// FreeBytes returns how many bytes this process may still write to the disk of a directory.
func FreeBytes(dir string) (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil
}

// CopyOwner gives a file the owner of another one, if this process may give files away.
func CopyOwner(file *os.File, from fs.FileInfo) {
	if stat, ok := from.Sys().(*syscall.Stat_t); ok {
		_ = file.Chown(int(stat.Uid), int(stat.Gid)) // only root may
	}
}
