package server

import (
	"errors"
	"io"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
)

// firstBuffer is what a body that is read as a whole begins with; it doubles.
// What the client declares is not reserved: it may never send it.
const firstBuffer = 8 << 10

// readWhole reads a body to its end. All bodies in memory share
// MaxBufferedBytes; one that finds no room is refused and may come again.
// release gives the room back and must be called.
func (s *Server) readWhole(body io.Reader) (whole []byte, release func(), p *problem) {
	release = func() { s.buffered.Add(-int64(cap(whole))) }
	for {
		if len(whole) == cap(whole) {
			size := max(firstBuffer, 2*cap(whole))
			if more := int64(size - cap(whole)); s.buffered.Add(more) > s.cfg.MaxBufferedBytes {
				s.buffered.Add(-more)
				s.metrics.refused.Inc()
				return whole, release, newProblem(weir.CodeOverloaded, "", "too many bodies with an Idempotency-Key are being read (over "+
					units.FormatSize(s.cfg.MaxBufferedBytes)+" in all): try again later, or send smaller batches")
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
