// Package api is what Weir says over HTTP: the JSON types of requests and answers, the
// codes of failures and the problem document, once, for the server that writes them and
// the client that reads them.
//
// Its types hold no behaviour but their spelling: Time is Unix seconds, Period a text of
// seconds, and an upper bound that nobody knows is null. Tags `doc`, `example`, `enum`
// and the like are what the server's OpenAPI document says; nothing here reads them. The
// name of a type is the name of its schema there.
//
// A field that answers may lack has omitempty; no code and no field is ever renamed, and
// answers may gain fields. The package imports the standard library alone, beside the
// spelling of times, so that a program with the client compiles nothing else.
package api
