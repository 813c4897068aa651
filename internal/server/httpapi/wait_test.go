package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

// A client that hangs up while its request waits leaves the line.
func TestHangUpWhileWaiting(t *testing.T) {
	t.Parallel()
	e, live := policyEngine(t, engine.Config{Now: func() time.Time { return start }}, "limits:\n- {name: api, keys: \"api:*\", limit: 1, per: 5s, wait: 10s}\n")
	a := serveTestAPI(t, e, options{Backend: service.Backend{Policies: live}})
	ask := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v1/allow", strings.NewReader(`{"key":"api:POST"}`))
		if err != nil {
			t.Error(err)
			return nil
		}
		req.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(req)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	if err := ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting := func() int64 { return a.server.service.Pools.Waiting.Stats().InUse }
	ctx, hangUp := context.WithCancel(t.Context())
	hungUp := make(chan struct{})
	go func() {
		defer close(hungUp)
		_ = ask(ctx)
	}()
	transporttest.Eventually(t, "the request waits", func() bool {
		select {
		case <-hungUp: // the machine stood still for as long as it may wait
			return true
		default:
			return waiting() == 1
		}
	})
	hangUp()
	<-hungUp
	began := time.Now()
	transporttest.Eventually(t, "it does not wait any more", func() bool { return waiting() == 0 })
	t.Logf("%v after the client hung up", time.Since(began))
}
