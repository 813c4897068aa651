package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"math/bits"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/request"
)

// POST /v1/hits counts hits.
//
// Invariants: a body that arrives slowly keeps no other client out; a body that breaks off counts nothing; no
// request waits for the disk with a place in the pool of hits.

// takeHits is POST /v1/hits.
func (s *Server) takeHits(w http.ResponseWriter, r *http.Request) {
	o, err := readHitsParams(r)
	if err != nil {
		ProblemOf(err).Write(w)
		return
	}
	under := s.hitRequests.Get().(*requestMemory)
	defer s.hitRequests.Put(under)
	client, t := clientOf(r), &under.tally
	if err := s.service.Ingest(client, t); err != nil {
		ProblemOf(err).Write(w)
		return
	}
	if o.durable { // before anything is counted: who is refused may send it again
		if err := s.service.EnterDurable(client); err != nil {
			refuseHits(w, err, o)
			return
		}
		defer s.service.LeaveDurable(client)
	}
	repeated, err := s.countHits(client, t, w, r, o.key)
	if repeated {
		w.Header().Set(ReplayedHeader, "true")
	}
	if o.durable {
		if late := s.service.Sync(r.Context(), t); err == nil {
			err = late
		}
	}
	if err != nil {
		refuseHits(w, err, o)
		return
	}
	w.Header()["Content-Type"] = jsonType
	under.answer = appendHitsAnswer(under.answer[:0], &t.HitsAnswer)
	if _, err := w.Write(under.answer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

// countHits counts the hits of a request while it has a place, which it lets go before
// anybody waits for the disk, or for the client to take the answer.
func (s *Server) countHits(client access.Caller, t *ingest.Tally, w http.ResponseWriter, r *http.Request, key string) (repeated bool, err error) {
	at, err := s.arrive(client, w, r)
	defer at.leave()
	if err != nil {
		return false, err
	}
	contentType := r.Header.Get("Content-Type")
	f, err := BodyFormatOf(contentType)
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
	return s.service.Once(r.Context(), client, key, ingest.Fingerprint(byte(f), whole), t, func() error {
		return s.hits.Count(t, f, contentType, whole)
	})
}

func refuseHits(w http.ResponseWriter, err error, o hitsParams) {
	p := ProblemOf(err)
	advertise(w.Header(), p, o)
	p.Write(w)
}

// advertise names what is accepted when something else was sent, and when to come again.
func advertise(h http.Header, p *Problem, o hitsParams) {
	switch p.Code {
	case api.CodeUnsupportedType:
		h.Set("Accept-Post", AcceptedTypes)
	case api.CodeUnsupportedEncoding:
		h.Set("Accept-Encoding", AcceptedEncodings)
	case api.CodeJournalFailing:
		RetrySoon(h)
	case api.CodeNotDurable:
		if o.key != "" { // or a retry would count twice
			RetrySoon(h)
		}
	}
}

// requestMemory is what a request of hits would otherwise allocate.
type requestMemory struct {
	tally  ingest.Tally
	answer []byte
}

// hitsParams are what a request of hits asks for in addition to its body.
type hitsParams struct {
	durable bool   // answer when the hits are on disk
	key     string // of idempotency; empty: none
}

const (
	durableParam   = "durable"
	ReplayedHeader = "Idempotency-Replayed"
)

// readHitsParams refuses a parameter that is not known: a misspelt durable must not pass for a promise.
func readHitsParams(r *http.Request) (o hitsParams, err error) {
	if r.URL.RawQuery != "" {
		q, err := queryOf(r, ": there is durable=true", durableParam)
		if err != nil {
			return o, err
		}
		if given := q[durableParam]; len(given) > 0 {
			if o.durable, err = strconv.ParseBool(given[0]); err != nil || len(given) > 1 {
				return o, fail(api.CodeInvalidParameter, durableParam, "durable is "+request.Clip(strconv.Quote(strings.Join(given, ",")))+": it must be true or false, once")
			}
		}
	}
	key, bad := ReadKey(r.Header.Values(IdempotencyKey))
	if bad != nil {
		return o, bad
	}
	o.key = key
	return o, nil
}

const hitsDescription = `Three formats for the same hits:

- text/plain: one hit per line, ` + "`key [n [at]]`" + `, separated by spaces or tabs. Keys have no white space or control characters.
- application/x-ndjson: one object ` + "`{\"key\",\"n\",\"at\",\"distinct\"}`" + ` per line.
- application/json: one object, or an array of objects.

n defaults to 1, at to the time of arrival. distinct is an id, in JSON only. Bodies may be compressed (Content-Encoding gzip or zstd). A key is 1 to 512
bytes of UTF-8. Without a Content-Type, or with curl -d's, the first byte distinguishes text and JSON.
With curl use --data-binary: -d strips newlines. Keys that begin with ` + "`limit:`" + ` belong to decisions of limits;
hits of them are rejected with ` + "`reserved_key`" + `.

Hits count once the whole body has arrived. A body that breaks off, or has more than 16 MiB or
100,000 lines (413), counts nothing. An invalid line is listed under ` + "`rejected`" + `; the other lines count.
The answer is an error only if nothing could be counted, or if a JSON array breaks off:
the same members then report what was counted before. Text that begins with ` + "`{`" + ` or ` + "`[`" + ` is refused as
mislabeled JSON: send such keys as JSON.

**Durable.** With ` + "`durable=true`" + ` the answer comes once the hits are on disk; many requests share one write. While
hits do not reach the disk, such requests are refused and count nothing (503, ` + "`journal_failing`" + `). Without it a crash can lose at most one flush interval (` + "`weir serve --flush-every`" + `, by default 100 ms).

**Retries.** A request with an ` + "`Idempotency-Key`" + ` can be repeated with the same key
and body for ten minutes, also after a restart of the server. It counts nothing more, and gets the first answer with the
header ` + "`Idempotency-Replayed: true`" + `. A request that counted nothing is not remembered.

**Overload.** While the disk is slow or full, hits wait in memory. If that buffer is full, they are refused as
` + "`overloaded`" + `: with 503, or, if part of the body was counted, with ` + "`retry_from`" + `, the first line to send
again with another key.`

// hitObject is a hit as the OpenAPI document describes it; jsonParser reads it.
type hitObject struct {
	_   struct{} `additionalProperties:"false"`
	Key string   `json:"key" minLength:"1" maxLength:"512" example:"url:/home" doc:"What is counted; 1 to 512 bytes."`
	N   uint64   `json:"n,omitempty" minimum:"1" maximum:"1099511627776" default:"1" doc:"How many hits."`
	At  atSchema `json:"at,omitempty"`

	Distinct string `json:"distinct,omitempty" maxLength:"512" doc:"An id of 1 to 512 bytes, such as a visitor's. The key counts the different ids of its hits. Only a hash is stored."`
}

type atSchema struct{}

// Schema implements huma.SchemaProvider.
func (atSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeNumber}, {Type: huma.TypeString, Format: "date-time"}},
		Description: "Unix seconds or RFC 3339. Default: now.",
		Examples:    []any{1769860800},
	}
}

