package files

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"syscall"
	"unsafe"
)

// NoFollow is a flag of os.OpenFile that refuses a symbolic link. Windows has none.
const NoFollow = 0

var (
	kernel32    = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx  = kernel32.NewProc("LockFileEx")
	unlockFile  = kernel32.NewProc("UnlockFileEx")
	freeSpaceEx = kernel32.NewProc("GetDiskFreeSpaceExW")
)

const (
	failImmediately = 1
	exclusive       = 2

	errLockViolation = syscall.Errno(33)
)

// OpenDirectory opens a directory.
func OpenDirectory(path string) (*os.File, error) { return os.Open(path) }

// SyncDirectory does nothing: the file system keeps the order of renames, and directories cannot be synced.
func SyncDirectory(string) error { return nil }

// Lock waits until it locks a file for this process alone. The system releases the lock when the process ends.
func Lock(file *os.File) error { return lock(file, exclusive) }

// TryLock is Lock that does not wait: see IsLocked and NoLocks for its errors.
func TryLock(file *os.File) error { return lock(file, exclusive|failImmediately) }

// lock locks one byte far behind the content, because other processes cannot read what is locked.
func lock(file *os.File, flags uintptr) error {
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return errors.Join(err, errors.ErrUnsupported)
	}
	if done, _, err := lockFileEx.Call(file.Fd(), flags, 0, 1, 0, uintptr(unsafe.Pointer(lockedByte()))); done == 0 {
		return err
	}
	return nil
}

func lockedByte() *syscall.Overlapped { return &syscall.Overlapped{OffsetHigh: math.MaxInt32} }

// Unlock releases a lock. Without a lock it does nothing.
func Unlock(file *os.File) {
	_, _, _ = unlockFile.Call(file.Fd(), 0, 1, 0, uintptr(unsafe.Pointer(lockedByte())))
}

// IsLocked reports whether TryLock failed because another process has the lock.
func IsLocked(err error) bool { return errors.Is(err, errLockViolation) }

// NoLocks reports whether TryLock failed because directories cannot be locked.
func NoLocks(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// FreeBytes returns how many bytes this process may still write to the disk of a directory.
func FreeBytes(dir string) (int64, error) {
	name, err := syscall.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if done, _, err := freeSpaceEx.Call(uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&free)), 0, 0); done == 0 {
		return 0, &fs.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return int64(min(free, math.MaxInt64)), nil
}

// CopyOwner does nothing: a new file inherits its access from the directory.
func CopyOwner(*os.File, fs.FileInfo) {}
