package offline

import (
	"context"
	"path/filepath"

	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/restore"
)

// Finish merges what a directory had into the cluster's journal, and returns when
// that is done: step 4 of a cluster follows.
func Finish(ctx context.Context, to *restore.Target) error {
	s, err := backup.CheckSpool(ctx, filepath.Join(to.Dir, CarriedFile))
	if err != nil {
		return err
	}
	ctx, free, err := to.Claims.Await(ctx)
	if err != nil {
		return err
	}
	defer free()
	if _, err := to.Spool(ctx, s, restore.Merge); err != nil {
		return err
	}
	return clearAway(to.Dir)
}

// Claim refuses a cluster that has grown from another directory than this one, whose hits are
// to be merged into its journal.
func Claim(ctx context.Context, merges *restore.Merges, dir string) error {
	path := filepath.Join(dir, CarriedFile)
	b, err := (&backup.Spool{Path: path}).Open()
	if err != nil {
		return err
	}
	defer b.Close()
	return merges.ClaimGrown(ctx, b.Info.Journal, path)
}
