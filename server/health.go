package server

import (
	"io"
	"net/http"
)

// healthz says that the process lives; restarting it when this fails is right.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { writeOK(w) }

// readyz says whether to send requests here.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		newProblem(codeStopping, "", "this server is stopping: use another").write(w)
		return
	}
	if s.cfg.Journal != nil && s.cfg.Journal.Stats().Failing {
		newProblem(codeJournalFailing, "", "hits do not reach the disk, wait in memory, and are refused once the buffer is full: this server's log says why").write(w)
		return
	}
	writeOK(w)
}

func writeOK(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{\"status\":\"ok\"}\n") // a client that left is not an error of ours
}
