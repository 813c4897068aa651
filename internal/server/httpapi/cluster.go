package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/dashboard"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/web"
)

type nodeInPath struct {
	Node string `path:"node" maxLength:"64" doc:"Its name."`
}

func (s *Server) registerCluster(to *router) {
	serve(to, route{
		pattern: "GET /v1/stats", id: "stats", need: readsAll, pool: s.service.Pools.Admin, codes: []api.Code{api.CodeClosed},
		summary: "Show statistics of the server",
	}, func(_ context.Context, c access.Caller, _ *struct{}) (api.StatsAnswer, error) {
		return s.service.Stats(c)
	})
	serve(to, route{
		pattern: "GET /v1/cluster", id: "cluster", need: readsAll, pool: s.service.Pools.Admin, codes: []api.Code{api.CodeClosed},
		summary:     "List the nodes of the cluster, as this one sees them",
		description: "Servers that do not answer within a second are left out; `problems` lists what is unknown. A single server has `mode` alone or ephemeral, and no nodes.",
	}, func(ctx context.Context, c access.Caller, _ *struct{}) (api.ClusterAnswer, error) {
		return s.service.Nodes(ctx, c)
	})
	serve(to, route{
		pattern: "DELETE /v1/cluster/nodes/{node}", id: "removeNode", need: administersAll("remove node"), pool: s.service.Pools.Admin,
		codes:   []api.Code{api.CodeUnknownNode, api.CodeNodeHere, api.CodeNoCluster, api.CodeNotRemoved},
		summary: "Remove a node that will not return",
		description: "Its replicas move to another node, and no answer waits for it. Its hits stay counted. " +
			"A running node is refused: stop it first. This takes up to 20 s, and can be repeated.",
	}, func(ctx context.Context, c access.Caller, in *nodeInPath) (api.RemovedAnswer, error) {
		return s.service.Remove(ctx, c, in.Node)
	})
}

type regionInPath struct {
	Region string `path:"region" maxLength:"64" doc:"Its name."`
}

type feedParams struct {
	As    string `query:"as" doc:"The region that asks."`
	Have  string `query:"have" doc:"What the caller has, in JSON: each region's last digest, {epoch, seq} by name."`
	Begun string `query:"begun" doc:"Bases whose first pieces the caller already has, in JSON: lists of {epoch, seq, pieces, hash} by region."`
}

const feedDescription = `For links of other regions. The answer is an endless list of frames, each a length (unsigned varint) and a message; an empty one shows
that the link is alive. internal/region/digest_message.go describes the messages. The header field Weir-Region names this region.`

func (s *Server) registerRegions(to *router) {
	serve(to, route{
		pattern: "GET /v1/regions", id: "regions", need: readsAll, pool: s.service.Pools.Admin, codes: []api.Code{api.CodeClosed},
		summary: "List the regions, as this node sees them",
	}, func(_ context.Context, c access.Caller, _ *struct{}) (api.RegionsAnswer, error) {
		return s.service.Regions(c)
	})
	respond(to, route{
		pattern: "DELETE /v1/regions/{region}", id: "forgetRegion", need: administersAll("forget region"), pool: s.service.Pools.Admin, status: http.StatusNoContent,
		codes:       []api.Code{api.CodeUnknownRegion, api.CodeStopping},
		summary:     "Forget a region that will not return",
		description: "Its hits are removed from all counts, here and in linked regions, and no answer waits for it. If it returns, its hits return.",
	}, func(ctx context.Context, c access.Caller, in *regionInPath) (*struct{}, error) {
		return nil, s.service.Forget(ctx, c, in.Region)
	})
	responses := describe[feedParams, struct{}](to, route{
		pattern: "GET /v1/regions/feed", id: "regionsFeed", need: readsAll, status: http.StatusOK, codes: []api.Code{api.CodeInvalidParameter, api.CodeOverloaded},
		summary: "Stream the digests of all regions", description: feedDescription,
	}, s.feed)
	responses["200"].Description, responses["200"].Content = "Frames, for as long as the connection lasts", fileContent(backupType)
}

