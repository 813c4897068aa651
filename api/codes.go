// Package api is what Weir says over HTTP: the JSON types of requests and answers, the codes of failures and the
// problem document. The server that writes them and the client that reads them share it.
//
// Its types know only their spelling: Time is Unix seconds, Period a text of seconds, and an upper bound that nobody
// knows is null. Tags `doc`, `example`, `enum` and the like are what the server's OpenAPI document says; nothing here
// reads them. The name of a type is the name of its schema there.
//
// A field that answers may lack has omitempty; no code and no field is ever renamed, and answers may gain fields. The
// package imports the standard library and the spelling of times alone, so that a program with the client compiles
// nothing else.
package api

import (
	"time"
)

// Code names one kind of failure. Clients may branch on codes: one is never renamed,
// and every protocol maps each exactly once.
type Code string

// The codes of packages weir and engine.
const (
	CodeInvalidKey    Code = "invalid_key"      // a key that is empty or longer than MaxKeyBytes
	CodeReservedKey   Code = "reserved_key"     // a hit or a delete on AllKeys
	CodeInvalidCount  Code = "invalid_count"    // a hit of n = 0
	CodeInvalidTime   Code = "invalid_time"     // a time before 1970 or after window.MaxTime
	CodeTooFarAhead   Code = "too_far_ahead"    // a hit beyond the engine's clock plus MaxAhead
	CodeInvalidWindow Code = "invalid_window"   // a window that is not whole seconds within 1 s to 1e9 s
	CodeInvalidRange  Code = "invalid_range"    // a series or page with impossible limits
	CodeInvalidLimit  Code = "invalid_limit"    // a limit outside its bounds
	CodeInvalidConfig Code = "invalid_config"   // a Config field outside its bounds
	CodeOverloaded    Code = "overloaded"       // hits wait for the journal and MaxWaiting is reached: retry later
	CodeOnceFull      Code = "idempotency_full" // OnceMemory has no space for one more idempotency key
	CodeKeyReused     Code = "key_reused"       // an idempotency key that came with other content before
	CodeNotHeld       Code = "not_held"         // a question about a partition that another node's engine holds
	CodeNotFresh      Code = "not_fresh"        // newer hits of other nodes did not arrive while a question waited for them
	CodeClosed        Code = "closed"           // the engine was closed
)

