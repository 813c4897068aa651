// Package decide is the routes of HTTP by which limits are decided: POST and GET /v1/allow, and /v1/forward-auth, and given back, POST /v1/refund, or reserved, POST /v1/reserve, with what the
// OpenAPI document says of them.
//
// Invariant: a decision by POST allocates nothing of its own but for what net/http needs: its memory is pooled. A large
// body takes a place before it is read, a small one does not.
//
// Neighbours: package server identifies callers and measures routes; package body parses; package service decides.
package decide
