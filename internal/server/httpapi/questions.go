package httpapi

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// ReachParams say which hits an answer includes. It is exported for huma, and embedded in questions.
type ReachParams struct {
	Fresh string        `query:"fresh" doc:"Wait at most this long (up to 10s) until the answer includes all hits that any node accepted before the query. After that: 503 not_fresh, with the missing nodes. A single server never waits." example:"2s"`
	Scope request.Scope `query:"scope" enum:"node,region,global" doc:"Which hits are counted: node: held by this node; region: of its region; global: of all regions. Default: global if the server has a --region, otherwise region."`
}

// params reads parameters one after the other. err is what is wrong with the first bad one.
type params struct {
	now time.Time // for times given as an age
	err error
}

// read returns made unless an earlier parameter or this one is bad.
func read[T any](p *params, made T, err error) (none T) {
	if p.err == nil {
		p.err = err
	}
	if p.err != nil {
		return none
	}
	return made
}

func (p *params) window(name, text string) time.Duration {
	w, err := request.ParseWindow(name, text)
	return read(p, w, err)
}

// time is zero, which stands for now, if text is empty.
func (p *params) time(name, text string) time.Time {
	t, err := request.ParseTime(name, unspace(text))
	return read(p, t, err)
}

// ago is time that also takes a duration before now, -365d.
func (p *params) ago(name, text string) time.Time {
	t, err := request.ParseAgo(name, unspace(text), p.now)
	return read(p, t, err)
}

func (p *params) fresh(text string) time.Duration {
	d, err := request.ParseFresh(text)
	return read(p, d, err)
}

// spans reads align, and which hits an answer about its spans includes.
func (p *params) spans(align, tz, from, to string, reach *ReachParams) queries.Spans {
	unit, zone, err := request.ParseAlign(align, tz)
	q := read(p, queries.Spans{Unit: unit, Zone: zone, Scope: reach.Scope}, err)
	q.To, q.From, q.Fresh = p.ago("to", to), p.ago("from", from), p.fresh(reach.Fresh)
	return q
}

// unspace restores the plus of a zone such as +02:00: in a query a raw plus means a space.
func unspace(s string) string {
	if i := len(s) - len(" 02:00"); i > 0 && s[i] == ' ' {
		return s[:i] + "+" + s[i+1:]
	}
	return s
}

type countQuestion struct {
	Key    []string `query:"key,explode" required:"true" doc:"The key to count; may be repeated. * counts all hits except of limit: keys." example:"[\"url:/home\"]"`
	Window []string `query:"window,explode" doc:"The window, whole seconds from 1s to 1000000000s; may be repeated. Default 5m." example:"[\"5m\"]"`
	At     string   `query:"at" doc:"The end of the window; default now. A whole second stands for all of that second; with a fraction the moment is meant, and the bounds include the two seconds that the window cuts. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so. Where history is kept, a window that ended and whose edges are on whole hours of UTC (at=...T23:59:59Z and window=24h are a day) is answered from it, if that is closer: source says so."`
	ReachParams
	Distinct bool   `query:"distinct" doc:"In addition, how many different ids the hits of the window carried (the member distinct of a hit). With at, an id that was seen again after the window is in upper only."`
	By       string `query:"by" enum:"region" doc:"In addition to the sum, the part of each region."`
}

func (q *countQuestion) query() (queries.CountQuery, error) {
	var p params
	query := queries.CountQuery{Keys: q.Key, Scope: q.Scope, ByRegion: q.By != "", Distinct: q.Distinct}
	for _, w := range q.Window {
		query.Windows = append(query.Windows, p.window("window", w))
	}
	query.At, query.Fresh = p.time("at", q.At), p.fresh(q.Fresh)
	return query, p.err
}

type seriesQuestion struct {
	Key  string `query:"key" required:"true" doc:"The key to count. * counts all hits except of limit: keys." example:"url:/home"`
	From string `query:"from" doc:"The start, exclusive; default an hour before to. The first window begins there when step divides the time to to, and else after it. A duration before now may be written as -365d. With align: the first span is the one that this moment is in; default 24 spans."`
	To   string `query:"to" doc:"The end, inclusive; default now. With align: exclusive; the last span is whole."`
	Step string `query:"step" doc:"The window of each point, whole seconds; default 1m. Not with align." example:"1m"`

	Align string `query:"align" doc:"Whole hours, days, weeks (from Monday), months or years in place of step: hour, day, week, month, year. From history where the server keeps one: exact, also years back." example:"day"`
	TZ    string `query:"tz" doc:"The time zone of align, by its name; default UTC." example:"Europe/Berlin"`

	Distinct bool `query:"distinct" doc:"With align: count the different ids of each span too, from history, in at most 1000 spans."`
	ReachParams
}

