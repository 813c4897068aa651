// Package files writes, syncs and locks files. What systems do differently is in files_unix.go and files_windows.go:
// locks, free space, owners, and flags of open.
//
// Windows builds, and has never run in a test.
package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteSynced replaces a file as a whole with what write writes: after a crash it is the old one or the new one.
// Until the file is whole it is called part, in the same directory.
func WriteSynced(path, part string, write func(io.Writer) error) error {
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|NoFollow, 0o600)
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(part, path)
	}
	return errors.Join(err, SyncDirectory(filepath.Dir(path)))
}

// WriteFileSynced is WriteSynced of data.
func WriteFileSynced(path string, data []byte) error {
	return WriteSynced(path, path+".new", func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
