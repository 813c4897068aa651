package restore

import (
	"context"
	"errors"

	"github.com/weir-counter/weir/cluster/document"
	"github.com/weir-counter/weir/policy/kept"
)

// Policies restores the policies of a backup that were put by API: with replace in place of those that are there, else beside them.
func Policies(ctx context.Context, to *document.Document, backup []byte, replace bool) error {
	from, err := kept.Read(backup)
	if err != nil {
		return err
	}
	for {
		data, revision, err := to.Read(ctx)
		if err != nil {
			return err
		}
		have, err := kept.Read(data)
		if err != nil {
			return err
		}
		if len(from.Policies) == 0 && (!replace || len(have.Policies) == 0) {
			return nil
		}
		next, err := have.Restore(from, replace)
		if err != nil {
			return err
		}
		if err = to.Write(ctx, next.Bytes(), revision); !errors.Is(err, document.ErrChanged) {
			return err
		}
	}
}
