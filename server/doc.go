// Package server speaks HTTP for an engine: it takes hits, answers questions
// about them, decides by limits, and describes itself (/openapi.json, /docs,
// /metrics).
//
// The way of a hit: ingest.go picks a reader for the body's encoding (body.go)
// and a splitter for its format (feed.go, elements.go), each record is parsed
// in place (text_hit.go, json_hit.go) and given to service.Hit; a service.Tally
// keeps what became of it. Nothing on that way allocates per record. A body with
// an Idempotency-Key is read as a whole first (whole.go), and is counted once
// however often it comes (once.go); a durable one is answered when the journal
// has it on disk (Service.Sync).
//
// The way of a decision: allow_parse.go reads the body, package policy finds and
// asks the limits, ratelimit_fields.go and allow_answer.go write what they say.
// There too nothing is reflected on, and little allocated.
//
// Questions go through huma, which checks parameters and writes the OpenAPI
// document from the parameters beside each handler and the answers of package api. Every failure is a problem
// document (RFC 9457) with a stable code; codes.go maps each code to its status.
package server
