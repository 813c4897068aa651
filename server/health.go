package server

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/weir-counter/weir/api"
)

// healthz says that the process lives; restarting it when this fails is right.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { writeOK(w) }

// readyz says whether to send requests here, and what is wrong. A node that is away
// from the others is still ready: it goes on to count, and answers say who is late.
// It is not while an alarm says that hits are better off elsewhere.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	alarms := s.service.Alarms()
	switch p := refusal(alarms); {
	case s.draining.Load():
		newProblem(api.CodeStopping, "", "this server is stopping: use another").write(w)
	case p != nil:
		p.write(w)
	default:
		s.writeReady(w, alarms)
	}
}

func (s *Server) writeReady(w http.ResponseWriter, alarms []Alarm) {
	answer := api.Ready{Status: "ok", Alarms: alarms}
	if len(alarms) > 0 {
		answer.Status = "degraded"
	}
	if s.cfg.Cluster != nil {
		fresh := s.service.Freshness()
		answer.Freshness = &fresh
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
