package auth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock keeps other edits of the file at path away until unlock: by a lock on a file beside it,
// since the file itself is replaced. unlock removes that file, so that who waited for it may have one
// that is gone, and takes another.
func lock(path string) (unlock func(), err error) {
	for {
		file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
		}
		held, heldErr := file.Stat()
		there, thereErr := os.Lstat(file.Name())
		if heldErr == nil && thereErr == nil && os.SameFile(held, there) {
			return func() {
				_ = os.Remove(file.Name()) // one that stays is only not tidy
				_ = file.Close()           // which lets the lock go
			}, nil
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
}

// replace puts data in place of the file at path, on disk. A new one has mode 0600. One that is there
// keeps its mode, and its owner where this process may give files away: a server that runs as
// another user goes on to read it. A link is followed, and stays one.
func replace(path string, data []byte) (err error) {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	if info, err := os.Stat(path); err == nil {
		if of, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = temp.Chown(int(of.Uid), int(of.Gid)) // only root may
		}
		if err := temp.Chmod(info.Mode().Perm() &^ 0o022); err != nil {
			return errors.Join(err, temp.Close())
		}
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
