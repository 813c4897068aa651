package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// RestoreStage is the folder in which a data directory grows until it is whole.
const RestoreStage = "restoring"

// RefuseForeignFiles keeps Weir out of a directory that holds something else.
func RefuseForeignFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := refuseRestoring(dir, entries); err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != LockFile && entry.Name() != ManifestFile+".new" {
			return fmt.Errorf("data directory %s has no manifest, but holds %s: it is damaged, or not Weir's: choose an empty --data",
				dir, filepath.Join(dir, entry.Name()))
		}
	}
	return nil
}

// Unstage moves a whole data directory into place, its manifest last: without it
// a directory is refused.
func Unstage(stage, dir string) error {
	for _, name := range []string{ServerDir, WatermarkFile, ManifestFile} {
		if err := os.Rename(filepath.Join(stage, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return SyncDir(dir)
}

// Discard takes back what a restore that failed has put into dir.
func Discard(dir string, isNew bool) error {
	var errs []error
	for _, name := range []string{ManifestFile, WatermarkFile, ServerDir, LockFile} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	if isNew {
		errs = append(errs, os.Remove(dir))
	}
	return errors.Join(errs...)
}

// RefuseFilled refuses a directory that holds anything but our lock and what a restore
// that was killed has left.
func RefuseFilled(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, ManifestFile)); err == nil {
		return fmt.Errorf("%s is a data directory already: choose one that is empty, or not there yet", dir)
	}
	restoring := slices.ContainsFunc(entries, isStage)
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == LockFile, name == RestoreStage:
		case restoring && (name == ServerDir || name == WatermarkFile): // it was killed as it moved them there
		default:
			return fmt.Errorf("%s holds %s: choose a directory that is empty, or not there yet", dir, name)
		}
	}
	return nil
}

func isStage(entry fs.DirEntry) bool { return entry.Name() == RestoreStage }

// BeginStage makes an empty folder for the restore, in place of what an earlier one has left.
func BeginStage(dir, stage string) error {
	for _, name := range []string{ServerDir, WatermarkFile, RestoreStage} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(stage, 0o700); err != nil {
		return err
	}
	return SyncDir(dir)
}

// refuseRestoring refuses to begin empty where a restore was killed.
func refuseRestoring(dir string, entries []fs.DirEntry) error {
	if slices.ContainsFunc(entries, isStage) {
		return fmt.Errorf("data directory %s is the remains of an interrupted restore: run weir restore again, or remove the directory to begin empty", dir)
	}
	return nil
}
