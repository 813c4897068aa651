package server

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/problem"
)

// healthz says that the process lives; restarting it when this fails is right.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { writeOK(w) }

// readyz says whether to send requests here, and what is wrong.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	answer, refusing := s.service.Ready()
	switch {
	case s.draining.Load():
		problem.New(api.CodeStopping, "", "this server is stopping: use another").Write(w)
	case refusing != nil:
		p := problem.New(api.CodeJournalFailing, "", refusing.Message)
		p.Code, p.Alarms = api.Code(refusing.Code), answer.Alarms
		p.Write(w)
	default:
		writeReady(w, answer)
	}
}

func writeReady(w http.ResponseWriter, answer api.Ready) {
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