// feed sends digests until the client leaves, may not read any more, or the server stops.
func (s *Server) feed(w http.ResponseWriter, r *http.Request) {
	c := clientOf(r)
	region, err := s.service.FeedRegion(c)
	if err != nil {
		ProblemOf(err).Write(w)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // as in TimedBody: the request is there, the answer outlasts its deadline
	w.Header().Set("Content-Type", backupType)
	w.Header().Set("Weir-Region", region)
	w.Header().Set("X-Accel-Buffering", "no")
	began := false
	asked := r.URL.Query()
	err = s.service.Feed(ctx, c, asked.Get("as"), asked.Get("have"), asked.Get("begun"), func(frames []byte) error {
		began = true
		to := NewTimedWriter(w, s.minRate())
		defer to.NoDeadline()
		_, err := to.Write(frames)
		return err
	}, func() error {
		began = true
		return control.Flush()
	})
	if err != nil && !began {
		w.Header().Del("Weir-Region")
		ProblemOf(err).Write(w)
	}
}

const backupType = "application/octet-stream"

const backupDescription = `One file with all counts, taken while hits continue. It includes every hit that was counted before the request.
` + "`weir restore`" + ` makes a data directory of it. The file ends with a checksum, so a truncated one is refused. An ephemeral server has no backup.
One backup runs at a time. A client that reads less than 64 KiB a second is disconnected.`

const restoreDescription = `Adds a backup to the counts of this server and its cluster; with mode=replace the counts become the backup's.
The body is the file of ` + "`weir backup`" + `. It is checked as a whole before anything counts. The retention and the number of partitions may differ.
The answer comes when all is on disk, in a cluster on most nodes. **Merging the same backup again counts nothing**, so a request
without an answer can be repeated. A different backup of a merged journal, or of this server's own, is refused with ` + "`counted_twice`" + `.`

type restoreParams struct {
	Mode string `query:"mode" required:"true" enum:"merge,replace" doc:"merge adds the backup's hits; replace makes the counts equal to the backup"`
}

// registerBackup describes what huma would hold in memory.
func (s *Server) registerBackup(to *router) {
	responses := describe[struct{}, struct{}](to, route{
		pattern: "GET /v1/backup", id: "backup", need: administersAll("backup"), status: http.StatusOK,
		codes:   []api.Code{api.CodeEphemeral, api.CodeBackupRunning, api.CodeStopping},
		summary: "Back up all counts", description: backupDescription,
	}, func(w http.ResponseWriter, r *http.Request) {
		s.download(w, backupType, "weir.backup", func(to io.Writer) error { return s.service.Backup(r.Context(), clientOf(r), to) })
	})
	responses["200"].Description, responses["200"].Content = "The backup", fileContent(backupType)
	describe[restoreParams, answer[api.Restored]](to, route{
		pattern: "POST /v1/restore", id: "restore", need: administersAll("restore"),
		codes:   []api.Code{api.CodeInvalidParameter, api.CodeDamagedBackup, api.CodeEphemeral, api.CodeRestoreRunning, api.CodeCountedTwice, api.CodeStopping},
		summary: "Restore a backup into the running server", description: restoreDescription,
		body: &huma.RequestBody{Required: true, Content: fileContent(backupType)},
	}, s.restore)
}

func (s *Server) restore(w http.ResponseWriter, r *http.Request) {
	backup := NewTimedBody(w, r, s.minRate(), s.cfg.WriteTimeout)
	done, err := s.service.Restore(r.Context(), clientOf(r), backup, api.RestoreMode(r.URL.Query().Get("mode")))
	answer := s.timed(w)
	answer.NoDeadline()
	if err != nil {
		ProblemOf(err).Write(answer)
		return
	}
	writeJSON(answer, done)
}

// healthz says that the process lives; restarting it when this fails is right.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]string{"status": "ok"})
}

