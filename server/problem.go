package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// problem is an api.Problem that huma and handlers write.
type problem struct{ api.Problem }

func newProblem(code api.Code, field, detail string) *problem {
	status, known := statusOf[code]
	if !known {
		status = http.StatusInternalServerError
	}
	return &problem{api.Problem{Title: http.StatusText(status), Status: status, Code: code, Field: field, Detail: detail}}
}

// Error, GetStatus and ContentType make a problem an error that huma writes.
func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return api.ProblemType }

// GetHeaders has huma say when to ask again, where that is known.
func (p *problem) GetHeaders() http.Header {
	if p.Code == api.CodeNotHeld || p.Code == api.CodeNotFresh || p.Code == api.CodeOverloaded {
		return http.Header{"Retry-After": {"1"}}
	}
	return nil
}

// asProblem turns an error of the service or the engine into the problem it stands for.
func asProblem(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	e := service.AsError(err)
	p = newProblem(e.Code, e.Field, e.Message)
	p.Missing = e.Missing
	return p
}

// orProblem is asProblem, or nil for nil.
func orProblem(err error) error {
	if err == nil {
		return nil
	}
	return asProblem(err)
}

func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		// Strings and numbers only: unreachable, and there is nobody to tell.
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", api.ProblemType)
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
		return newProblem(api.CodeInternal, "", "the server failed to answer; its log says why")
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
		details = append(details, strings.TrimPrefix(detail.Location, "query.")+": "+detail.Message)
	}
	if len(details) == 0 {
		details = append(details, message)
	}
	return newProblem(code, field, strings.Join(details, "; "))
}
