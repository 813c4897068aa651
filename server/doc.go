// Package server is the HTTP door of a service: it takes hits, answers questions
// about them, decides by limits, and describes itself (/openapi.json, /docs,
// /metrics). It has routes, handlers, and what starts and stops them.
//
// The way of a hit: package ingest waits for the body, and package body reads it and gives hit after hit
// to the service. The way of a decision: package decide reads the body, service.Allow decides, and decide
// writes the verdict and its header fields, with nothing reflected on and little allocated.
//
// Questions go through huma, which checks parameters and writes the OpenAPI
// document from the parameters beside each handler and the answers of package api.
//
// Invariants. A request has a place of a pool while it is worked on, and never while the server
// waits for a small body of its client (guard.go, ingest/arrive.go). Every failure is a problem
// document. Whatever a client does, its connection moves with a pace or is closed.
//
// Neighbours: package service does all that is not HTTP; ingest, decide, body, conns, origin, problem,
// openapi and metrics are the parts of this door.
package server
