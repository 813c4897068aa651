package decide

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/server/body"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

const (
	// MaxBytes bounds the body of POST /v1/allow: MaxChecks keys of MaxKeyBytes, each
	// byte as an escape of six letters, and what stands between.
	MaxBytes = 256 << 10

	// keptAllowBytes is the largest buffer that is kept for the next request.
	keptAllowBytes = 16 << 10
)

// allowing is the state of one request to POST /v1/allow. It is pooled: its buffers are
// most of what a request would otherwise allocate.
type allowing struct {
	parser   body.AllowParser
	decision admit.Decision
	fields   ratelimitfields.List
	body     []byte
	answer   []byte
}

func newAllowing() any {
	return &allowing{parser: body.NewAllowParser(), body: make([]byte, 0, 512), answer: make([]byte, 0, 1<<10)}
}

// allow is POST /v1/allow.
func (s *Routes) allow(w http.ResponseWriter, r *http.Request) {
	a := s.states.Get().(*allowing)
	if err := s.decide(a, w, r); err != nil {
		p := problem.Of(err)
		advertiseJSON(w.Header(), p)
		p.Write(w)
	} else {
		s.answerAllow(a, w, r)
	}
	if cap(a.body) <= keptAllowBytes && cap(a.answer) <= keptAllowBytes {
		s.states.Put(a)
	}
}

// advertiseJSON names what is accepted when something else was sent.
func advertiseJSON(h http.Header, p *problem.Problem) {
	switch p.Code {
	case api.CodeUnsupportedType:
		h.Set("Accept-Post", "application/json")
	case api.CodeUnsupportedEncoding:
		h.Set("Accept-Encoding", body.AcceptedEncodings)
	}
}

// decide reads the request and asks the limits.
func (s *Routes) decide(a *allowing, w http.ResponseWriter, r *http.Request) error {
	if err := allowParams(r); err != nil {
		return err
	}
	if err := s.readAllow(a, w, r); err != nil {
		return err
	}
	if err := a.parser.Parse(a.body); err != nil {
		return err
	}
	return s.askLimits(a, r, a.parser.Requests, a.parser.Peek)
}

// askLimits asks the limits. A client that hangs up while it waits for its turn gives that to others.
func (s *Routes) askLimits(a *allowing, r *http.Request, requests []admit.Request, peek bool) error {
	a.decision.Context = r.Context()
	err := s.service.Allow(s.caller(r), requests, peek, &a.decision)
	a.decision.Context = nil
	return err
}

// allowParams refuses what a decision can't keep: a take that came again under an
// Idempotency-Key would have to get the first verdict, which is no longer true.
func allowParams(r *http.Request) error {
	if r.URL.RawQuery != "" {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return problem.New(api.CodeInvalidParameter, "", "the query is not one: "+service.Clip(err.Error()))
		}
		for name := range values {
			return problem.New(api.CodeUnknownParameter, service.Clip(name), service.Clip(name)+": unknown query parameter: all that is asked stands in the body")
		}
	}
	if r.Header.Get(body.IdempotencyKey) != "" {
		return problem.New(api.CodeInvalidIdempotencyKey, body.IdempotencyKey,
			"an Idempotency-Key is not taken here, since a verdict holds for its moment only: leave it out, and treat an answer that was lost as admissions that may have been taken")
	}
	return nil
}

// readAllow reads the body into a.body. It takes a place only for a large one: see body.Small.
func (s *Routes) readAllow(a *allowing, w http.ResponseWriter, r *http.Request) error {
	contentType := r.Header.Get("Content-Type")
	if f, err := body.FormatOf(contentType); err != nil || f != body.JSONDocument {
		return problem.New(api.CodeUnsupportedType, "Content-Type", "Content-Type "+service.Clip(strconv.Quote(contentType))+" is not taken: send application/json (curl -H content-type:application/json, or curl --json)")
	}
	limit := min(MaxBytes, s.maxBody)
	if r.Header.Get("Content-Encoding") == "" && r.ContentLength >= 0 && r.ContentLength <= min(limit, body.Small) {
		c := pace.Of(r)
		c.Waits(true)
		defer c.Waits(false)
		return a.read(r.Body, limit) // net/http reads no more than the declared length
	}
	leave, err := s.upload(w, r)
	if err != nil {
		return err
	}
	defer leave()
	plain, release, err := body.Decoded(r, limit)
	defer release()
	if err != nil {
		return err
	}
	return a.read(plain, limit)
}

// read reads from to its end.
func (a *allowing) read(from io.Reader, limit int64) error {
	a.body = a.body[:0]
	for {
		if len(a.body) == cap(a.body) {
			a.body = append(a.body, 0)[:len(a.body)]
		}
		n, err := from.Read(a.body[len(a.body):cap(a.body)])
		a.body = a.body[:len(a.body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return body.Broken(err, limit)
		}
	}
}

// answerAllow writes the verdict: 200, or 429 with the time to wait.
func (s *Routes) answerAllow(a *allowing, w http.ResponseWriter, r *http.Request) {
	d, h := &a.decision, w.Header()
	setRateLimit(h, d, &a.fields)
	h["Content-Type"] = jsonType
	status := http.StatusOK
	if !d.Allowed {
		status = http.StatusTooManyRequests
		h.Set("Retry-After", ratelimitfields.RetryAfter(d.RetryAfter))
		setDenial(h, d)
	}
	a.answer = appendAnswer(a.answer[:0], d)
	w.WriteHeader(status)
	if _, err := w.Write(a.answer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

// jsonType is shared by answers, which do not write to it.
var jsonType = []string{"application/json"}
