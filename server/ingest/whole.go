package ingest

import (
	"errors"
	"io"
	"net/http"

	"github.com/weir-counter/weir/server/body"
	"github.com/weir-counter/weir/service"
)

// firstBuffer is what a body that is read as a whole begins with; it doubles.
// What the client declares is not reserved: it may never send it.
const firstBuffer = 8 << 10

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
// release gives the room back and must be called.
func (s *Routes) ReadWhole(client service.Caller, from io.Reader) (whole []byte, release func(), err error) {
	release = func() { s.cfg.Service.Pools.Buffered.Leave(client, int64(cap(whole))) }
	for {
		if len(whole) == cap(whole) {
			size := max(firstBuffer, 2*cap(whole))
			if err := s.cfg.Service.Pools.Buffered.Enter(client, int64(size-cap(whole))); err != nil {
				return whole, release, err
			}
			grown := make([]byte, len(whole), size)
			copy(grown, whole)
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
