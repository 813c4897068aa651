package httpapi

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/dashboard"
	"github.com/weir-counter/weir/web"
)

// healthz says that the process lives; restarting it when this fails is right.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]string{"status": "ok"})
}

// readyz says whether to send requests here, and what is wrong. With alarms=none it is 200 only while nothing is wrong: a rolling
// update waits for that, and a load balancer must not, or it would take all nodes out at once.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	answer, refusing := s.service.Ready()
	if refusing == nil && len(answer.Alarms) > 0 && r.URL.Query().Get("alarms") == "none" {
		refusing = &answer.Alarms[0]
	}
	switch {
	case s.draining.Load():
		ProblemOf(dashboard.ErrClosed).Write(w)
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

// scrape has metrics made before any of them are sent: a client that does not take them
// keeps no other one waiting.
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

// madeAnswer is an answer in memory.
type madeAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (m *madeAnswer) Header() http.Header         { return m.header }
func (m *madeAnswer) WriteHeader(status int)      { m.status = status }
func (m *madeAnswer) Write(p []byte) (int, error) { return m.body.Write(p) }

// registerDashboard serves the dashboard to browsers. Its page and files are the same for
// everybody, so that they need no token: the page asks its user for one. Others are sent from / to the
// description of the API.
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
