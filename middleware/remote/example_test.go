package remote_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/middleware"
	"github.com/weir-counter/weir/middleware/remote"
)

// Two requests a minute for each client, over all processes that ask one Weir.
func Example() {
	weirAddr, stop := serveWeir() // such as 127.0.0.1:8080
	defer stop()

	c, err := client.New(weirAddr, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	decider, err := remote.New(c, remote.Options{
		Timeout: 5 * time.Second, // the default of 100 ms is for callers that wait
		Limits:  map[string]weir.Limit{"per-client": {N: 2, Per: time.Minute}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := middleware.New(middleware.Config{
		Decider: decider,
		Rules:   []middleware.Rule{{Limit: "per-client", Key: middleware.ByAddress(middleware.AddressOptions{})}},
		Fail:    middleware.FailOpen, // while Weir can't be reached
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	site := httptest.NewServer(limits.Wrap(hello))
	defer site.Close()

	for range 3 {
		answer, err := http.Get(site.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		answer.Body.Close()
		fmt.Println(answer.StatusCode, answer.Header.Get("RateLimit-Policy"), answer.Header.Get("Retry-After") != "")
	}
	// Output:
	// 200 "per-client";q=2;w=60 false
	// 200 "per-client";q=2;w=60 false
	// 429 "per-client";q=2;w=60 true
}

// serveWeir is `weir serve --ephemeral` within this test.
func serveWeir() (addr string, stop func()) {
	e, err := engine.New(engine.Config{})
	if err != nil {
		panic(err)
	}
	listener, err := newHandler(e, nil)
	if err != nil {
		panic(err)
	}
	s := httptest.NewServer(listener)
	return s.URL, func() {
		s.Close()
		e.Close()
	}
}
