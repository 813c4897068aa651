package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// Hold keeps a permit for longer than its ttl, and work learns of it when it is lost.
func TestHold(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte("limits:\n- {name: jobs, keys: \"job:*\", max: 1, ttl: 1s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := nodetest.Start(t, func(cfg *node.Config) { cfg.Policies.File = file })
	c, err := client.New(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Not before the server has been up for a ttl; and a machine that does other things may need longer than that for a request.
	transporttest.Eventually(t, "it is held for two and a half times the ttl, and given back at once", func() bool {
		var second error
		err := c.Hold(t.Context(), "job:1", "", func(ctx context.Context) error {
			_, second = c.Acquire(ctx, "job:1", "")
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(5 * ttl / 2):
			}
			return nil
		})
		switch {
		case isCode(err, api.CodeAtOnce) || errors.Is(err, client.ErrPermitLost):
			return false
		case err != nil || !isCode(second, api.CodeAtOnce):
			t.Fatalf("%v; a second one: %v", err, second)
		}
		began := time.Now()
		p, err := c.Acquire(t.Context(), "job:1", "jobs")
		if err == nil {
			if p.TTL != ttl || p.Unmatched {
				t.Fatalf("%+v", p)
			}
			err = errors.Join(p.Heartbeat(t.Context()), p.Release(t.Context()), p.Release(t.Context()))
		}
		if err != nil {
			if !isCode(err, api.CodeAtOnce) && time.Since(began) < ttl {
				t.Fatalf("%+v, %v", p, err)
			}
			return false
		}
		if err := p.Heartbeat(t.Context()); !errors.Is(err, client.ErrPermitLost) {
			t.Errorf("after the release: %v", err)
		}
		return true
	})
	err = c.Hold(t.Context(), "job:2", "jobs", func(ctx context.Context) error {
		nodetest.Close(t, n)
		<-ctx.Done() // no heartbeat is answered any more
		return context.Cause(ctx)
	})
	if !errors.Is(err, client.ErrPermitLost) {
		t.Errorf("without a server: %v", err)
	}
}

func isCode(err error, code api.Code) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Code == code
}
