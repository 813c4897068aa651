package server

import (
	"errors"
	"github.com/weir-counter/weir/service"
	"io"
)

// firstBuffer is what a body that is read as a whole begins with; it doubles.
// What the client declares is not reserved: it may never send it.
const firstBuffer = 8 << 10

// readWhole reads a body to its end. All bodies in memory share
// MaxBufferedBytes; one that finds no room is refused and may come again.
// release gives the room back and must be called.
func (s *Server) readWhole(client service.Caller, body io.Reader) (whole []byte, release func(), p *problem) {
	release = func() { s.service.Pools.Buffered.Leave(client, int64(cap(whole))) }
	for {
		if len(whole) == cap(whole) {
			size := max(firstBuffer, 2*cap(whole))
			if !s.service.Pools.Buffered.Enter(client, int64(size-cap(whole))) {
				return whole, release, asProblem(s.service.Pools.Buffered.Full())
			}
			grown := make([]byte, len(whole), size)
			copy(grown, whole)
			whole = grown
		}
		n, err := body.Read(whole[len(whole):cap(whole)])
		whole = whole[:len(whole)+n]
		switch {
		case errors.Is(err, io.EOF):
			return whole, release, nil
		case err != nil:
			return whole, release, bodyProblem(err, s.cfg.MaxBodyBytes)
		}
	}
}
