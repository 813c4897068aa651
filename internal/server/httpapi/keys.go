package httpapi

import (
	"cmp"
	"context"
	"io"
	"net/http"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

type keysQuestion struct {
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	After  string `query:"after" doc:"Only keys that sort after this: next of the answer before."`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"5000" doc:"How many keys to list."`
	ReachParams
}

type deleteQuestion struct {
	Key string `path:"key" doc:"The key; its slashes may be raw or percent-encoded, but ?, # and % must be percent-encoded." example:"url:/home"`
}

type deletePrefixQuestion struct {
	Prefix string `query:"prefix" required:"true" doc:"All keys that begin with this." example:"user:42:"`
	After  string `query:"after" doc:"Only keys that sort after this: next of the answer before."`
	Limits bool   `query:"limits" default:"false" doc:"Also forget what all keys that begin so have used of all limits, with their grants and bans. The request without after does it."`
}

func (s *Server) registerKeys(to *router) {
	serve(to, route{
		pattern: "GET /v1/keys", id: "list-keys", need: reads, codes: []api.Code{api.CodeInvalidRange, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		summary:     "List keys",
		description: "Keys that begin with `limit:` are listed only when `prefix` does.",
	}, func(ctx context.Context, c access.Caller, q *keysQuestion) (none api.KeysAnswer, err error) {
		fresh, err := request.ParseFresh(q.Fresh)
		if err != nil {
			return none, err
		}
		return s.service.Keys(ctx, c, queries.KeysQuery{Prefix: q.Prefix, After: q.After, Limit: q.Limit, Fresh: fresh, Scope: q.Scope})
	})
	serve(to, route{
		pattern: "DELETE /v1/keys", id: "delete-keys", need: administers("delete prefix", "prefix"), pool: s.service.Pools.Admin,
		codes:       []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeNotHeld, api.CodeNoHistory, api.CodeClosed},
		summary:     "Delete all keys that begin with a prefix, and their hits",
		description: "With their history, also of keys that only history knows any more. At most 1000 keys a request: go on with `after` while there is a `next`. What keys have used of limits stays, unless `limits=true`.",
	}, func(ctx context.Context, c access.Caller, q *deletePrefixQuestion) (api.DeletedAnswer, error) {
		return s.service.DeletePrefix(ctx, c, q.Prefix, q.After, q.Limits)
	})
	respond(to, route{
		pattern: "DELETE /v1/keys/{key}", id: "delete-key", need: administers("delete key", "key"), pool: s.service.Pools.Admin, status: http.StatusNoContent,
		codes:       []api.Code{api.CodeInvalidKey, api.CodeReservedKey, api.CodeUnknownKey, api.CodeNotHeld, api.CodeNoHistory, api.CodeClosed},
		summary:     "Delete a key and its hits",
		description: "With its history. The hits stay counted under `*`. Like a hit that is not durable, the deletion may be lost in a crash within one flush interval.",
	}, func(ctx context.Context, c access.Caller, q *deleteQuestion) (*struct{}, error) {
		return nil, s.service.Delete(ctx, c, q.Key)
	})
	serve(to, route{
		pattern: "GET /v1/denials/{id}", id: "why-denied", need: reads, codes: []api.Code{api.CodeUnknownDenial, api.CodeDenialGone, api.CodeOtherNode},
		summary: "Say why a request was denied", description: whyDescription,
	}, func(_ context.Context, c access.Caller, q *whyQuestion) (api.DenialAnswer, error) {
		return s.service.Why(c, q.ID)
	})
	serve(to, route{
		pattern: "GET /v1/limits/who", id: "limited-keys", need: reads, codes: []api.Code{api.CodeInvalidWindow},
		summary:     "List who is limited now, most denied first",
		description: "Keys that this server denied within the window, for each limit. It knows 4096 at once: those that are denied seldom leave first.",
	}, func(_ context.Context, c access.Caller, q *whoQuestion) (none api.WhoAnswer, err error) {
		w, err := request.ParseWindow("window", q.Window)
		if err != nil {
			return none, err
		}
		return s.service.Who(c, limits.WhoQuery{Window: w, N: q.N, Prefix: q.Prefix, Limit: q.Limit})
	})
	responses := describe[exportParams, struct{}](to, route{
		pattern: "GET /v1/export", id: "export", need: readsAll.audited("export"), status: http.StatusOK,
		codes:   []api.Code{api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeInvalidTime, api.CodeInvalidRange, api.CodeNoHistory},
		summary: "Export history", description: exportDescription,
	}, s.export)
	responses["200"].Description, responses["200"].Content = "The rows", fileContent(calendar.ExportFormats["csv"], calendar.ExportFormats["parquet"])
}

type whyQuestion struct {
	ID string `path:"id" maxLength:"128" doc:"The ID of a denial: denial in the answer, or the header field Weir-Denial." example:"4v8k0zq2m1b7c"`
}

const whyDescription = `The limits that denied it, the admissions that filled them, with their times as far as the algorithm knows them, and the smallest limit that would have let it
pass. Each node keeps the newest 8192 denials that it answered with, 64 of them for each 128th of all keys, so that one key that is denied all the time pushes out few others'. What a
restart forgets, and what others pushed out, is told apart from what never was. In a cluster an ID begins with the name of the node to ask.`

type whoQuestion struct {
	Window string `query:"window" default:"1m" doc:"The keys were denied within it, whole seconds from 1s to 5m." example:"1m"`
	Prefix string `query:"prefix" doc:"Only counted keys that begin with it." example:"login:"`
	Limit  string `query:"limit" maxLength:"64" doc:"Only of this limit; default all, also those that requests bring along." example:"login"`
	N      int    `query:"n" default:"20" minimum:"1" maximum:"4096" doc:"How many keys to list."`
}

type exportParams struct {
	Unit   string `query:"unit" doc:"day (the default) or hour."`
	Format string `query:"format" doc:"csv (the default) or parquet."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this."`
	From   string `query:"from" doc:"The first day, by a moment in it; -365d is a duration before now. Default: the beginning."`
	To     string `query:"to" doc:"The last day, by a moment after it begins. Default: now."`
}

const exportDescription = `The hits of keys in each day of UTC, or each hour, as history has them: the columns key, start, hits and doubt (the true number is
hits to hits + doubt). With sampled hits, hits is what was seen, doubt is 18446744073709551615, as there is no upper bound, and key
limit:~sampled:KEY has what sampling added. It is streamed, and an answer that is cut short is dropped, not ended. The header field
Weir-Missing has the times of which hits may be missing, if there are any. Who does not take it at 64 KiB a second loses it.`

// export streams, so that no answer is held in memory.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	q, err := s.exportQuery(r)
	if err != nil {
		ProblemOf(err).Write(w)
		return
	}
	q.Missing = func(times string) { w.Header().Set("Weir-Missing", times) }
	s.download(w, calendar.ExportFormats[q.Format], "weir-history."+q.Format, func(to io.Writer) error {
		return s.service.Export(r.Context(), clientOf(r), q, to)
	})
}

