package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	weir "github.com/weir-counter/weir"
)

const problemType = "application/problem+json"

// problem is the body of every answer that is not a success: an RFC 9457
// document of the type about:blank, so title is the phrase of the status.
type problem struct {
	Title  string    `json:"title" example:"Bad Request"`
	Status int       `json:"status" example:"400"`
	Code   weir.Code `json:"code" example:"invalid_window" doc:"Stable name of the failure, to branch on."`
	Detail string    `json:"detail" doc:"What went wrong here and what to do about it."`
	Field  string    `json:"field,omitempty" example:"window" doc:"The parameter or setting at fault."`
	// Missing is set in problems of fresh questions.
	Missing []string `json:"missing,omitempty" doc:"not_fresh: the nodes whose newer hits may be missing."`
	Alarms  []Alarm  `json:"alarms,omitempty" doc:"All that is wrong, in a 503 of /readyz."`
	// HitsAnswer is set in problems of POST /v1/hits only.
	*HitsAnswer
}

func newProblem(code weir.Code, field, detail string) *problem {
	status, known := statusOf[code]
	if !known {
		status = http.StatusInternalServerError
	}
	return &problem{Title: http.StatusText(status), Status: status, Code: code, Field: field, Detail: detail}
}

// Error, GetStatus and ContentType make a problem an error that huma writes.
func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return problemType }

// GetHeaders has huma say when to ask again, where that is known.
func (p *problem) GetHeaders() http.Header {
	if p.Code == weir.CodeNotHeld || p.Code == weir.CodeNotFresh || p.Code == weir.CodeOverloaded {
		return http.Header{"Retry-After": {"1"}}
	}
	return nil
}

// asProblem turns an error of the engine into the problem it stands for.
func asProblem(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	var e *weir.Error
	if errors.As(err, &e) {
		return newProblem(e.Code, e.Field, e.Message)
	}
	if errors.Is(err, context.Canceled) {
		return newProblem(codeClientGone, "", "the client did not wait for the answer")
	}
	return newProblem(codeInternal, "", "the server failed to answer; its log says why")
}

func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		// Strings and numbers only: unreachable, and there is nobody to tell.
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", problemType)
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that left is not an error of ours
}

// TransformSchema implements huma.SchemaTransformer: the members of hits are
// not in every problem.
func (*problem) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Required = []string{"title", "status", "code", "detail"}
	return s
}

// fromHuma makes a problem of what huma found wrong with a request, before any
// handler of ours ran.
func fromHuma(status int, message string, errs []error) *problem {
	if status >= http.StatusInternalServerError {
		return newProblem(codeInternal, "", "the server failed to answer; its log says why")
	}
	code, field, details := codeInvalidParameter, "", make([]string, 0, len(errs))
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
				code = codeUnknownParameter
			case field == "key" && strings.HasPrefix(detail.Message, "required"):
				code = codeMissingKey
			}
		}
		details = append(details, strings.TrimPrefix(detail.Location, "query.")+": "+detail.Message)
	}
	if len(details) == 0 {
		details = append(details, message)
	}
	return newProblem(code, field, strings.Join(details, "; "))
}
