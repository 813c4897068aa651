package node

import (
	"context"
	"errors"
)

// parts are what a node has opened, in order, each by how it is closed.
type parts []func(ctx context.Context) error

// opened adds a part.
func (p *parts) opened(closing func(ctx context.Context) error) { *p = append(*p, closing) }

// close closes the newest part first, all of them whatever becomes of one.
func (p *parts) close(ctx context.Context) (err error) {
	for len(*p) > 0 {
		last := len(*p) - 1
		newest := (*p)[last]
		*p = (*p)[:last]
		err = errors.Join(err, newest(ctx))
	}
	return err
}
