// Package openapi describes the HTTP API: the OpenAPI document, the page that shows it, and
// the questions, whose parameters huma reads and checks by what the document says of them.
//
// Its invariants: the document is written from the types of package api, so that it says what
// answers have; what huma finds wrong is answered by a problem of ours. Neighbours: package
// server registers its operations here, and those that huma would slow down beside it.
package openapi