// hitsQuestion describes hitsParams.
type hitsQuestion struct {
	Durable bool   `query:"durable" default:"false" doc:"Answer once the hits are on disk."`
	Key     string `header:"Idempotency-Key" minLength:"1" maxLength:"255" doc:"A name for this request that no other has, such as a UUID, to send it again by."`
}

type hitsOutput struct {
	Replayed bool `header:"Idempotency-Replayed" doc:"true: these hits were counted before, under the same Idempotency-Key."`
	Body     api.HitsAnswer
}

// registerHits describes a route whose body huma would hold in memory.
func (s *Server) registerHits(to *router) {
	one := to.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[hitObject](), true, "Hit")
	many := &huma.Schema{Type: huma.TypeArray, Items: one}
	lines := &huma.Schema{Type: huma.TypeString}
	responses := describe[hitsQuestion, hitsOutput](to, route{
		pattern: "POST /v1/hits", id: "hit", need: needOf(auth.Ingest).isHot(),
		codes: []api.Code{
			api.CodeNothingCounted, api.CodeEmptyBody, api.CodeBodyBroken, api.CodeTooLate, api.CodeBodyTimeout, api.CodeBodyTooLarge, api.CodeTooManyLines,
			api.CodeUnsupportedType, api.CodeUnsupportedEncoding, api.CodeOverloaded, api.CodeClosed, api.CodeInvalidParameter, api.CodeUnknownParameter,
			api.CodeInvalidIdempotencyKey, api.CodeKeyReused, api.CodeOnceFull, api.CodeEphemeral, api.CodeNotDurable, api.CodeJournalFailing, api.CodeDurableFull,
		},
		summary: "Count hits", description: hitsDescription,
		body: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"text/plain":           {Schema: lines, Example: "url:/home\nurl:/about 3\nurl:/home 1 1769860800\n"},
			"application/x-ndjson": {Schema: lines, Example: "{\"key\":\"url:/home\"}\n{\"key\":\"url:/about\",\"n\":3}\n"},
			"application/json":     {Schema: &huma.Schema{OneOf: []*huma.Schema{one, many}}, Example: []any{map[string]any{"key": "url:/home", "n": 3}}},
		}},
	}, s.takeHits)
	responses["200"].Description = "At least one hit was counted"
}