func (s *Server) exportQuery(r *http.Request) (q queries.ExportQuery, err error) {
	values := r.URL.Query()
	for name := range values {
		switch name {
		case "unit", "format", "prefix", "from", "to":
		default:
			return q, fail(api.CodeUnknownParameter, request.Clip(name), "there are unit, format, prefix, from and to")
		}
	}
	p := params{now: s.service.Now()}
	q = queries.ExportQuery{
		Prefix: values.Get("prefix"), Unit: calendar.Unit(cmp.Or(values.Get("unit"), string(calendar.Day))), Format: cmp.Or(values.Get("format"), "csv"),
		From: p.ago("from", values.Get("from")), To: p.ago("to", values.Get("to")),
	}
	return q, p.err
}

// download is an answer of one file that is sent while it is made. Only minRate bounds the time that it takes.
type download struct {
	*TimedWriter
	contentType, name string
	began             bool
}

// Write sends the header first.
func (d *download) Write(piece []byte) (int, error) {
	if !d.began {
		d.began = true
		d.Header().Set("Content-Type", d.contentType)
		d.Header().Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
	}
	return d.TimedWriter.Write(piece)
}

// download has write send a file. After the first byte a failure can't be answered any more: the connection is dropped, so
// that the client sees it.
func (s *Server) download(w http.ResponseWriter, contentType, name string, write func(io.Writer) error) {
	to := &download{TimedWriter: s.timed(w), contentType: contentType, name: name}
	switch err := write(to); {
	case err == nil:
	case to.began:
		panic(http.ErrAbortHandler)
	default:
		ProblemOf(err).Write(w)
	}
}
