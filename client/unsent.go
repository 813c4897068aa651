package client

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// unsentError is that of a request of which nothing left: no connection could be made.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// neverSent tells whether err of a request came before any of it left.
func neverSent(err error) bool {
	var unsent unsentError
	return errors.As(err, &unsent)
}

// sending is whether a request may have left.
type sending struct {
	maybe  atomic.Bool
	traced bool
}

// watch notes whether the request of a context gets a connection: one that waits in vain for a node
// which takes none ends like one whose answer got lost.
func (c *Client) watch(ctx context.Context) (context.Context, *sending) {
	s := &sending{traced: c.traced}
	if !c.traced {
		s.maybe.Store(true)
		return ctx, s
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { s.maybe.Store(true) },
	}), s
}

// judge marks the error of a request that never left. That a connection could not be made says so only of
// a transport that is not watched, and that was not let repeat the request (once): it may be the second one.
func (s *sending) judge(err error) error {
	var op *net.OpError
	if !s.maybe.Load() || !s.traced && errors.As(err, &op) && op.Op == "dial" {
		return unsentError{err}
	}
	return err
}

// mayHaveCounted tells whether the request of hits that err ended may have counted: it left, and
// no Weir server said that it counted nothing.
func mayHaveCounted(err error) bool {
	var refused *Error
	if errors.As(err, &refused) {
		return !refused.tookNothing()
	}
	return err != nil && !neverSent(err)
}
