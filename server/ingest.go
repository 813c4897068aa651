package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// feedBytes is the least a feed holds: large enough that a batch is a handful
// of reads, small enough for one per request in flight.
const feedBytes = 64 << 10

// ingest is the state of one body of hits. It is pooled: its buffers are all
// that a request would otherwise allocate. The largest, the feed's, it has only while
// the body is counted.
type ingest struct {
	server     *Server
	feed       feed
	json       jsonParser
	answer     service.Tally
	line       int       // of the record being read, from 1
	overloaded int       // records refused because the journal was behind
	now        time.Time // for hits without a time
	nowOf      int       // feed.reads when now was read

	tooLong *rejection
}

func (s *Server) newIngestPool() *sync.Pool {
	size := max(feedBytes, 2*s.cfg.MaxLineBytes)
	tooLong := &rejection{api.CodeLineTooLong, fmt.Sprintf("a line has at most %d bytes", s.cfg.MaxLineBytes)}
	s.feeds = &sync.Pool{New: func() any { b := make([]byte, size); return &b }}
	return &sync.Pool{New: func() any { return &ingest{server: s, tooLong: tooLong} }}
}

// hits is POST /v1/hits.
func (s *Server) hits(w http.ResponseWriter, r *http.Request) {
	o, p := s.hitsParams(r)
	if p != nil {
		p.write(w)
		return
	}
	if o.durable { // before anything is counted: who is refused may send it again
		if err := s.service.RefuseDurable(); err != nil {
			refuseHits(w, asProblem(err), o)
			return
		}
		client := clientOf(r)
		if !s.service.Pools.Durable.Enter(client, 1) {
			refuseHits(w, asProblem(s.service.Pools.Durable.Full()), o)
			return
		}
		defer s.service.Pools.Durable.Leave(client, 1)
	}
	in := s.ingests.Get().(*ingest)
	defer s.ingests.Put(in)
	in.reset()
	p, repeated := in.take(w, r, o.key)
	if repeated {
		s.metrics.replayed.Inc()
		w.Header().Set(replayedHeader, "true")
	} else {
		in.observe()
	}
	if o.durable && in.answer.Counted > 0 {
		if err := s.service.Sync(r.Context(), &in.answer); err != nil && p == nil {
			p = asProblem(err)
			p.HitsAnswer = &in.answer.HitsAnswer
		}
	}
	if p != nil {
		refuseHits(w, p, o)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(&in.answer.HitsAnswer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

// take counts the hits of a request while it has a place, which it lets go before
// anybody waits for the disk, or for the client to take the answer.
func (in *ingest) take(w http.ResponseWriter, r *http.Request, key string) (p *problem, repeated bool) {
	at, p := in.server.arrive(w, r)
	defer at.leave()
	switch {
	case p != nil:
		return p, false
	case key == "":
		return in.unnamed(r), false
	}
	return in.once(r, key)
}

// unnamed counts a body without an idempotency key.
func (in *ingest) unnamed(r *http.Request) *problem {
	f, whole, release, p := in.open(r)
	defer release()
	if p != nil {
		return p
	}
	return in.parse(f, r.Header.Get("Content-Type"), bytes.NewReader(whole))
}

func refuseHits(w http.ResponseWriter, p *problem, o hitsParams) {
	advertise(w.Header(), p, o)
	p.write(w)
}

func (in *ingest) reset() {
	in.line, in.overloaded = 0, 0
	in.answer.Reset()
}

// observe counts what was not taken.
func (in *ingest) observe() {
	in.server.metrics.rejectedLines.Add(float64(in.answer.RejectedLines))
	in.server.metrics.overloaded.Add(float64(in.overloaded))
}

// advertise names what is accepted when something else was sent, and when to
// come again.
func advertise(h http.Header, p *problem, o hitsParams) {
	switch p.Code {
	case api.CodeUnsupportedType:
		h.Set("Accept-Post", acceptedTypes)
	case api.CodeUnsupportedEncoding:
		h.Set("Accept-Encoding", acceptedEncodings)
	case api.CodeOverloaded, api.CodeOnceFull, api.CodeDurableFull, api.CodeJournalFailing:
		h.Set("Retry-After", "1")
	case api.CodeNotDurable:
		if o.key != "" { // or a retry would count twice
			h.Set("Retry-After", "1")
		}
	}
}

// open gives the declared format of r's body and all its plain bytes: of a body that breaks
// off, or is too long, nothing is counted. release must be called.
func (in *ingest) open(r *http.Request) (f format, whole []byte, release func(), p *problem) {
	if f, p = formatOf(r.Header.Get("Content-Type")); p != nil {
		return f, nil, func() {}, p
	}
	body, decoder, p := decoded(r, in.server.cfg.MaxBodyBytes)
	defer decoder()
	if p != nil {
		return f, nil, func() {}, p
	}
	release = func() {}
	whole, ok := wholeOf(r)
	if !ok {
		whole, release, p = in.server.readWhole(clientOf(r), body)
	}
	if p == nil {
		p = in.overlong(f, whole)
	}
	return f, whole, release, p
}

// parse counts the hits of a body. The problem it returns says what was counted
// before.
func (in *ingest) parse(f format, contentType string, body io.Reader) *problem {
	buffer := in.server.feeds.Get().(*[]byte)
	defer in.server.feeds.Put(buffer)
	in.feed.buf = *buffer
	in.feed.reset(body)
	defer func() { in.feed = feed{} }() // the pool must not hold the request
	in.nowOf = -1

	start := in.peekLine()
	if isForm(contentType, start) {
		return newProblem(api.CodeUnsupportedType, "Content-Type",
			"an HTML form is not taken: send lines `key [n [at]]` with curl -H 'Content-Type: text/plain' --data-binary")
	}
	if f == textLines && isJSON(start) {
		return newProblem(api.CodeUnsupportedType, "Content-Type",
			"the body begins as JSON, and was declared as text/plain: send it as application/json or application/x-ndjson (curl --json); a key that begins with { or [ is sent as JSON")
	}
	maxLine := in.server.cfg.MaxLineBytes
	var end error
	switch sniff(f, start) {
	case textLines:
		end = in.each(lines{&in.feed, maxLine}, parseTextHit)
	case jsonLines:
		end = in.each(lines{&in.feed, maxLine}, in.json.parse)
	default:
		end = in.each(&elements{feed: &in.feed, maxBytes: maxLine}, in.json.parse)
	}
	p := in.verdict(end)
	if p != nil && in.line > 0 {
		p.HitsAnswer = &in.answer.HitsAnswer
	}
	return p
}

// peekLine reads up to the first newline, or as much as fits, and takes nothing.
func (in *ingest) peekLine() []byte {
	for bytes.IndexByte(in.feed.buf[in.feed.r:in.feed.w], '\n') < 0 && in.feed.more() {
	}
	return in.feed.buf[in.feed.r:in.feed.w]
}

// each counts the records of a body and returns what ended it.
func (in *ingest) each(records splitter, parse func([]byte) (h hit, blank bool, rej *rejection)) error {
	for {
		record, tooLong, err := records.next()
		if err != nil && !errors.Is(err, errBrokenJSON) {
			return err
		}
		in.line++
		switch {
		case err != nil:
			in.reject(rejectBroken)
			return io.EOF
		case in.answer.RetryFrom > 0:
			// One line to begin again from, whatever a flush freed meanwhile.
			in.overloaded++
			in.reject(rejectOverloaded)
			continue
		case tooLong:
			in.reject(in.tooLong)
			continue
		}
		h, blank, rej := parse(record)
		switch {
		case blank:
		case rej != nil:
			in.reject(rej)
		default:
			if err := in.count(h); err != nil {
				return err
			}
			if in.answer.RetryFrom > 0 {
				in.overloaded++
			}
		}
	}
}

func (in *ingest) reject(r *rejection) { in.answer.Reject(in.line, r.code, r.message) }

var rejectOverloaded = &rejection{api.CodeOverloaded, "the journal is behind and its buffer is full: send this line and those after it again in a second"}

var rejectBroken = &rejection{api.CodeInvalidJSON, "not valid JSON here; the rest of the body was not read"}

// count gives one hit to the engine. It returns an error when no further
// hit can be counted.
func (in *ingest) count(h hit) error {
	at := h.at
	if !h.hasAt {
		if in.nowOf != in.feed.reads {
			in.now, in.nowOf = in.server.service.Now(), in.feed.reads
		}
		at = in.now
	}
	return in.server.service.Hit(&in.answer, in.line, at, h.key, h.n)
}

// verdict turns what ended a body into the problem to answer, or none.
func (in *ingest) verdict(end error) *problem {
	a := &in.answer
	var e *weir.Error
	switch {
	case errors.As(end, &e):
		return asProblem(end)
	case !errors.Is(end, io.EOF):
		p := bodyProblem(end, in.server.cfg.MaxBodyBytes)
		if a.Counted > 0 {
			p.Detail += fmt.Sprintf("; the %d hits before that were counted", a.Counted)
		}
		return p
	case a.Counted > 0:
		return nil
	case a.RetryFrom > 0:
		return newProblem(api.CodeOverloaded, "", "nothing was counted: "+a.Overload)
	case a.RejectedLines > 0:
		first := a.Rejected[0]
		what := fmt.Sprintf("none of the %d lines could be counted", a.RejectedLines)
		if a.RejectedLines == 1 {
			what = "the hit could not be counted"
		}
		return newProblem(api.CodeNothingCounted, "", fmt.Sprintf("%s; line %d: %s", what, first.Line, first.Message))
	case a.TooLate > 0:
		what := fmt.Sprintf("all %d hits are", a.TooLate)
		if a.TooLate == 1 {
			what = "the hit is"
		}
		return newProblem(api.CodeTooLate, "", what+" older than the retention")
	default:
		return newProblem(api.CodeEmptyBody, "", "the body has no hits: send lines `key [n [at]]`, NDJSON, or JSON")
	}
}
