package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// roomBytes is more than any message is with its frame.
const roomBytes = 2 << 20

// DiskError is why the disk of a data directory takes nothing.
type DiskError struct {
	Dir string
	Err error
}

func (e *DiskError) Error() string {
	if errors.Is(e.Err, syscall.ENOSPC) || errors.Is(e.Err, syscall.EDQUOT) {
		return fmt.Sprintf("the disk is full: make room on the disk of the data directory %s (%v)", e.Dir, e.Err)
	}
	return fmt.Sprintf("the data directory %s can't be written (%v)", e.Dir, e.Err)
}

func (e *DiskError) Unwrap() error { return e.Err }

// TryRoom tells whether the disk takes some MiB; the error is a *DiskError.
func TryRoom(dir string) error {
	if err := tryRoom(dir); err != nil {
		return &DiskError{dir, err}
	}
	return nil
}

func tryRoom(dir string) (err error) {
	file, err := os.OpenFile(filepath.Join(dir, RoomFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if _, err := file.Write(make([]byte, roomBytes)); err != nil {
		return err
	}
	return file.Sync()
}
