package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"math/bits"
	"net/http"
	"strconv"
	"sync"
	"unsafe"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/access"
)

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

// buffers are of bodies that were read, for the next ones: of firstBuffer bytes, of twice as many, and so on. Larger
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