type topQuestion struct {
	Window string `query:"window" doc:"The window, whole seconds from 1s to 1000000000s; default 5m. Not with align." example:"5m"`
	N      int    `query:"n" default:"10" minimum:"1" maximum:"10000" doc:"How many keys to list."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	Align  string `query:"align" doc:"Whole spans of history instead of window and at: hour, day, week (from Monday), month or year, from the span of from to the span of to. N is at most 1000." example:"month"`
	From   string `query:"from" doc:"With align: the time begins with the span that this moment is in; default now. A duration before now may be written as -365d."`
	To     string `query:"to" doc:"With align: exclusive; the last span is whole. Default: now, or the end of from's span if that is later."`
	TZ     string `query:"tz" doc:"The time zone of align, by its name; default UTC." example:"Europe/Berlin"`
	At     string `query:"at" doc:"The end of the window; default now. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so."`
	ReachParams
}

func (s *Server) registerCounts(to *router) {
	codes := []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed}
	serve(to, route{
		pattern: "GET /v1/count", id: "count", need: readsKey, codes: append(slices.Clip(codes), api.CodeTooManyAnswers),
		summary:     "Count the hits of keys in windows",
		description: "A key that was never hit counts 0. When `key` or `window` is repeated the answer is `{\"counts\":[...]}`, for each key each window, all at the same time.",
	}, func(ctx context.Context, c access.Caller, q *countQuestion) (api.OneOrCounts[api.CountAnswer], error) {
		query, err := q.query()
		if err != nil {
			return nil, err
		}
		return s.service.Count(ctx, c, query)
	})
	serve(to, route{
		pattern: "GET /v1/rate", id: "rate", need: readsKey, codes: append(slices.Clip(codes), api.CodeTooManyAnswers),
		summary:     "Count the hits of keys in windows, and per second",
		description: "The answer of `/v1/count` with `per_second`, the mean rate over the window, and its bounds.",
	}, func(ctx context.Context, c access.Caller, q *countQuestion) (api.OneOrCounts[api.RateAnswer], error) {
		query, err := q.query()
		if err != nil {
			return nil, err
		}
		return s.service.Rate(ctx, c, query)
	})
	serve(to, route{
		pattern: "GET /v1/series", id: "series", need: readsKey, codes: append(slices.Clip(codes), api.CodeInvalidRange),
		summary:     "Count the hits of a key in consecutive windows",
		description: "At most 10000 points. Those in the newest 511 s of the key are exact; for older ones both ends lie in slots of up to 1 % of their age, and the bounds say so. When step does not divide the time from `from` to `to`, the windows end at `to`, and the first one begins after `from`: `to - floor((to-from)/step)*step`.",
	}, s.series)
	serve(to, route{
		pattern: "GET /v1/top", id: "top", need: reads, codes: []api.Code{api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeInvalidRange, api.CodeNoHistory, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		summary:     "List the keys with the most hits in a window",
		description: "In a window that ends now or at a time, or with `align` in whole hours to years, from history. Without the reserved key `*`, and without keys that begin with `limit:` unless `prefix` does.",
	}, s.top)
}

func (s *Server) series(ctx context.Context, c access.Caller, q *seriesQuestion) (none api.SeriesAnswer, err error) {
	p := params{now: s.service.Now()}
	switch {
	case q.Distinct && q.Align == "":
		return none, fail(api.CodeInvalidParameter, "distinct", "distinct needs align, such as align=day; /v1/count counts the different ids of a window")
	case q.Align == "" && q.TZ == "":
		query := queries.SeriesQuery{Key: q.Key, Scope: q.Scope, Step: p.window("step", cmp.Or(q.Step, "1m")), To: p.ago("to", q.To), From: p.ago("from", q.From), Fresh: p.fresh(q.Fresh)}
		if p.err != nil {
			return none, p.err
		}
		return s.service.Series(ctx, c, query)
	case q.Step != "" && q.Align != "":
		return none, fail(api.CodeInvalidParameter, "step", "step: align="+q.Align+" says how long the spans are: give step or align, not both")
	}
	query := queries.AlignedQuery{Key: q.Key, Distinct: q.Distinct, Spans: p.spans(q.Align, q.TZ, q.From, q.To, &q.ReachParams)}
	if p.err != nil {
		return none, p.err
	}
	return s.service.Aligned(ctx, c, query)
}