var smallBodies = sync.Pool{New: func() any { return new(smallBody) }}

// smallBody is a body that is there before its request is answered.
type smallBody struct {
	arrived
	buffer [SmallBody]byte
}

// bodyPlace is what a body of hits holds while it is counted: one of the pool of hits when it
// is there, one of the uploads when it arrives meanwhile.
type bodyPlace struct {
	pool   *access.Pool
	client access.Caller
	small  *smallBody // nil: the body is read as it arrives
}

// arrive waits for a small body, which r then has at once, and takes a place. leave must be called, also after an
// error.
func (s *Server) arrive(client access.Caller, w http.ResponseWriter, r *http.Request) (at bodyPlace, err error) {
	at.client = client
	if length := r.ContentLength; length < 0 || length > SmallBody {
		return at, s.upload(&at, w, r)
	}
	at.small = smallBodies.Get().(*smallBody)
	c := ConnOf(r)
	c.Waits(true)
	n, end := io.ReadFull(r.Body, at.small.buffer[:r.ContentLength])
	c.Waits(false)
	if end == nil || errors.Is(end, io.EOF) { // of a body of length 0
		end = io.EOF
	}
	at.small.arrived = arrived{whole: at.small.buffer[:n], rest: at.small.buffer[:n], end: end}
	r.Body = &at.small.arrived
	return at, at.enter(s.service.Pools.Hits)
}

// upload takes a place for a body that arrives while it is read.
func (s *Server) upload(at *bodyPlace, w http.ResponseWriter, r *http.Request) error {
	err := at.enter(s.service.Pools.Uploads)
	if err == nil {
		r.Body = NewTimedBody(w, r, s.minRate(), s.cfg.WriteTimeout-s.cfg.ReadTimeout)
	}
	return err
}

// Upload takes a place for a body of another route that arrives while it is read; leave gives it back.
func (s *Server) Upload(w http.ResponseWriter, r *http.Request) (leave func(), err error) {
	at := bodyPlace{client: clientOf(r)}
	if err := s.upload(&at, w, r); err != nil {
		return nil, err
	}
	return at.leave, nil
}

func (at *bodyPlace) enter(pool *access.Pool) error {
	if err := pool.Enter(at.client, 1); err != nil {
		return err
	}
	at.pool = pool
	return nil
}

func (at *bodyPlace) leave() {
	if at.pool != nil {
		at.pool.Leave(at.client, 1)
	}
	if at.small != nil {
		smallBodies.Put(at.small)
	}
}

// arrived is a body that was read before: its bytes, and how it ended.
type arrived struct {
	whole, rest []byte
	end         error // io.EOF: well
}

