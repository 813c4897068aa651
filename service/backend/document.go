package backend

import (
	"context"
	"errors"
)

// Document is where one small document is kept that all nodes share.
type Document interface {
	// Read is the newest content, nil if there is none, and its revision.
	Read(ctx context.Context) (content []byte, revision uint64, err error)
	// Write puts content over that of a revision. It wraps ErrChanged if that is no longer the newest.
	Write(ctx context.Context, content []byte, over uint64) error
	// Follow calls look when another node may have written, until ctx ends.
	Follow(ctx context.Context, look func())
}

// ErrChanged is what a Document's Write returns if another has written since.
var ErrChanged = errors.New("it was changed meanwhile")
