package replay

import (
	"context"
	"io"
)

// pump lets a Read of the standard input end with its context. Such a Read
// cannot be broken off, so it runs in a goroutine of its own; at the end of the
// context that one is left behind, blocked, with nothing but its own buffer.
type pump struct {
	ctx  context.Context
	full chan []byte // what was read; closed after the last
	free chan []byte // the buffer back, once it was copied out
	rest []byte      // not copied out yet
	held []byte      // the buffer that rest is part of
	err  error       // why full was closed; read after that
}

const pumpBytes = 128 << 10

func newPump(ctx context.Context, r io.Reader) *pump {
	p := &pump{ctx: ctx, full: make(chan []byte), free: make(chan []byte, 2)}
	p.free <- make([]byte, pumpBytes)
	p.free <- make([]byte, pumpBytes)
	go p.run(r)
	return p
}

func (p *pump) run(r io.Reader) {
	defer close(p.full)
	for {
		select {
		case b := <-p.free:
			n, err := r.Read(b[:pumpBytes])
			select {
			case p.full <- b[:n]:
			case <-p.ctx.Done():
				return
			}
			if err != nil {
				p.err = err
				return
			}
		case <-p.ctx.Done():
			return
		}
	}
}

func (p *pump) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.held != nil {
			p.free <- p.held
			p.held = nil
		}
		select {
		case full, ok := <-p.full:
			if !ok {
				if p.err == nil {
					return 0, p.ctx.Err()
				}
				return 0, p.err
			}
			p.held, p.rest = full, full
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}
