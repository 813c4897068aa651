// Package datadir is a data directory as files: who may use it (the lock), what it
// is (the manifest), how far its journal was acknowledged (the watermark), and how it
// is filled in steps that a crash may end anywhere (the stage). dir.go draws it.
//
// Invariants: one process uses a directory at a time, and follows no symbolic link in
// it; the manifest is the old one or the new one after a crash, and an epoch is in it
// before the first batch of the epoch; a watermark never says more than what was
// acknowledged; a directory that is filled only in part is refused.
//
// It does not look into the files of the embedded server (packages join, stream).
// Package journal opens and closes it, package record has the error for damage.
package datadir
