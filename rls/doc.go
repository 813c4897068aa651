// Package rls is the door for Envoy: its rate limit service v3 by gRPC, with the configuration of
// envoyproxy/ratelimit (internal/rlsconfig), and the same service as Kuadrant calls it.
//
// Invariants. All descriptors of a request are decided by one call of service.Allow, all or none: one that
// is denied leaves what the others have. Who calls is found out for each request: its token, else
// the certificate of its connection.
//
// Neighbours: service decides; node opens and runs it.
package rls
