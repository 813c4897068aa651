// Package metrics is what Prometheus scrapes: the figures of a service and of the HTTP server
// that it is asked through. It is a door of its own kind, which asks for nothing but figures.
//
// Its invariants: a scrape waits a second at most for other nodes; the number of
// series is bounded by routes, pools, policies and nodes, and that of keys is 1,000 (keys.go). A file has one source, which is read
// once per scrape (figures.go). Neighbours: package server answers /metrics with it.
package metrics
