package ingest

import (
	"net/http"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/body"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

// takeHits is POST /v1/hits.
func (s *Routes) takeHits(w http.ResponseWriter, r *http.Request) {
	o, p := readHitsParams(r)
	if p != nil {
		p.Write(w)
		return
	}
	under := s.requests.Get().(*request)
	defer s.requests.Put(under)
	client, t := s.cfg.Caller(r), &under.tally
	if err := s.cfg.Service.Ingest(client, t); err != nil {
		problem.Of(err).Write(w)
		return
	}
	if o.durable { // before anything is counted: who is refused may send it again
		if err := s.cfg.Service.EnterDurable(client); err != nil {
			refuseHits(w, err, o)
			return
		}
		defer s.cfg.Service.LeaveDurable(client)
	}
	repeated, err := s.countHits(client, t, w, r, o.key)
	if repeated {
		w.Header().Set(ReplayedHeader, "true")
	}
	if o.durable {
		if late := s.cfg.Service.Sync(r.Context(), t); err == nil {
			err = late
		}
	}
	if err != nil {
		refuseHits(w, err, o)
		return
	}
	w.Header()["Content-Type"] = jsonType
	under.answer = appendAnswer(under.answer[:0], &t.HitsAnswer)
	if _, err := w.Write(under.answer); err != nil {
		s.cfg.Log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

// countHits counts the hits of a request while it has a place, which it lets go before
// anybody waits for the disk, or for the client to take the answer.
func (s *Routes) countHits(client service.Caller, t *service.Tally, w http.ResponseWriter, r *http.Request, key string) (repeated bool, err error) {
	at, err := s.arrive(client, w, r)
	defer at.leave()
	if err != nil {
		return false, err
	}
	contentType := r.Header.Get("Content-Type")
	f, err := body.FormatOf(contentType)
	if err != nil {
		return false, err
	}
	whole, release, err := s.readBody(client, r)
	defer release()
	if err == nil {
		err = s.hits.Check(f, whole)
	}
	switch {
	case err != nil:
		return false, err
	case key == "":
		return false, s.hits.Count(t, f, contentType, whole)
	}
	return s.cfg.Service.Once(r.Context(), client, key, service.Fingerprint(byte(f), whole), t, func() error {
		return s.hits.Count(t, f, contentType, whole)
	})
}

func refuseHits(w http.ResponseWriter, err error, o hitsParams) {
	p := problem.Of(err)
	advertise(w.Header(), p, o)
	p.Write(w)
}

// advertise names what is accepted when something else was sent, and when to
// come again.
func advertise(h http.Header, p *problem.Problem, o hitsParams) {
	switch p.Code {
	case api.CodeUnsupportedType:
		h.Set("Accept-Post", body.AcceptedTypes)
	case api.CodeUnsupportedEncoding:
		h.Set("Accept-Encoding", body.AcceptedEncodings)
	case api.CodeJournalFailing:
		problem.RetrySoon(h)
	case api.CodeNotDurable:
		if o.key != "" { // or a retry would count twice
			problem.RetrySoon(h)
		}
	}
}