func (s *Server) top(ctx context.Context, c access.Caller, q *topQuestion) (none api.TopAnswer, err error) {
	p := params{now: s.service.Now()}
	if q.Align == "" && q.TZ == "" && q.From == "" && q.To == "" {
		query := queries.TopQuery{N: q.N, Prefix: q.Prefix, Scope: q.Scope, Window: p.window("window", cmp.Or(q.Window, "5m")), At: p.time("at", q.At), Fresh: p.fresh(q.Fresh)}
		if p.err != nil {
			return none, p.err
		}
		return s.service.Top(ctx, c, query)
	}
	for name, value := range map[string]string{"window": q.Window, "at": q.At} {
		if value != "" {
			return none, fail(api.CodeInvalidParameter, name, name+": with align the time is from from to to, which have whole spans: leave "+name+" out")
		}
	}
	query := queries.AlignedTopQuery{Prefix: q.Prefix, N: q.N, Spans: p.spans(q.Align, q.TZ, q.From, q.To, &q.ReachParams)}
	if p.err != nil {
		return none, p.err
	}
	return s.service.AlignedTop(ctx, c, query)
}

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
	Limits bool   `query:"limits" default:"false" doc:"Also delete the usage, grants and bans of these keys under all limits. Only the request without after does so."`
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
		description: "With their history, including keys that only history has. At most 1000 keys per request: continue with `after` while there is a `next`. Usage of limits stays, unless `limits=true`.",
	}, func(ctx context.Context, c access.Caller, q *deletePrefixQuestion) (api.DeletedAnswer, error) {
		return s.service.DeletePrefix(ctx, c, q.Prefix, q.After, q.Limits)
	})
	respond(to, route{
		pattern: "DELETE /v1/keys/{key}", id: "delete-key", need: administers("delete key", "key"), pool: s.service.Pools.Admin, status: http.StatusNoContent,
		codes:       []api.Code{api.CodeInvalidKey, api.CodeReservedKey, api.CodeUnknownKey, api.CodeNotHeld, api.CodeNoHistory, api.CodeClosed},
		summary:     "Delete a key and its hits",
		description: "With its history. The hits stay counted under `*`. Like a plain hit, the deletion can be lost in a crash within one flush interval.",
	}, func(ctx context.Context, c access.Caller, q *deleteQuestion) (*struct{}, error) {
		return nil, s.service.Delete(ctx, c, q.Key)
	})
	serve(to, route{
		pattern: "GET /v1/denials/{id}", id: "why-denied", need: reads, codes: []api.Code{api.CodeUnknownDenial, api.CodeDenialGone, api.CodeOtherNode},
		summary: "Explain a denial", description: whyDescription,
	}, func(_ context.Context, c access.Caller, q *whyQuestion) (api.DenialAnswer, error) {
		return s.service.Why(c, q.ID)
	})
	serve(to, route{
		pattern: "GET /v1/limits/who", id: "limited-keys", need: reads, codes: []api.Code{api.CodeInvalidWindow},
		summary:     "List recently denied keys, most denied first",
		description: "Keys that this server denied within the window, for each limit. It remembers 4096; rarely denied keys leave first.",
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
	responses["200"].Description, responses["200"].Content = "The rows", fileContent(exportType)
}

type whyQuestion struct {
	ID string `path:"id" maxLength:"128" doc:"The ID of a denial: denial in the answer, or the header field Weir-Denial." example:"4v8k0zq2m1b7c"`
}

const whyDescription = `The limits that denied the request, the admissions that filled them, with times as exact as the algorithm knows.
Each node keeps its newest 8192 denials, 64 for each 128th of all keys, so that one busy key displaces few others.
A forgotten denial has another error than an unknown one. In a cluster an ID begins with the name of the node to ask.`

type whoQuestion struct {
	Window string `query:"window" default:"1m" doc:"The keys were denied within it, whole seconds from 1s to 5m." example:"1m"`
	Prefix string `query:"prefix" doc:"Only counted keys that begin with it." example:"login:"`
	Limit  string `query:"limit" maxLength:"64" doc:"Only of this limit. Default: all limits, including inline limits." example:"login"`
	N      int    `query:"n" default:"20" minimum:"1" maximum:"4096" doc:"How many keys to list."`
}

type exportParams struct {
	Unit   string `query:"unit" doc:"day (the default) or hour."`
	Format string `query:"format" doc:"csv, as without it."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this."`
	From   string `query:"from" doc:"A moment in the first day, or a duration before now (-365d). Default: the beginning."`
	To     string `query:"to" doc:"The last day, by a moment after it begins. Default: now."`
}

const exportType = "text/csv; charset=utf-8"

const exportDescription = `The hits of keys per UTC day, or hour, from history: key, start, hits and doubt (the true number is
hits to hits + doubt). With sampled hits, hits is what was seen, doubt is 18446744073709551615 (no upper bound), and key
limit:~sampled:KEY has what sampling added. The answer is streamed; if it fails, the connection breaks. The header field
Weir-Missing lists times whose hits may be missing. A client that reads less than 64 KiB a second is disconnected.`

// export streams, so that no answer is held in memory.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	q, err := s.exportQuery(r)
	if err != nil {
		ProblemOf(err).Write(w)
		return
	}
	q.Missing = func(times string) { w.Header().Set("Weir-Missing", times) }
	s.download(w, exportType, "weir-history.csv", func(to io.Writer) error {
		return s.service.Export(r.Context(), clientOf(r), q, to)
	})
}

func (s *Server) exportQuery(r *http.Request) (q queries.ExportQuery, err error) {
	values, err := queryOf(r, ": there are unit, format, prefix, from and to", "unit", "format", "prefix", "from", "to")
	if err != nil {
		return q, err
	}
	if format := values.Get("format"); format != "" && format != "csv" {
		return q, &api.Error{Code: api.CodeInvalidParameter, Field: "format", Message: "format must be csv: other programs convert it"}
	}
	p := params{now: s.service.Now()}
	q = queries.ExportQuery{
		Prefix: values.Get("prefix"), Unit: calendar.Unit(cmp.Or(values.Get("unit"), string(calendar.Day))),
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
