// Package ingest is the route of HTTP by which hits come, POST /v1/hits: its parameters, the places that its bodies hold while they
// arrive and are counted, the answer, and what the OpenAPI document says of it.
//
// Invariants: a body that arrives slowly keeps nobody else out; of one that breaks off nothing is counted; nobody waits for the
// disk with a place of the hits.
//
// Neighbours: package body parses, package service counts, package pace cuts slow senders off.
package ingest
