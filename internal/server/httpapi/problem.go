package httpapi

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/service/request"
)

// Whatever fails, also in huma's checks, is answered by a Problem: a document of RFC 9457 with a stable code, which
// maps to one status.

// Problem is an api.Problem that huma and handlers write.
type Problem struct {
	api.Problem
	retryAfter time.Duration // of CodeCeiling

	// BearerAlone is of CodeUnauthorized: only a token is asked for, not a password.
	BearerAlone bool `json:"-"`
}

// NewProblem is the problem of a code. detail says what went wrong and what to do about it; field is the
// parameter at fault, or "".
func NewProblem(code api.Code, field, detail string) *Problem {
	status, known := StatusOf[code]
	if !known {
		status = http.StatusInternalServerError
	}
	return &Problem{Problem: api.Problem{Title: http.StatusText(status), Status: status, Code: code, Field: field, Detail: detail}}
}

// Error, GetStatus and ContentType make a problem an error that huma writes.
func (p *Problem) Error() string             { return p.Detail }
func (p *Problem) GetStatus() int            { return p.Status }
func (p *Problem) ContentType(string) string { return api.ProblemType }

// GetHeaders are the fields of a problem's answer: when to ask again, where that is known, and how to say who asks.
func (p *Problem) GetHeaders() http.Header {
	switch {
	case passing[p.Code]:
		return http.Header{"Retry-After": {"1"}}
	case p.Code == api.CodeCeiling, p.Code == api.CodeAtOnce:
		return http.Header{"Retry-After": {ratelimitfields.RetryAfter(max(p.retryAfter, time.Second))}}
	case p.Status == http.StatusUnauthorized && p.BearerAlone:
		return http.Header{"Www-Authenticate": {`Bearer realm="weir"`}}
	case p.Status == http.StatusUnauthorized: // the second is for browsers, which ask their user: the password is the token
		return http.Header{"Www-Authenticate": {`Bearer realm="weir"`, `Basic realm="weir", charset="UTF-8"`}}
	}
	return nil
}

// ProblemOf turns an error of the service or the engine into the problem it stands for.
func ProblemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	e := request.As(err)
	p := NewProblem(e.Code, e.Field, e.Message)
	p.Missing, p.HitsAnswer, p.retryAfter = e.Missing, e.Hits, e.RetryAfter
	return p
}

// ProblemOfProxy is the ProblemOf an error for the client of a proxy that asked. That client can do nothing about a
// fault in the proxy's settings, which it sees as a server's error.
func ProblemOfProxy(err error) *Problem {
	p := ProblemOf(err)
	switch {
	case p.Code == api.CodeCeiling, p.Code == api.CodeAtOnce:
		p.Status = http.StatusServiceUnavailable
	case p.Status < http.StatusInternalServerError:
		p.Status = http.StatusInternalServerError
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// writeJSON answers with made.
func writeJSON(w http.ResponseWriter, made any) {
	w.Header()["Content-Type"] = jsonType
	_ = json.NewEncoder(w).Encode(made) // a client that left is not an error of ours
}

// RetrySoon says that the same request may succeed in a second.
func RetrySoon(h http.Header) { h.Set("Retry-After", "1") }

func (p *Problem) Write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		// Strings and numbers only: unreachable, and there is nobody to tell.
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", api.ProblemType)
	h.Set("X-Content-Type-Options", "nosniff")
	maps.Copy(h, p.GetHeaders())
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that left is not an error of ours
}

// TransformSchema implements huma.SchemaTransformer: the members of hits are not in every problem.
func (*Problem) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Required = []string{"title", "status", "code", "detail"}
	return s
}

// FromHuma makes a problem of what huma found wrong with a request of an operation, before any handler of ours ran.
func FromHuma(op *huma.Operation, status int, message string, errs []error) *Problem {
	if status >= http.StatusInternalServerError {
		return NewProblem(api.CodeInternal, "", "the server failed to answer; its log says why")
	}
	code, field, details := api.CodeInvalidParameter, "", make([]string, 0, len(errs))
	for _, err := range errs {
		var d huma.ErrorDetailer
		if !errors.As(err, &d) {
			details = append(details, err.Error())
			continue
		}
		detail := d.ErrorDetail()
		if field == "" {
			field = strings.TrimPrefix(detail.Location, "query.")
			switch {
			case detail.Message == "unknown query parameter":
				code = api.CodeUnknownParameter
			case field == "key" && strings.HasPrefix(detail.Message, "required"):
				code = api.CodeMissingKey
			}
		}
		if detail.Location == "body.used" && detail.Message == validation.MsgExpectedMatchExactlyOneSchema {
			detail.Message = `write a whole number, 0 or more, or one for each cost, such as {"tokens":200,"requests":1}`
		}
		details = append(details, strings.TrimPrefix(detail.Location, "query.")+": "+detail.Message)
	}
	if len(details) == 0 {
		details = append(details, message)
	}
	text := strings.Join(details, "; ")
	switch {
	case code == api.CodeUnknownParameter:
		text += parametersOf(op)
	case status == http.StatusRequestEntityTooLarge:
		code = api.CodeBodyTooLarge
	case status == http.StatusUnsupportedMediaType:
		code, field = api.CodeUnsupportedType, "Content-Type"
		text += ": send application/json (curl --json)"
	}
	return NewProblem(code, field, text)
}

