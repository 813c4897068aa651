package server

import (
	"encoding/json"
	"io"
	"net/http"
)

// healthz says that the process lives; restarting it when this fails is right.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { writeOK(w) }

// readyz says whether to send requests here. A node that is away from the others
// is still ready: it goes on to count, and answers say who is late. Only when its
// buffer is full, hits are better off elsewhere.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	failing := s.cfg.Journal != nil && s.cfg.Journal.Stats().Failing
	switch {
	case s.draining.Load():
		newProblem(codeStopping, "", "this server is stopping: use another").write(w)
	case failing && s.cfg.Cluster == nil:
		newProblem(codeJournalFailing, "", "hits do not reach the disk, wait in memory, and are refused once the buffer is full: this server's log says why").write(w)
	case failing && s.engine.Stats().Waiting > s.engine.Config().MaxWaiting:
		newProblem(codeJournalFailing, "", "this node is away from the others, its buffer is full, and hits are refused: this server's log says why").write(w)
	case s.cfg.Cluster != nil:
		s.writeReady(w, failing)
	default:
		writeOK(w)
	}
}

// ready is what /readyz answers in a cluster.
type ready struct {
	Status string `json:"status"` // ok or away
	Detail string `json:"detail,omitempty"`
	Freshness
}

func (s *Server) writeReady(w http.ResponseWriter, failing bool) {
	answer := ready{Status: "ok", Freshness: s.freshness()}
	if failing {
		answer.Status = "away"
		answer.Detail = "this node does not reach enough of the others to make hits durable: it counts, and what it counts waits for them in memory"
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // strings and numbers only
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // a client that left is not an error of ours
}

func writeOK(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{\"status\":\"ok\"}\n") // a client that left is not an error of ours
}
