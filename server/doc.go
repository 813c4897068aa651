// Package server is the HTTP door of a service: it takes hits, answers questions
// about them, decides by limits, and describes itself (/openapi.json, /docs,
// /metrics). It has routes, handlers, and what starts and stops them.
//
// The way of a hit: takeHits (hits.go) waits for the body (arrive.go, whole.go), and package
// body reads it and gives hit after hit to the service. The way of a decision: allow.go reads
// the body, service.Allow decides, allow_answer.go writes the verdict and its header fields, with
// nothing reflected on and little allocated.
//
// Questions go through huma, which checks parameters and writes the OpenAPI
// document from the parameters beside each handler and the answers of package api.
//
// Invariants. A request has a place of a pool while it is worked on, and never while the server
// waits for a small body of its client (guard.go, arrive.go). Every failure is a problem
// document. Whatever a client does, its connection moves with a pace or is closed.
//
// Neighbours: package service does all that is not HTTP; body, conns, origin, problem, openapi
// and metrics are the parts of this door.
package server
