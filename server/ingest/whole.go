package ingest

import (
	"errors"
	"io"
	"math/bits"
	"net/http"
	"sync"
	"unsafe"

	"github.com/weir-counter/weir/server/body"
	"github.com/weir-counter/weir/service"
)

// firstBuffer is what a body that is read as a whole begins with; it doubles.
// What the client declares is not reserved: it may never send it.
const firstBuffer = 8 << 10

// buffers are those of bodies that were read, for the next ones: of firstBuffer bytes, of twice as many, and so on.
// Larger ones are rare, and not kept.
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
func (s *Routes) readBody(client service.Caller, r *http.Request) (whole []byte, release func(), err error) {
	release = func() {}
	if whole, ok := wholeOf(r); ok && int64(len(whole)) <= s.maxBody {
		return whole, release, nil
	}
	plain, decoder, err := body.Decoded(r, s.maxBody)
	defer decoder()
	if err != nil {
		return nil, release, err
	}
	return s.ReadWhole(client, plain)
}

// ReadWhole reads a body to its end. All bodies in memory share
// MaxBufferedBytes; one that finds no room is refused and may come again.
// release gives the room back and must be called: whole is good until then.
func (s *Routes) ReadWhole(client service.Caller, from io.Reader) (whole []byte, release func(), err error) {
	pool := s.cfg.Service.Pools.Buffered
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
			return whole, release, body.Broken(err, s.maxBody)
		}
	}
}
