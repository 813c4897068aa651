package problem

import (
	"net/http"

	"github.com/weir-counter/weir/api"
)

// StatusOf maps every code that ends a request to its HTTP status, once. Codes
// that only single lines have are not here: they stand in `rejected`.
var StatusOf = map[api.Code]int{
	api.CodeInvalidKey:    http.StatusBadRequest,
	api.CodeReservedKey:   http.StatusBadRequest,
	api.CodeInvalidCount:  http.StatusBadRequest,
	api.CodeInvalidTime:   http.StatusBadRequest,
	api.CodeTooFarAhead:   http.StatusBadRequest,
	api.CodeInvalidWindow: http.StatusBadRequest,
	api.CodeInvalidRange:  http.StatusBadRequest,
	api.CodeInvalidLimit:  http.StatusBadRequest,
	api.CodeInvalidConfig: http.StatusInternalServerError,
	api.CodeNotHeld:       http.StatusServiceUnavailable,
	api.CodeNotFresh:      http.StatusServiceUnavailable,
	api.CodeClosed:        http.StatusServiceUnavailable,
	// The journal is behind, the memory of limits is full, or requests or bodies are
	// more than may be at once.
	api.CodeOverloaded: http.StatusServiceUnavailable,
	api.CodeOnceFull:   http.StatusServiceUnavailable,
	api.CodeKeyReused:  http.StatusUnprocessableEntity,

	api.CodeNothingCounted:      http.StatusBadRequest,
	api.CodeTooLate:             http.StatusUnprocessableEntity,
	api.CodeEmptyBody:           http.StatusBadRequest,
	api.CodeBodyTooLarge:        http.StatusRequestEntityTooLarge,
	api.CodeTooManyLines:        http.StatusRequestEntityTooLarge,
	api.CodeBodyTimeout:         http.StatusRequestTimeout,
	api.CodeBodyBroken:          http.StatusBadRequest,
	api.CodeUnsupportedType:     http.StatusUnsupportedMediaType,
	api.CodeUnsupportedEncoding: http.StatusUnsupportedMediaType,

	api.CodeInvalidIdempotencyKey: http.StatusBadRequest,
	api.CodeEphemeral:             http.StatusConflict,
	api.CodeNotDurable:            http.StatusServiceUnavailable,
	api.CodeDurableFull:           http.StatusServiceUnavailable,
	api.CodeNoHistory:             http.StatusServiceUnavailable,
	api.CodeBackupRunning:         http.StatusConflict,
	api.CodeRestoreRunning:        http.StatusConflict,
	api.CodeCountedTwice:          http.StatusConflict,
	api.CodeDamagedBackup:         http.StatusBadRequest,

	api.CodeMissingKey:       http.StatusBadRequest,
	api.CodeInvalidParameter: http.StatusBadRequest,
	api.CodeUnknownParameter: http.StatusBadRequest,
	api.CodeTooManyAnswers:   http.StatusBadRequest,
	api.CodeUnknownKey:       http.StatusNotFound,

	api.CodeInvalidJSON:  http.StatusBadRequest,
	api.CodeUnknownField: http.StatusBadRequest,
	api.CodeUnknownLimit: http.StatusNotFound,

	api.CodeInvalidPolicy:   http.StatusBadRequest,
	api.CodeVersionMismatch: http.StatusPreconditionFailed,
	api.CodePolicyInFile:    http.StatusConflict,
	api.CodePoliciesFull:    http.StatusConflict,
	api.CodeNoPoliciesAPI:   http.StatusConflict,

	api.CodeAtOnce:     http.StatusTooManyRequests,
	api.CodePermitLost: http.StatusConflict,

	api.CodeUnknownReservation: http.StatusNotFound,

	api.CodeUnknownDenial: http.StatusNotFound,
	api.CodeDenialGone:    http.StatusGone,
	api.CodeOtherNode:     http.StatusMisdirectedRequest,

	api.CodeUnknownNode: http.StatusNotFound,
	api.CodeNodeHere:    http.StatusConflict,
	api.CodeNoCluster:   http.StatusConflict,
	api.CodeNotRemoved:  http.StatusServiceUnavailable,

	api.CodeUnknownRegion: http.StatusNotFound,

	api.CodeUnauthorized: http.StatusUnauthorized,
	api.CodeForbidden:    http.StatusForbidden,
	api.CodeCeiling:      http.StatusTooManyRequests,

	api.CodeForbiddenOrigin:  http.StatusForbidden,
	api.CodeNotFound:         http.StatusNotFound,
	api.CodeMethodNotAllowed: http.StatusMethodNotAllowed,
	api.CodeStarting:         http.StatusServiceUnavailable,
	api.CodeStopping:         http.StatusServiceUnavailable,
	api.CodeJournalFailing:   http.StatusServiceUnavailable,
	api.CodeClientGone:       http.StatusRequestTimeout,
	api.CodeInternal:         http.StatusInternalServerError,
}

// passing are the codes of what is over soon, and of which nothing was counted: the same request
// may come again.
var passing = map[api.Code]bool{
	api.CodeNotHeld: true, api.CodeNotFresh: true, api.CodeOverloaded: true, api.CodeOnceFull: true, api.CodeDurableFull: true, api.CodeStarting: true,
}
