package restore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir/cluster/lease"
	"github.com/weir-counter/weir/journal/stream"
)

// Lease is held by the one node of a cluster that restores a backup. Two at once
// would leave some hits of a merge cleared by the replacement, and others not.
const Lease = "restore"

// Claims is the right to restore a backup.
type Claims struct {
	Leases *lease.Bucket // nil: this node is alone
	Node   string        // its name
	Log    *slog.Logger

	here sync.Mutex // held while this node restores
}

// Claim makes this node the one that restores a backup, or returns an error that
// wraps ErrRestoring and names the node that does. The context that it returns ends with
// ctx, and when the claim is lost; free gives the claim back. A node that crashes keeps it
// for lease.DefaultTTL, unless it starts again and claims it itself.
func (c *Claims) Claim(ctx context.Context) (claimed context.Context, free func(), err error) {
	if !c.here.TryLock() {
		return nil, nil, fmt.Errorf("%w, by this node", ErrRestoring)
	}
	if c.Leases == nil {
		return ctx, c.here.Unlock, nil
	}
	var held lease.Lease
	err = stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		if held, err = c.Leases.Retake(ctx, Lease); errors.Is(err, lease.ErrTaken) {
			err = c.who(ctx)
		}
		return err
	})
	if err != nil {
		c.here.Unlock()
		return nil, nil, err
	}
	claimed, lose := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		held = c.renew(claimed, held, lose)
	}()
	return claimed, func() {
		lose(nil)
		<-ended
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), stream.AskTime)
		defer cancel()
		if err := c.Leases.Release(asking, held); err != nil {
			c.Log.Warn("journal: could not release the claim to restore a backup; it will expire", "error", err, "after", c.Leases.TTL())
		}
		c.here.Unlock()
	}, nil
}

// claimPoll is how often a start looks whether another node still restores a backup.
const claimPoll = time.Second

// Await is Claim once no other node restores a backup.
func (c *Claims) Await(ctx context.Context) (claimed context.Context, free func(), err error) {
	for told := false; ; told = true {
		claimed, free, err = c.Claim(ctx)
		if !errors.Is(err, ErrRestoring) {
			return claimed, free, err
		}
		if !told {
			c.Log.Info("journal: waits to write what this directory had as a node alone into the cluster's journal", "for", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(claimPoll):
		}
	}
}

// who is the error that names the node with the claim. If the replica that was asked
// knows none, or this node, the claim may be this node's own, of a request whose answer was
// lost: the error is then one after which RetryUnavailable claims again.
func (c *Claims) who(ctx context.Context) error {
	node, err := c.Leases.Who(ctx, Lease)
	if err != nil || node == "" || node == c.Node {
		return fmt.Errorf("%w, by a node that is not known yet: %w", ErrRestoring, nats.ErrTimeout)
	}
	return fmt.Errorf("%w, by node %s; retry once it is done, or %v after that node crashed", ErrRestoring, node, c.Leases.TTL())
}

// ErrClaimLost is why a restore ends before its time.
var ErrClaimLost = errors.New("the cluster could not be asked in time whether this node is still the one that restores a backup: send the backup again")

// renew renews the claim until ctx ends, and ends the restore before another node
// may have it.
func (c *Claims) renew(ctx context.Context, held lease.Lease, lose context.CancelCauseFunc) lease.Lease {
	tick := time.NewTicker(min(stream.AskTime, c.Leases.TTL()/6))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return held
		case <-tick.C:
		}
		asking, cancel := context.WithDeadline(ctx, held.Until)
		renewed, err := c.Leases.Renew(asking, held)
		cancel()
		switch {
		case err == nil:
			held = renewed
		case errors.Is(err, lease.ErrLost), !held.Valid(time.Now()):
			lose(fmt.Errorf("%w: %w", ErrClaimLost, err))
			return held
		}
	}
}
