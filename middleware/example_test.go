package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/middleware"
)

// Two requests a minute for each client, decided in this process.
func Example() {
	engine, err := weir.New(weir.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	perClient, err := engine.Limit("per-client", weir.Limit{N: 2, Per: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := middleware.New(middleware.Config{
		Decider: middleware.Limits(engine, perClient),
		Rules:   []middleware.Rule{{Limit: "per-client", Key: middleware.ByAddress(middleware.AddressOptions{})}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	server := httptest.NewServer(limits.Wrap(mux))
	defer server.Close()

	for range 3 {
		answer, err := http.Get(server.URL + "/hello")
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

// Several limits, all or none: each user's by API key, or by address for those who have none,
// behind proxies in 10.0.0.0/8; and one for all together, where an export takes ten.
func ExampleNew() {
	engine, _ := weir.New(weir.Config{})
	defer engine.Close()
	perUser, _ := engine.Limit("per-user", weir.Limit{N: 10, Per: time.Minute})
	all, _ := engine.Limit("all", weir.Limit{N: 16, Per: time.Second})

	address := middleware.ByAddress(middleware.AddressOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	limits, err := middleware.New(middleware.Config{
		Decider: middleware.Limits(engine, perUser, all),
		Rules: []middleware.Rule{
			{Limit: "per-user", Key: middleware.FirstOf(middleware.ByHeader("X-Api-Key"), address)},
			{
				Limit: "all",
				Key:   middleware.ByFunc(func(*http.Request) (string, bool) { return "all", true }),
				Cost: func(r *http.Request) uint64 {
					if r.URL.Path == "/export" {
						return 10
					}
					return 1
				},
			},
		},
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, path := range []string{"/export", "/healthz"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = "10.0.0.1:4711"
		r.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.7") // the first one is what the client claims
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%s %q\n", path, w.Header().Values("RateLimit"))
	}
	fmt.Println(perUser.Keys(1)[0].Key)
	// Output:
	// /export ["\"per-user\";r=9;t=60, \"all\";r=6;t=1"]
	// /healthz []
	// address:203.0.113.7
}
