package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// The names in a data directory:
//
//	lock         the pid of the process that uses the directory, which holds a lock on
//	             the directory itself
//	manifest     what the directory is, and the epoch in use
//	mark         how far the journal was acknowledged
//	restoring/   of a restore that has not come to its end, or was killed
//	room         for a moment, after an error of writing: is there room?
//	jetstream/   the embedded server's files: the journal and the snapshots
//	jetstream.damaged-TIME/   of a node of a cluster, until it has all from the others
const (
	LockFile      = "lock"
	ManifestFile  = "manifest"
	WatermarkFile = "mark"
	RoomFile      = "room"
	ServerDir     = "jetstream"
)

// writeFileSynced replaces a file as a whole: after a crash it is the old one or
// the new one.
func writeFileSynced(path string, data []byte) error {
	tmp, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
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
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes renames in a directory survive a crash of the machine.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
