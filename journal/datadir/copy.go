package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// LockExisting locks a data directory that must be there.
func LockExisting(dir string) (*Lock, error) {
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
	return LockDir(dir)
}

// Copy copies what belongs to a data directory, but for the lock.
func Copy(from, to string) error {
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

// Bytes is the size of all files in a directory, as far as they can be read.
func Bytes(dir string) (sum int64) {
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
