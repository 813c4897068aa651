package server

import (
	"net/http"
	"strings"

	"github.com/weir-counter/weir/web"
)

// registerDashboard serves the dashboard to browsers. Its page and files are the same for
// everybody, so that they need no token: the page asks its user for one. Others are sent from / to the
// description of the API.
func (s *Server) registerDashboard(mux *router) {
	docs := s.identified("GET /docs", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/docs", http.StatusFound) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			web.Page(w, r)
			return
		}
		docs(w, r)
	})
	for name := range web.Files {
		mux.HandleFunc("GET /web/"+name, web.File(name))
	}
}