// readyz says whether to send requests here, and what is wrong. With alarms=none it is 200 only while nothing is wrong: a rolling
// update waits for that, and a load balancer must not, or it would take all nodes out at once.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	answer, refusing := s.service.Ready()
	if c, err := s.identify(r); s.service.Locked() && (err != nil || !c.Known()) { // messages have names that strangers need not know
		for i := range answer.Alarms {
			answer.Alarms[i].Message = "send a token to read what is wrong"
		}
		if refusing != nil {
			refusing = &api.Alarm{Code: refusing.Code, Message: "send a token to read what is wrong", Refusing: true}
		}
	}
	if refusing == nil && len(answer.Alarms) > 0 && r.URL.Query().Get("alarms") == "none" {
		refusing = &answer.Alarms[0]
	}
	switch {
	case s.draining.Load():
		NewProblem(api.CodeStopping, "", "this server is stopping: use another").Write(w)
	case refusing != nil:
		p := NewProblem(api.CodeJournalFailing, "", refusing.Message)
		p.Code, p.Alarms = api.Code(refusing.Code), answer.Alarms
		p.Write(w)
	default:
		writeJSON(w, answer)
	}
}

// scrapesAtOnce bounds what metrics cost; more wait for a moment.
const scrapesAtOnce = 4

// scrape has metrics made before any of them are sent: a client that does not take them keeps no other one waiting.
func (s *Server) scrape(metrics http.Handler) http.HandlerFunc {
	places := make(chan struct{}, scrapesAtOnce)
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.service.MayReadFigures(callerOf(r.Context())); err != nil {
			ProblemOf(err).Write(w)
			return
		}
		select {
		case places <- struct{}{}:
		case <-r.Context().Done():
			return // nobody reads it
		}
		made := &madeAnswer{header: w.Header(), status: http.StatusOK}
		func() {
			defer func() { <-places }()
			metrics.ServeHTTP(made, r)
		}()
		w.WriteHeader(made.status)
		_, _ = s.timed(w).Write(made.body.Bytes()) // a client that left is not an error of ours
	}
}

type madeAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (m *madeAnswer) Header() http.Header         { return m.header }
func (m *madeAnswer) WriteHeader(status int)      { m.status = status }
func (m *madeAnswer) Write(p []byte) (int, error) { return m.body.Write(p) }

// registerDashboard serves the dashboard to browsers. Its page and files are the same for everybody, so that they need
// no token: the page asks its user for one. Others are sent from / to the description of the API.
func (s *Server) registerDashboard(to *router) {
	docs := s.identified("GET /docs", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/docs", http.StatusFound) })
	to.handle("GET /{$}", need{open: true}, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			web.Page(w, r)
			return
		}
		docs(w, r)
	})
	for name := range web.Files {
		to.handle("GET /web/"+name, need{open: true}, nil, web.File(name))
	}
}

type overviewQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window that keys are listed for, whole seconds from 1s to 1000000000s." example:"5m"`
	N      int    `query:"n" default:"15" minimum:"1" maximum:"100" doc:"How many keys."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	Groups int    `query:"groups" default:"0" minimum:"0" maximum:"12" doc:"List n keys of each of so many groups: of those that are alike up to the first colon. They are made of the 1,000 keys with most hits. 0: n keys of all."`
}

type keyViewQuestion struct {
	Key    string   `query:"key" required:"true" doc:"The key. * counts all hits except of limit: keys." example:"url:/home"`
	Window string   `query:"window" default:"1h" doc:"The window of the lines, whole seconds." example:"1h"`
	With   []string `query:"with,explode" maxItems:"4" doc:"Another key to compare with; may be repeated." example:"url:/cart"`
}

type limitsViewQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window of decisions, whole seconds." example:"5m"`
	Name   string `query:"name" doc:"The policy whose fullest keys are listed." example:"login"`
}

type logQuestion struct {
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
}

const viewDescription = "A page of the dashboard in one answer. Equal requests share it: it is computed at most once a second, or less often if it is expensive."

const logDescription = "Hits and denials of this node: all if there are few, otherwise a sample and its share. They are recorded while a client asks at least every ten seconds: the first answer has none."

