package protocol

import "io"

// Fill receives more: it waits for the source once. The error is that of the source, or of
// reserve, or an *Error for a request that is too large. io.EOF within a request is io.ErrUnexpectedEOF.
func (r *Reader) Fill() error {
	if err := r.makeRoom(); err != nil {
		return err
	}
	n, err := r.source.Read(r.buf[r.end:])
	r.end += n
	switch {
	case n > 0:
		return nil // what it failed by, it fails by again
	case err == io.EOF && r.Partial():
		return io.ErrUnexpectedEOF
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}

// makeRoom leaves at least a quarter of the buffer for what comes.
func (r *Reader) makeRoom() error {
	held := r.end - r.start
	switch {
	case held == 0 && len(r.buf) > r.limits.Buffer:
		_ = r.reserve(r.limits.Buffer - len(r.buf)) // giving back does not fail
		r.buf = make([]byte, r.limits.Buffer)
	case len(r.buf)-r.end >= len(r.buf)/4:
		return nil
	case held > len(r.buf)-len(r.buf)/4:
		if err := r.grow(held); err != nil {
			return err
		}
	case r.start > 0:
		copy(r.buf, r.buf[r.start:r.end])
	}
	r.at -= r.start
	r.start, r.end = 0, held
	return nil
}

// grow doubles the buffer for a request of which held bytes have come, up to the largest
// request.
func (r *Reader) grow(held int) error {
	size := min(2*len(r.buf), r.limits.Request)
	switch {
	case held >= size:
		return r.tooLarge()
	case size > len(r.buf):
		if err := r.reserve(size - len(r.buf)); err != nil {
			return err
		}
		grown := make([]byte, size)
		copy(grown, r.buf[r.start:r.end])
		r.buf = grown
	case r.start > 0:
		copy(r.buf, r.buf[r.start:r.end])
	}
	return nil
}

// Release gives back what was reserved. The Reader is not to be used after it.
func (r *Reader) Release() {
	if more := len(r.buf) - r.limits.Buffer; more > 0 {
		_ = r.reserve(-more) // giving back does not fail
	}
	r.giveBackArgs()
}

// reserveArg makes room for one more argument, twice as much as there is where there is none.
func (r *Reader) reserveArg() error {
	have := len(r.spans)
	if have < cap(r.spans) || have < keptArgs {
		return nil
	}
	if err := r.reserve(have * argBytes); err != nil {
		return err
	}
	r.taken += have * argBytes
	grown := make([]span, have, 2*have)
	copy(grown, r.spans)
	r.spans, r.args = grown, make([][]byte, 0, 2*have)
	return nil
}

func (r *Reader) giveBackArgs() {
	if r.taken > 0 {
		_ = r.reserve(-r.taken) // giving back does not fail
		r.taken = 0
	}
}
