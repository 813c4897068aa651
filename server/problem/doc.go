// Package problem writes failures over HTTP: problem documents (RFC 9457) with a stable
// code, each mapped to its status once (codes.go).
//
// Its invariant: whatever fails, huma's checks included, is answered by a Problem. Neighbours:
// the other packages of the HTTP door, which make them of errors of package service.
package problem
