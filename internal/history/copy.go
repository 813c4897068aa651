package history

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/wire"
)

const (
	copyPoll  = 250 * time.Millisecond // how often it is asked whether the file is written
	fetchTime = time.Hour              // for all of it
	pieceTime = 15 * time.Second

	fetchSuffix = ".fetch"
)

// fetch copies the history of another node, and has the writer adopt it.
func (p *peers) fetch(ctx context.Context, from peerState) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	p.log.Info("history: copying the history of another node, which has hits that this one lacks", "from", from.origin)
	began := time.Now()
	f := fetch{p: p, subject: copySubject + from.origin, token: rand.Uint64() | 1, path: p.h.store.File() + fetchSuffix}
	defer func() { err = errors.Join(err, remove(f.path)) }()
	if err := f.file(ctx); err != nil {
		return err
	}
	if err := p.h.writer.adopt(ctx, f.path); err != nil {
		return err
	}
	p.log.Info("history: copied the history of another node", "from", from.origin, "bytes", f.size, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// fits returns an error if a copy of so many bytes does not fit here.
func (h *History) fits(bytes int64) error {
	if most := h.cfg.MaxBytes; most > 0 && bytes > most {
		return fmt.Errorf("it has %d bytes, and history may have %d here: raise --history-disk", bytes, most)
	}
	return h.store.CheckSpace(3 * bytes) // the file, the log while it is adopted, and the rows
}

// fetch is one copy of a donor's file.
type fetch struct {
	p       *peers
	subject string
	token   uint64
	path    string
	size    int64
}

func (f *fetch) file(ctx context.Context) (err error) {
	if err := f.prepare(ctx); err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), pieceTime)
		defer cancel()
		_, _, _ = f.ask(ending, askEnd, nil) // without it the donor ends the copy after copyIdle
	}()
	if err := f.p.h.fits(f.size); err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for offset := int64(0); offset < f.size; {
		if err := f.p.h.store.CheckSpace(3*f.size - offset); err != nil { // others fill the disk meanwhile
			return err
		}
		what, piece, err := f.ask(ctx, askPiece, binary.LittleEndian.AppendUint64(nil, uint64(offset)))
		if err != nil {
			return err
		}
		if what != copyPiece || len(piece) == 0 || int64(len(piece)) > f.size-offset {
			return errors.New("the other node answered with something else than a piece of its history")
		}
		if _, err := file.Write(piece); err != nil {
			return err
		}
		offset += int64(len(piece))
	}
	return nil
}

func (f *fetch) prepare(ctx context.Context) error {
	for {
		what, answer, err := f.ask(ctx, askCopy, nil)
		switch {
		case err != nil:
			return err
		case what == copyReady && len(answer) == 16:
			if f.size = int64(binary.LittleEndian.Uint64(answer)); f.size <= 0 {
				return errors.New("the history of the other node has no bytes")
			}
			f.p.mu.Lock()
			f.p.fetching = binary.LittleEndian.Uint64(answer[8:])
			f.p.mu.Unlock()
			return nil
		case what != copyBegun:
			return errors.New("the other node gave an answer that this build does not know")
		}
		if err := concurrency.Sleep(ctx, copyPoll); err != nil {
			return err
		}
	}
}

// ask asks the donor. The answer begins with a byte that says what it is.
func (f *fetch) ask(ctx context.Context, question byte, more []byte) (what byte, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, pieceTime)
	defer cancel()
	data, err := f.p.Request(ctx, f.subject, append(binary.LittleEndian.AppendUint64([]byte{question}, f.token), more...))
	if err != nil {
		return 0, nil, fmt.Errorf("ask the other node for its history: %w", err)
	}
	if len(data) == 0 {
		return 0, nil, errors.New("the other node gave no answer that can be read")
	}
	if data[0] == copyRefused {
		return 0, nil, fmt.Errorf("the other node refuses: %.300q", data[1:])
	}
	version, r, err := wire.Open(data, data[0])
	if err == nil && version != copyVersion {
		err = fmt.Errorf("version %d: run the same build on all nodes", version)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("the answer of the other node can't be used: %w", err)
	}
	return data[0], r.Rest(), nil
}