func (a *arrived) Read(p []byte) (int, error) {
	if len(a.rest) == 0 {
		return 0, a.end
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

func (a *arrived) Close() error { return nil }

// wholeOf is the body of a request that is there as it was sent, or false: it arrives, it
// is compressed, or it broke off.
func wholeOf(r *http.Request) (whole []byte, ok bool) {
	a, ok := r.Body.(*arrived)
	if !ok || len(r.Header["Content-Encoding"]) > 0 || !errors.Is(a.end, io.EOF) {
		return nil, false
	}
	return a.whole, true
}

// firstBuffer is what a body that is read as a whole begins with; it doubles.
// What the client declares is not reserved: it may never send it.
const firstBuffer = 8 << 10

// buffers keep the memory of bodies for later bodies: buffers of firstBuffer bytes, of twice as many, and so on. Larger
// ones are rare, and not kept.
var buffers [6]sync.Pool // of *byte, the first one

// kept is the pool of buffers of a size, nil: there is none.
func kept(size int) *sync.Pool {
	if doubled := bits.Len(uint(size/firstBuffer)) - 1; doubled >= 0 && doubled < len(buffers) {
		return &buffers[doubled]
	}
	return nil
}

// buffer is an empty one of a size.
func buffer(size int) []byte {
	if pool := kept(size); pool != nil {
		if first, ok := pool.Get().(*byte); ok {
			return unsafe.Slice(first, size)[:0]
		}
	}
	return make([]byte, 0, size)
}

// keep gives a buffer back that nobody reads any longer.
func keep(b []byte) {
	if pool := kept(cap(b)); pool != nil {
		pool.Put(unsafe.SliceData(b))
	}
}

// readBody gives all plain bytes of r's body, or why there is not all of it: of a body that
// breaks off nothing is counted. release must be called.
func (s *Server) readBody(client access.Caller, r *http.Request) (whole []byte, release func(), err error) {
	release = func() {}
	if whole, ok := wholeOf(r); ok && int64(len(whole)) <= s.ceilings.MaxBodyBytes {
		return whole, release, nil
	}
	plain, decoder, err := DecodedBody(r, s.ceilings.MaxBodyBytes)
	defer decoder()
	if err != nil {
		return nil, release, err
	}
	return s.ReadWhole(client, plain)
}

// ReadWhole reads a body to its end. All bodies in memory share MaxBufferedBytes; one that does not fit is refused and
// may come again. release gives its share back and must be called: whole is good until then.
func (s *Server) ReadWhole(client access.Caller, from io.Reader) (whole []byte, release func(), err error) {
	pool := s.service.Pools.Buffered
	release = func() {
		pool.Leave(client, int64(cap(whole)))
		keep(whole)
	}
	for {
		if len(whole) == cap(whole) {
			size := max(firstBuffer, 2*cap(whole))
			if err := pool.Enter(client, int64(size-cap(whole))); err != nil {
				return whole, release, err
			}
			grown := append(buffer(size), whole...)
			keep(whole)
			whole = grown
		}
		n, err := from.Read(whole[len(whole):cap(whole)])
		whole = whole[:len(whole)+n]
		switch {
		case errors.Is(err, io.EOF):
			return whole, release, nil
		case err != nil:
			return whole, release, BrokenBody(err, s.ceilings.MaxBodyBytes)
		}
	}
}

// appendHitsAnswer appends what encoding/json makes of an answer, and a newline. Where all hits of a request were
// counted, as in nearly every one, it needs no reflection.
func appendHitsAnswer(b []byte, a *api.HitsAnswer) []byte {
	if len(a.Rejected) > 0 {
		text, err := json.Marshal(a)
		if err != nil {
			panic(err) // numbers and strings only
		}
		return append(append(b, text...), '\n')
	}
	b = strconv.AppendUint(append(b, `{"counted":`...), a.Counted, 10)
	b = strconv.AppendUint(append(b, `,"late":`...), a.Late, 10)
	if a.History > 0 {
		b = strconv.AppendUint(append(b, `,"history":`...), a.History, 10)
	}
	b = strconv.AppendUint(append(b, `,"too_late":`...), a.TooLate, 10)
	b = strconv.AppendInt(append(b, `,"rejected_lines":`...), int64(a.RejectedLines), 10)
	b = append(b, `,"rejected":[]`...)
	if a.RetryFrom != 0 {
		b = strconv.AppendInt(append(b, `,"retry_from":`...), int64(a.RetryFrom), 10)
	}
	if a.Durable {
		b = append(b, `,"durable":true`...)
	}
	return append(b, '}', '\n')
}
