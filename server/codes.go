package server

import (
	"net/http"

	weir "github.com/weir-counter/weir"
)

// The codes that belong to the protocol; the engine's own are weir.Code values.
// Clients may branch on them: a code is never renamed.
const (
	// A body of hits.
	codeNothingCounted      weir.Code = "nothing_counted"      // every line was rejected
	codeTooLate             weir.Code = "too_late"             // every hit was older than the retention
	codeEmptyBody           weir.Code = "empty_body"           // no line at all
	codeBodyTooLarge        weir.Code = "body_too_large"       // more than MaxBodyBytes
	codeBodyTimeout         weir.Code = "body_timeout"         // the client took longer than ReadTimeout
	codeBodyBroken          weir.Code = "body_broken"          // it ended early or would not decompress
	codeUnsupportedType     weir.Code = "unsupported_type"     // a Content-Type that is not a body of hits
	codeUnsupportedEncoding weir.Code = "unsupported_encoding" // a Content-Encoding other than gzip and zstd

	// One line of it.
	codeInvalidLine  weir.Code = "invalid_line"  // not `key [n [at]]`
	codeInvalidJSON  weir.Code = "invalid_json"  // not JSON, or not an object
	codeUnknownField weir.Code = "unknown_field" // a field beside key, n and at
	codeLineTooLong  weir.Code = "line_too_long" // more than MaxLineBytes
	codeTooManyLines weir.Code = "too_many_lines"

	// A question.
	codeMissingKey       weir.Code = "missing_key"
	codeInvalidParameter weir.Code = "invalid_parameter" // a parameter outside what it may be
	codeUnknownParameter weir.Code = "unknown_parameter"
	codeTooManyAnswers   weir.Code = "too_many_answers" // keys times windows over MaxAnswers
	codeUnknownKey       weir.Code = "unknown_key"      // a delete of a key that is not there

	// Any request.
	codeNotFound         weir.Code = "not_found"
	codeMethodNotAllowed weir.Code = "method_not_allowed"
	codeOverloaded       weir.Code = "overloaded" // more than MaxInFlight requests
	codeStopping         weir.Code = "stopping"
	codeInternal         weir.Code = "internal"
)

// statusOf maps every code that ends a request to its HTTP status, once. Codes
// of single lines are not here: they stand in `rejected` and have no status.
var statusOf = map[weir.Code]int{
	weir.CodeInvalidKey:    http.StatusBadRequest,
	weir.CodeReservedKey:   http.StatusBadRequest,
	weir.CodeInvalidCount:  http.StatusBadRequest,
	weir.CodeInvalidTime:   http.StatusBadRequest,
	weir.CodeTooFarAhead:   http.StatusBadRequest,
	weir.CodeInvalidWindow: http.StatusBadRequest,
	weir.CodeInvalidRange:  http.StatusBadRequest,
	weir.CodeInvalidConfig: http.StatusInternalServerError,
	weir.CodeClosed:        http.StatusServiceUnavailable,

	codeNothingCounted:      http.StatusBadRequest,
	codeTooLate:             http.StatusUnprocessableEntity,
	codeEmptyBody:           http.StatusBadRequest,
	codeBodyTooLarge:        http.StatusRequestEntityTooLarge,
	codeBodyTimeout:         http.StatusRequestTimeout,
	codeBodyBroken:          http.StatusBadRequest,
	codeUnsupportedType:     http.StatusUnsupportedMediaType,
	codeUnsupportedEncoding: http.StatusUnsupportedMediaType,

	codeMissingKey:       http.StatusBadRequest,
	codeInvalidParameter: http.StatusBadRequest,
	codeUnknownParameter: http.StatusBadRequest,
	codeTooManyAnswers:   http.StatusBadRequest,
	codeUnknownKey:       http.StatusNotFound,

	codeNotFound:         http.StatusNotFound,
	codeMethodNotAllowed: http.StatusMethodNotAllowed,
	codeOverloaded:       http.StatusServiceUnavailable,
	codeStopping:         http.StatusServiceUnavailable,
	codeInternal:         http.StatusInternalServerError,
}