// The codes of requests.
const (
	// A body of hits.
	CodeNothingCounted      Code = "nothing_counted"      // every line was rejected
	CodeTooLate             Code = "too_late"             // every hit was older than the retention
	CodeEmptyBody           Code = "empty_body"           // no line at all
	CodeBodyTooLarge        Code = "body_too_large"       // more than MaxBodyBytes
	CodeTooManyLines        Code = "too_many_lines"       // more than MaxBatch
	CodeBodyTimeout         Code = "body_timeout"         // the client took longer than ReadTimeout
	CodeBodyBroken          Code = "body_broken"          // it ended early or would not decompress
	CodeUnsupportedType     Code = "unsupported_type"     // a Content-Type that is not a body of hits
	CodeUnsupportedEncoding Code = "unsupported_encoding" // a Content-Encoding other than gzip and zstd

	CodeInvalidIdempotencyKey Code = "invalid_idempotency_key" // an Idempotency-Key that is not one
	CodeEphemeral             Code = "ephemeral"               // durable=true without a journal
	CodeNotDurable            Code = "not_durable"             // counted, but not on disk in time
	CodeDurableFull           Code = "durable_full"            // not counted: too many wait for the disk

	// One line of a body of hits.
	CodeInvalidLine  Code = "invalid_line"  // not `key [n [at]]`
	CodeInvalidJSON  Code = "invalid_json"  // not JSON, or not an object
	CodeUnknownField Code = "unknown_field" // a field other than key, n and at
	CodeLineTooLong  Code = "line_too_long" // more than MaxLineBytes

	// A question.
	CodeMissingKey       Code = "missing_key"
	CodeInvalidParameter Code = "invalid_parameter" // a parameter outside its bounds
	CodeUnknownParameter Code = "unknown_parameter"
	CodeTooManyAnswers   Code = "too_many_answers" // keys times windows over MaxAnswers
	CodeUnknownKey       Code = "unknown_key"      // a delete of a key that is not there

	// A decision of a limit. What is wrong with its body has the codes of lines.
	CodeUnknownLimit     Code = "unknown_limit"     // no policy has this name
	CodeOwnerUnreachable Code = "owner_unreachable" // the node that decides for the key did not answer: not known whether it is over the limit

	// A policy that is put by API.
	CodeInvalidPolicy   Code = "invalid_policy"   // a policy that a policy file could not have
	CodeVersionMismatch Code = "version_mismatch" // the policy has another version than the change requires
	CodePolicyInFile    Code = "policy_in_file"   // the policy file has a policy of this name, which takes precedence
	CodePoliciesFull    Code = "policies_full"    // there is no space for another policy
	CodeNoPoliciesAPI   Code = "policies_api_off" // this server takes no policies by API

	// A permit of a concurrency limit.
	CodeAtOnce     Code = "at_once"     // all permits are held
	CodePermitLost Code = "permit_lost" // the permit is not held, or no longer

	CodeUnknownReservation Code = "unknown_reservation" // the reservation has ended, or this node does not know it

	// Why a decision was a denial.
	CodeUnknownDenial Code = "unknown_denial" // no denial has that ID, or the caller may not read it
	CodeDenialGone    Code = "denial_gone"    // newer denials took its place
	CodeOtherNode     Code = "other_node"     // another node keeps it: ask that one
	CodeNoHistory     Code = "no_history"     // this server keeps none, or its database is away

	CodeBackupRunning  Code = "backup_running"  // one at a time
	CodeRestoreRunning Code = "restore_running" // one at a time
	CodeCountedTwice   Code = "counted_twice"   // hits of a backup that is to be merged are here already
	CodeDamagedBackup  Code = "damaged_backup"

	// The removal of a node.
	CodeUnknownNode Code = "unknown_node"
	CodeNodeHere    Code = "node_here"   // it is alive
	CodeNoCluster   Code = "no_cluster"  // this server counts alone
	CodeNotRemoved  Code = "not_removed" // no quorum, or not in time

	CodeUnknownRegion Code = "unknown_region" // no region has this name

	// The caller.
	CodeUnauthorized Code = "unauthorized"    // no token, or one that is not known or has expired
	CodeForbidden    Code = "forbidden"       // the caller has no role for this, or not for this key or limit
	CodeCeiling      Code = "ceiling_reached" // the caller's own ceiling, as the tokens file has it: retry later

	// Any request.
	CodeForbiddenOrigin  Code = "forbidden_origin" // a page of another site sent it, or it is for a host that is not this server's
	CodeNotFound         Code = "not_found"
	CodeMethodNotAllowed Code = "method_not_allowed"
	CodeStarting         Code = "starting" // not ready: it joins, or reads its journal
	CodeStopping         Code = "stopping"
	CodeJournalFailing   Code = "journal_failing" // not ready: hits do not reach the disk
	CodeClientGone       Code = "client_gone"     // the client closed the connection while other nodes were asked
	CodeInternal         Code = "internal"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// Problem is the body of every answer that is not a success: an RFC 9457
// document of the type about:blank, so Title is the phrase of the status.
type Problem struct {
	Title  string `json:"title" example:"Bad Request"`
	Status int    `json:"status" example:"400"`
	Code   Code   `json:"code" example:"invalid_window" doc:"Stable name of the failure, to branch on."`
	Detail string `json:"detail" doc:"What went wrong and what to do."`
	Field  string `json:"field,omitempty" example:"window" doc:"The parameter or setting at fault."`
	// Missing is set in problems of fresh questions.
	Missing []string `json:"missing,omitempty" doc:"not_fresh: the nodes whose newer hits may be missing."`
	Alarms  []Alarm  `json:"alarms,omitempty" doc:"All current alarms, in a 503 of /readyz."`
	// HitsAnswer is set in problems of POST /v1/hits only.
	*HitsAnswer
}

// Error is why a request failed: all parts of a server fail with this type, and each listener maps its code to its protocol
// once. Its message names nothing that the caller may not know.
type Error struct {
	Code    Code
	Field   string   // the parameter at fault, may be empty
	Message string   // what went wrong and what to do about it
	Missing []string // of CodeNotFresh: the nodes whose newer hits may be missing

	// RetryAfter is set with CodeCeiling: when the next request may pass.
	RetryAfter time.Duration

	// Hits is what became of the hits of a request; nil: none of them was read, or it had none.
	Hits *HitsAnswer
}

func (e *Error) Error() string { return e.Message }

// Alarm is something that is wrong now. It is there for as long as its cause.
type Alarm struct {
	Code     string `json:"code" doc:"Stable error code, to branch on."`
	Message  string `json:"message" doc:"What is wrong and what to do."`
	Refusing bool   `json:"refusing,omitempty" doc:"Hits are better off at another node: /readyz is 503."`
}

// Ready is what /readyz answers when requests may be sent.
type Ready struct {
	Status     string  `json:"status"` // ok or degraded
	Alarms     []Alarm `json:"alarms,omitempty"`
	*Freshness         // nil: no cluster
}
