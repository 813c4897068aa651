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
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// Hold keeps a permit for longer than its ttl, and work learns of it when it is lost.
func TestHold(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte("limits:\n- {name: jobs, keys: \"job:*\", max: 1, ttl: 1s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := nodetest.Start(t, func(cfg *node.Config) { cfg.Policies.File = file })
	c, err := client.New(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	held := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for { // until the server has been up for a ttl
			err := c.Hold(t.Context(), "job:1", "", func(ctx context.Context) error {
				close(held)
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(2500 * time.Millisecond): // two and a half times the ttl
				}
				return nil
			})
			var denied *client.Error
			if errors.As(err, &denied) && denied.Code == api.CodeAtOnce {
				time.Sleep(denied.After / 20)
				continue
			}
			done <- err
			return
		}
	}()
	<-held
	if _, err := c.Acquire(t.Context(), "job:1", ""); !isCode(err, api.CodeAtOnce) {
		t.Errorf("a second one: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("it was lost: %v", err)
	}
	p, err := c.Acquire(t.Context(), "job:1", "jobs") // it was given back at once
	if err != nil || p.TTL != time.Second || p.Unmatched || !p.Until.After(time.Now()) {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := errors.Join(p.Heartbeat(t.Context()), p.Release(t.Context()), p.Release(t.Context())); err != nil {
		t.Error(err)
	}
	if err := p.Heartbeat(t.Context()); !errors.Is(err, client.ErrPermitLost) {
		t.Errorf("after the release: %v", err)
	}
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