// viewName names a view for all that ask the same and may see the same.
func (s *Server) viewName(c access.Caller, question any) (string, error) {
	scope, err := s.service.Scope(c)
	return fmt.Sprintf("%q %q %#v", c.Name(), scope, question), err
}

// serveView registers a question whose answer is made once for all that ask the same.
func serveView[I, A any](to *router, r route, made func(context.Context, access.Caller, *I) (A, error)) {
	s := to.server
	r.description = cmp.Or(r.description, viewDescription)
	serve(to, r, func(ctx context.Context, c access.Caller, q *I) (none A, err error) {
		name, err := s.viewName(c, *q)
		if err != nil {
			return none, err
		}
		return dashboard.Shared(ctx, &s.views, name, func(ctx context.Context) (A, error) { return made(ctx, c, q) })
	})
}

func (s *Server) registerViews(to *router) {
	serve(to, route{
		pattern: "GET /v1/views/overview", id: "view-overview", need: reads, codes: []api.Code{api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed},
		summary: "View all keys", description: viewDescription,
	}, s.overview)
	serve(to, route{
		pattern: sitePattern, id: "view-site", need: reads, codes: []api.Code{api.CodeNoHistory, api.CodeNotHeld, api.CodeClosed},
		summary: "View a web site", description: viewDescription,
	}, s.siteView)
	serveView(to, route{
		pattern: "GET /v1/views/key", id: "view-key", need: readsKey, summary: "View a key",
		codes: []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed},
	}, func(ctx context.Context, c access.Caller, q *keyViewQuestion) (none api.KeyAnswer, err error) {
		w, err := request.ParseWindow("window", q.Window)
		if err != nil {
			return none, err
		}
		return dashboard.KeyView(ctx, s.service, c, dashboard.KeyQuery{Key: q.Key, Window: w, With: q.With})
	})
	serveView(to, route{
		pattern: "GET /v1/views/limits", id: "view-limits", need: reads, summary: "View the policies", codes: []api.Code{api.CodeInvalidWindow, api.CodeUnknownLimit, api.CodeNotHeld, api.CodeClosed},
	}, func(ctx context.Context, c access.Caller, q *limitsViewQuestion) (none api.LimitsView, err error) {
		w, err := request.ParseWindow("window", q.Window)
		if err != nil {
			return none, err
		}
		return dashboard.LimitsView(ctx, s.service, c, dashboard.LimitsQuery{Window: w, Name: q.Name})
	})
	serveView(to, route{
		pattern: "GET /v1/views/nodes", id: "view-nodes", need: readsAll, summary: "View the nodes", codes: []api.Code{api.CodeClosed},
	}, func(ctx context.Context, c access.Caller, _ *struct{}) (api.NodesView, error) {
		return dashboard.NodesView(ctx, s.service, c)
	})
	serveView(to, route{
		pattern: "GET /v1/views/log", id: "view-log", need: reads, summary: "View new hits and denials", description: logDescription, codes: []api.Code{api.CodeOverloaded},
	}, func(_ context.Context, c access.Caller, q *logQuestion) (api.LogView, error) {
		return s.service.LogView(c, q.Prefix)
	})
}

func (s *Server) overview(ctx context.Context, c access.Caller, q *overviewQuestion) (none api.OverviewAnswer, err error) {
	name, err := s.viewName(c, *q)
	if err != nil {
		return none, err
	}
	query := dashboard.OverviewQuery{N: q.N, Prefix: q.Prefix, Groups: q.Groups}
	if query.Window, err = request.ParseWindow("window", q.Window); err != nil {
		return none, err
	}
	keys, err := dashboard.Shared(ctx, &s.lists, name, func(ctx context.Context) ([]string, error) { return query.Keys(ctx, s.service, c) })
	if err != nil {
		return none, err
	}
	return dashboard.Shared(ctx, &s.views, name, func(ctx context.Context) (api.OverviewAnswer, error) {
		return dashboard.OverviewView(ctx, s.service, c, query, keys)
	})
}
