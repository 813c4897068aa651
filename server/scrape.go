package server

import (
	"bytes"
	"net/http"

	"github.com/weir-counter/weir/server/problem"
)

// scrapesAtOnce bounds what metrics cost; more wait for a moment.
const scrapesAtOnce = 4

// scrape has metrics made before any of them are sent: a client that does not take them
// keeps no other one waiting.
func (s *Server) scrape(metrics http.Handler) http.HandlerFunc {
	places := make(chan struct{}, scrapesAtOnce)
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.service.MayReadFigures(callerOf(r.Context())); err != nil {
			problem.Of(err).Write(w)
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
		_, _ = s.paced(w).Write(made.body.Bytes()) // a client that left is not an error of ours
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
