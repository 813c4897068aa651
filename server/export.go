package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/history/calendar"
	"github.com/weir-counter/weir/history/export"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

const exportDescription = `The hits of keys in each day of UTC, or each hour, as history has them: the columns key, start, hits and doubt (the true number is
hits to hits + doubt). It is streamed, and an answer that is cut short is dropped, not ended. Who does not take it at 64 KiB a second (--min-rate) loses it.`

// registerExport routes GET /v1/export around huma, which would hold the answer in memory.
func (s *Server) registerExport(doc *openapi.API, mux *router) {
	mux.HandleFunc("GET /v1/export", s.export)
	responses := doc.Responses(api.CodeInvalidParameter, api.CodeInvalidTime, api.CodeInvalidRange, api.CodeNoHistory)
	content := map[string]*huma.MediaType{}
	for _, media := range export.Formats {
		content[media] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	responses["200"] = &huma.Response{Description: "The rows", Content: content}
	text := func(name, description string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "export", Method: http.MethodGet, Path: "/v1/export",
		Summary: "Export history", Description: exportDescription,
		Parameters: []*huma.Param{
			text("unit", "day (the default) or hour."), text("format", "csv (the default) or parquet."), text("prefix", "Only keys that begin with this."),
			text("from", "The first day, by a moment in it; -365d is a duration before now. Default: the beginning."), text("to", "The last day, by a moment after it begins. Default: now."),
		},
		Responses: responses,
	})
}

// export streams. A failure after the first byte can't be told any more: the connection is
// dropped, so that the client sees it.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	q, err := s.exportQuery(r)
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	to := &exportStream{w: s.paced(w), format: q.Format}
	err = s.service.Export(r.Context(), clientOf(r), q, to)
	switch {
	case err == nil:
	case to.began:
		panic(http.ErrAbortHandler)
	default:
		problem.Of(err).Write(w)
	}
}

func (s *Server) exportQuery(r *http.Request) (q service.ExportQuery, err error) {
	values := r.URL.Query()
	q = service.ExportQuery{Prefix: values.Get("prefix"), Unit: calendar.Day, Format: "csv"}
	for name := range values {
		switch name {
		case "unit", "format", "prefix", "from", "to":
		default:
			return q, &service.Error{Code: api.CodeUnknownParameter, Field: service.Clip(name), Message: "there are unit, format, prefix, from and to"}
		}
	}
	if unit := values.Get("unit"); unit != "" {
		q.Unit = calendar.Unit(unit)
	}
	if format := values.Get("format"); format != "" {
		q.Format = format
	}
	if q.From, err = s.agoParam("from", values.Get("from")); err != nil {
		return q, err
	}
	q.To, err = s.agoParam("to", values.Get("to"))
	return q, err
}

// exportStream has no deadline but the pace.
type exportStream struct {
	w      *pace.Writer
	format string
	began  bool
}

func (e *exportStream) Write(piece []byte) (int, error) {
	if !e.began {
		e.began = true
		e.w.Header().Set("Content-Type", export.Formats[e.format])
		e.w.Header().Set("Content-Disposition", `attachment; filename="weir-history.`+e.format+`"`)
	}
	return e.w.Write(piece)
}