// parametersOf says what may stand in the query of an operation.
func parametersOf(op *huma.Operation) string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	switch {
	case len(names) > 0:
		return ": there are " + strings.Join(names, ", ")
	case op.RequestBody != nil:
		return ": all that is asked stands in the body"
	}
	return ": there are none"
}

// StatusOf maps every code that ends a request to its HTTP status. Codes that only single lines have are not here: they stand
// in `rejected`.
var StatusOf = statusByCode(map[int][]api.Code{
	http.StatusBadRequest: {
		api.CodeInvalidKey, api.CodeReservedKey, api.CodeInvalidCount, api.CodeInvalidTime, api.CodeTooFarAhead, api.CodeInvalidWindow, api.CodeInvalidRange,
		api.CodeInvalidLimit, api.CodeNothingCounted, api.CodeEmptyBody, api.CodeBodyBroken, api.CodeInvalidIdempotencyKey, api.CodeDamagedBackup,
		api.CodeMissingKey, api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeTooManyAnswers, api.CodeInvalidJSON, api.CodeUnknownField,
		api.CodeInvalidPolicy,
	},
	http.StatusInternalServerError: {api.CodeInvalidConfig, api.CodeInternal},
	http.StatusServiceUnavailable: {
		api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed, api.CodeOverloaded, api.CodeOnceFull, api.CodeNotDurable, api.CodeDurableFull, api.CodeNoHistory,
		api.CodeOwnerUnreachable, api.CodeNotRemoved, api.CodeStarting, api.CodeStopping, api.CodeJournalFailing,
	},
	http.StatusUnprocessableEntity:   {api.CodeKeyReused, api.CodeTooLate},
	http.StatusRequestEntityTooLarge: {api.CodeBodyTooLarge, api.CodeTooManyLines},
	http.StatusRequestTimeout:        {api.CodeBodyTimeout, api.CodeClientGone},
	http.StatusUnsupportedMediaType:  {api.CodeUnsupportedType, api.CodeUnsupportedEncoding},
	http.StatusConflict: {
		api.CodeEphemeral, api.CodeBackupRunning, api.CodeRestoreRunning, api.CodeCountedTwice, api.CodePolicyInFile, api.CodePoliciesFull,
		api.CodeNoPoliciesAPI, api.CodePermitLost, api.CodeNodeHere, api.CodeNoCluster,
	},
	http.StatusNotFound: {
		api.CodeUnknownKey, api.CodeUnknownLimit, api.CodeUnknownReservation, api.CodeUnknownDenial, api.CodeUnknownNode, api.CodeUnknownRegion,
		api.CodeNotFound,
	},
	http.StatusPreconditionFailed: {api.CodeVersionMismatch},
	http.StatusTooManyRequests:    {api.CodeAtOnce, api.CodeCeiling},
	http.StatusGone:               {api.CodeDenialGone},
	http.StatusMisdirectedRequest: {api.CodeOtherNode},
	http.StatusUnauthorized:       {api.CodeUnauthorized},
	http.StatusForbidden:          {api.CodeForbidden, api.CodeForbiddenOrigin},
	http.StatusMethodNotAllowed:   {api.CodeMethodNotAllowed},
})

func statusByCode(table map[int][]api.Code) map[api.Code]int {
	status := map[api.Code]int{}
	for number, codes := range table {
		for _, code := range codes {
			status[code] = number
		}
	}
	return status
}

// passing are the codes of what is over soon, and of which nothing was counted: the same request may come again.
var passing = map[api.Code]bool{
	api.CodeOwnerUnreachable: true, api.CodeNotHeld: true, api.CodeNotFresh: true, api.CodeOverloaded: true, api.CodeOnceFull: true, api.CodeDurableFull: true, api.CodeStarting: true,
}
