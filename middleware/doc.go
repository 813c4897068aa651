// Package middleware puts limits in front of the handlers of net/http.
//
//	perClient, err := engine.Limit("per-client", weir.Limit{N: 100, Per: time.Minute})
//	m, err := middleware.New(middleware.Config{
//		Decider: middleware.Limits(engine, perClient),
//		Rules:   []middleware.Rule{{Limit: "per-client", Key: middleware.ByAddress(middleware.AddressOptions{})}},
//	})
//	http.Handle("/", m.Wrap(handler))
//
// Each request is decided by all rules of the Middleware, all or none. What is within
// goes on to the handler, with the fields RateLimit-Policy and RateLimit in the answer;
// what is not gets 429 with Retry-After and a problem document (RFC 9457). Other routes
// get other limits by another Middleware around them, of the same Decider if you like.
//
// The package compiles the engine and the standard library. Limits decides in this
// process; package middleware/policies by a file of policies in this process, and
// package middleware/remote by a Weir server.
package middleware
