package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// roomBytes is more than any message is with its frame.
const roomBytes = 2 << 20

// TryRoom tells whether the disk takes some MiB.
func TryRoom(dir string) (err error) {
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
