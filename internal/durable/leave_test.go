package durable

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// A node that stops while the others elect a leader says so once they have: one that goes on
// alone later would else have to fear that it lacks hits. With nobody there it
// does not wait.
func TestTell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		elected time.Duration // from when on a flush is acknowledged
		others  bool
		fails   error
		wantErr bool
		took    time.Duration
	}{
		"at once":           {others: true},
		"after an election": {elected: 7 * time.Second, others: true, took: 7 * time.Second},
		"nobody there":      {elected: time.Hour, took: leaveTimeout, wantErr: true},
		"no quorum":         {elected: time.Hour, others: true, took: 10 * time.Second, wantErr: true},
		"the journal ended": {others: true, fails: errClosing, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				sync := func(ctx context.Context) error {
					if c.fails != nil {
						return c.fails
					}
					select {
					case <-time.After(c.elected - time.Since(began)):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				err := tell(ctx, leaveTimeout, sync, func() bool { return c.others })
				if (err != nil) != c.wantErr || c.fails != nil && !errors.Is(err, c.fails) {
					t.Error(err)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// The last node of a cluster to stop waits for nobody: all its hits are written, and nobody is there to store that it stops.
func TestTheLastNodeStopsSoon(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	for _, node := range c.nodes {
		node.hit("a", 1_000_000, 1)
	}
	c.agree(map[string]uint64{"a": 3})
	for i, node := range c.nodes {
		last := i == len(c.nodes)-1
		if last {
			transporttest.Eventually(t, "no other node is connected, and all is written", func() bool {
				return !node.j.server.Accompanied() && node.j.unwritten() == 0
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
		defer cancel()
		began := time.Now()
		if err := node.j.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); last && took > transporttest.Patience/2 {
			t.Errorf("it took %v", took)
		}
		c.nodes[i] = nil
	}
}
