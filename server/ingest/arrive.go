package ingest

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/weir-counter/weir/server/body"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/service"
)

var smallBodies = sync.Pool{New: func() any { return new(smallBody) }}

// smallBody is a body that is there before its request is answered.
type smallBody struct {
	arrived
	buffer [body.Small]byte
}

// bodyPlace is what a body of hits holds while it is counted: one of the pool of hits when it
// is there, one of the uploads when it arrives meanwhile.
type bodyPlace struct {
	pool   *service.Pool
	client service.Caller
	small  *smallBody // nil: the body is read as it arrives
}

// arrive waits for a small body, which r then has at once, and takes a place. leave
// must be called, also beside an error.
func (s *Routes) arrive(client service.Caller, w http.ResponseWriter, r *http.Request) (at bodyPlace, err error) {
	at.client = client
	if length := r.ContentLength; length < 0 || length > body.Small {
		return at, s.upload(&at, w, r)
	}
	at.small = smallBodies.Get().(*smallBody)
	c := pace.Of(r)
	c.Waits(true)
	n, end := io.ReadFull(r.Body, at.small.buffer[:r.ContentLength])
	c.Waits(false)
	if end == nil || errors.Is(end, io.EOF) { // of a body of length 0
		end = io.EOF
	}
	at.small.arrived = arrived{whole: at.small.buffer[:n], rest: at.small.buffer[:n], end: end}
	r.Body = &at.small.arrived
	return at, at.enter(s.cfg.Service.Pools.Hits)
}

// upload takes a place for a body that arrives while it is read.
func (s *Routes) upload(at *bodyPlace, w http.ResponseWriter, r *http.Request) error {
	err := at.enter(s.cfg.Service.Pools.Uploads)
	if err == nil {
		r.Body = pace.NewBody(w, r, s.cfg.Pace, s.cfg.Pause)
	}
	return err
}

// Upload takes a place for a body of another route that arrives while it is read; leave gives it back.
func (s *Routes) Upload(w http.ResponseWriter, r *http.Request) (leave func(), err error) {
	at := bodyPlace{client: s.cfg.Caller(r)}
	if err := s.upload(&at, w, r); err != nil {
		return nil, err
	}
	return at.leave, nil
}

func (at *bodyPlace) enter(pool *service.Pool) error {
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
