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
	codeTooManyLines        weir.Code = "too_many_lines"       // more than MaxBatch
	codeBodyTimeout         weir.Code = "body_timeout"         // the client took longer than ReadTimeout
	codeBodyBroken          weir.Code = "body_broken"          // it ended early or would not decompress
	codeUnsupportedType     weir.Code = "unsupported_type"     // a Content-Type that is not a body of hits
	codeUnsupportedEncoding weir.Code = "unsupported_encoding" // a Content-Encoding other than gzip and zstd

	codeInvalidIdempotencyKey weir.Code = "invalid_idempotency_key" // an Idempotency-Key that is not one
	codeEphemeral             weir.Code = "ephemeral"               // durable=true without a journal
	codeNotDurable            weir.Code = "not_durable"             // counted, but not on disk in time
	codeDurableFull           weir.Code = "durable_full"            // not counted: too many wait for the disk

	// One line of it.
	codeInvalidLine  weir.Code = "invalid_line"  // not `key [n [at]]`
	codeInvalidJSON  weir.Code = "invalid_json"  // not JSON, or not an object
	codeUnknownField weir.Code = "unknown_field" // a field beside key, n and at
	codeLineTooLong  weir.Code = "line_too_long" // more than MaxLineBytes

	// A question.
	codeMissingKey       weir.Code = "missing_key"
	codeInvalidParameter weir.Code = "invalid_parameter" // a parameter outside what it may be
	codeUnknownParameter weir.Code = "unknown_parameter"
	codeTooManyAnswers   weir.Code = "too_many_answers" // keys times windows over MaxAnswers
	codeUnknownKey       weir.Code = "unknown_key"      // a delete of a key that is not there

	// A decision of a limit. What is wrong with its body has the codes of lines.
	codeUnknownLimit weir.Code = "unknown_limit" // there is no policy of that name

	codeBackupRunning  weir.Code = "backup_running"  // one at a time
	codeRestoreRunning weir.Code = "restore_running" // one at a time
	codeCountedTwice   weir.Code = "counted_twice"   // hits of a backup that is to be merged are here already
	codeDamagedBackup  weir.Code = "damaged_backup"

	// The removal of a node.
	codeUnknownNode weir.Code = "unknown_node"
	codeNodeHere    weir.Code = "node_here"   // it is alive
	codeNoCluster   weir.Code = "no_cluster"  // this server counts alone
	codeNotRemoved  weir.Code = "not_removed" // no quorum, or not in time

	// Any request.
	codeForbiddenOrigin  weir.Code = "forbidden_origin" // a page of another site sent it, or it is for a host that is not this server's
	codeNotFound         weir.Code = "not_found"
	codeMethodNotAllowed weir.Code = "method_not_allowed"
	codeStarting         weir.Code = "starting" // not ready: it joins, or reads its journal
	codeStopping         weir.Code = "stopping"
	codeJournalFailing   weir.Code = "journal_failing" // not ready: hits do not reach the disk
	codeClientGone       weir.Code = "client_gone"     // while other nodes were asked: nobody reads it
	codeInternal         weir.Code = "internal"
)

// statusOf maps every code that ends a request to its HTTP status, once. Codes
// that only single lines have are not here: they stand in `rejected`.
var statusOf = map[weir.Code]int{
	weir.CodeInvalidKey:    http.StatusBadRequest,
	weir.CodeReservedKey:   http.StatusBadRequest,
	weir.CodeInvalidCount:  http.StatusBadRequest,
	weir.CodeInvalidTime:   http.StatusBadRequest,
	weir.CodeTooFarAhead:   http.StatusBadRequest,
	weir.CodeInvalidWindow: http.StatusBadRequest,
	weir.CodeInvalidRange:  http.StatusBadRequest,
	weir.CodeInvalidLimit:  http.StatusBadRequest,
	weir.CodeInvalidConfig: http.StatusInternalServerError,
	weir.CodeNotHeld:       http.StatusServiceUnavailable,
	weir.CodeNotFresh:      http.StatusServiceUnavailable,
	weir.CodeClosed:        http.StatusServiceUnavailable,
	// The journal is behind, the memory of limits is full, or requests or bodies are
	// more than may be at once.
	weir.CodeOverloaded: http.StatusServiceUnavailable,
	weir.CodeOnceFull:   http.StatusServiceUnavailable,
	weir.CodeKeyReused:  http.StatusUnprocessableEntity,

	codeNothingCounted:      http.StatusBadRequest,
	codeTooLate:             http.StatusUnprocessableEntity,
	codeEmptyBody:           http.StatusBadRequest,
	codeBodyTooLarge:        http.StatusRequestEntityTooLarge,
	codeTooManyLines:        http.StatusRequestEntityTooLarge,
	codeBodyTimeout:         http.StatusRequestTimeout,
	codeBodyBroken:          http.StatusBadRequest,
	codeUnsupportedType:     http.StatusUnsupportedMediaType,
	codeUnsupportedEncoding: http.StatusUnsupportedMediaType,

	codeInvalidIdempotencyKey: http.StatusBadRequest,
	codeEphemeral:             http.StatusConflict,
	codeNotDurable:            http.StatusServiceUnavailable,
	codeDurableFull:           http.StatusServiceUnavailable,
	codeBackupRunning:         http.StatusConflict,
	codeRestoreRunning:        http.StatusConflict,
	codeCountedTwice:          http.StatusConflict,
	codeDamagedBackup:         http.StatusBadRequest,

	codeMissingKey:       http.StatusBadRequest,
	codeInvalidParameter: http.StatusBadRequest,
	codeUnknownParameter: http.StatusBadRequest,
	codeTooManyAnswers:   http.StatusBadRequest,
	codeUnknownKey:       http.StatusNotFound,

	codeInvalidJSON:  http.StatusBadRequest,
	codeUnknownField: http.StatusBadRequest,
	codeUnknownLimit: http.StatusNotFound,

	codeUnknownNode: http.StatusNotFound,
	codeNodeHere:    http.StatusConflict,
	codeNoCluster:   http.StatusConflict,
	codeNotRemoved:  http.StatusServiceUnavailable,

	codeForbiddenOrigin:  http.StatusForbidden,
	codeNotFound:         http.StatusNotFound,
	codeMethodNotAllowed: http.StatusMethodNotAllowed,
	codeStarting:         http.StatusServiceUnavailable,
	codeStopping:         http.StatusServiceUnavailable,
	codeJournalFailing:   http.StatusServiceUnavailable,
	codeClientGone:       http.StatusRequestTimeout,
	codeInternal:         http.StatusInternalServerError,
}
