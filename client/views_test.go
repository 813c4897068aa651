package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/node/nodetest"
)

// Views come again and again, until who looks leaves; a server that refuses says why.
func TestWatch(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nil)
	c, err := client.New(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	left := errors.New("seen enough")
	ctx, leave := context.WithCancelCause(t.Context())
	seen := 0
	err = c.WatchOverview(ctx, client.OverviewQuery{Window: time.Minute, N: 3, Prefix: "a"}, func(view api.OverviewAnswer) {
		switch seen++; {
		case seen == 1:
			if err := n.Engine().Hit("a:b"); err != nil {
				t.Error(err)
			}
		case len(view.Keys) == 1 && view.Keys[0].Key == "a:b" && view.WindowSeconds == 60:
			leave(left)
		}
	})
	if !errors.Is(err, left) || seen < 2 {
		t.Errorf("%d views, then %v", seen, err)
	}
	once := func(watch func(ctx context.Context, stop func()) error) {
		t.Helper()
		ctx, leave := context.WithCancelCause(t.Context())
		if err := watch(ctx, func() { leave(left) }); !errors.Is(err, left) {
			t.Error(err)
		}
	}
	once(func(ctx context.Context, stop func()) error {
		return c.WatchKey(ctx, "a:b", time.Minute, func(view api.KeyAnswer) {
			if view.Counts[0].Estimate != 1 {
				t.Errorf("%+v", view)
			}
			stop()
		})
	})
	once(func(ctx context.Context, stop func()) error {
		return c.WatchNodes(ctx, func(view api.NodesView) {
			if view.Stats.Hits != 1 {
				t.Errorf("%+v", view.Stats)
			}
			stop()
		})
	})
	var refused *client.Error
	if err := c.WatchLimits(t.Context(), "none", 0, nil); !errors.As(err, &refused) || refused.Code != "unknown_limit" {
		t.Error(err)
	}
}

// What is no stream of views, and one that is cut, end with an error.
func TestWatchWhatIsNoServer(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"cut": "event: view\ndata: {}\n\n", "problem": "event: problem\ndata: {\"status\":401,\"code\":\"unauthorized\"}\n\n", "no JSON": "event: view\ndata: {\n\n"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		c, err := client.New(server.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WatchNodes(t.Context(), func(api.NodesView) {}); err == nil {
			t.Errorf("%s: no error", name)
		}
		server.Close()
	}
}
