package history

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/wire"
)

// A node whose history lacks hits copies the file of another one, the donor: a question 'P' with a token asks for a file of
// what the donor has at one moment, and is sent again until that is written; 'R' with the token and an offset asks for a piece;
// 'E' with the token ends it. Offsets and tokens have 8 bytes, little endian. An answer begins with one of the bytes below.
// A donor has one copy at a time, and removes it when nothing was asked for copyIdle. What was interrupted starts over.
const (
	askCopy, askPiece, askEnd = 'P', 'R', 'E'

	copyRefused = '-' // why
	copyBegun   = '+'
	copyReady   = '=' // 8 bytes each: size, first message of the journal that is needed after it, and 4: CRC32C of the file
	copyPiece   = '>' // the bytes

	pieceBytes = 128 << 10

	copyPoll  = 250 * time.Millisecond // how often it is asked whether the file is written
	copyIdle  = 30 * time.Second
	copyTime  = 15 * time.Minute // for the file of the donor
	fetchTime = time.Hour        // for all of it
	pieceTime = 15 * time.Second

	copySuffix, fetchSuffix = ".copy", ".fetch"
)

// donor writes a copy of this node's file and hands it out.
type donor struct {
	p *peers

	mu    sync.Mutex
	ended bool
	token uint64 // of the copy; 0: there is none
	used  time.Time
	stop  context.CancelFunc
	done  chan struct{} // closed when it is written, or failed
	err   error
	first uint64 // message of the journal that is needed after it
	size  int64
	sum   uint32
	file  *os.File
}

// needs is the first message of the journal that a copy needs; 0: there is none.
func (d *donor) needs() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first
}

// answer answers a question.
func (d *donor) answer(question []byte) []byte {
	if len(question) < 9 {
		return nil
	}
	token := binary.LittleEndian.Uint64(question[1:])
	d.mu.Lock()
	defer d.mu.Unlock()
	answer, err := []byte(nil), error(nil)
	switch {
	case token == 0 || d.ended:
		err = errors.New("this node stops")
	case question[0] == askCopy:
		answer, err = d.prepare(token)
	case token != d.token:
		err = errors.New("there is no such copy any more")
	case question[0] == askPiece && len(question) == 17:
		answer, err = d.piece(int64(binary.LittleEndian.Uint64(question[9:])))
	case question[0] == askEnd:
		d.drop()
		return []byte{copyBegun}
	}
	if err != nil {
		return append([]byte{copyRefused}, err.Error()...)
	}
	return answer
}

func (d *donor) prepare(token uint64) ([]byte, error) {
	switch {
	case d.token != 0 && d.token != token:
		return nil, errors.New("another node copies the history of this one")
	case d.token == 0:
		if err := d.begin(token); err != nil {
			return nil, err
		}
	}
	d.used = time.Now()
	select {
	case <-d.done:
	default:
		return []byte{copyBegun}, nil
	}
	if d.err != nil {
		defer d.drop()
		return nil, d.err
	}
	b := binary.LittleEndian.AppendUint64([]byte{copyReady}, uint64(d.size))
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, d.first), d.sum), nil
}

// begin begins to write a copy. The journal keeps what comes after it from now on.
func (d *donor) begin(token uint64) error {
	is := d.p.h.writer.Status()
	s := d.p.h.store
	if !is.Known || is.Err != nil {
		return errors.New("the history of this node does not go on")
	}
	if err := s.CheckRoom(2 * s.FileSize()); err != nil { // as much stays free as it takes
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), copyTime)
	d.token, d.stop, d.done, d.err, d.first = token, stop, make(chan struct{}), nil, is.Message+1
	go func(done chan struct{}) {
		defer close(done)
		d.file, d.size, d.sum, d.err = d.write(ctx)
	}(d.done)
	return nil
}

// write writes the copy.
func (d *donor) write(ctx context.Context) (file *os.File, size int64, sum uint32, err error) {
	path := d.p.h.store.File() + copySuffix
	if err := d.p.h.store.CopyTo(ctx, path); err != nil {
		return nil, 0, 0, errors.Join(err, remove(path))
	}
	if file, err = os.Open(path); err != nil {
		return nil, 0, 0, errors.Join(err, remove(path))
	}
	var hash sumWriter
	if size, err = io.Copy(&hash, file); err != nil {
		return nil, 0, 0, errors.Join(err, file.Close(), remove(path))
	}
	return file, size, hash.sum, nil
}

// sumWriter sums up what is written.
type sumWriter struct{ sum uint32 }

func (w *sumWriter) Write(b []byte) (int, error) {
	w.sum = wire.AddSum(w.sum, b)
	return len(b), nil
}

func (d *donor) piece(offset int64) ([]byte, error) {
	select {
	case <-d.done:
	default:
		return nil, errors.New("the copy is not written yet")
	}
	if d.err != nil || offset < 0 || offset >= d.size {
		return nil, errors.Join(errors.New("the copy has no such piece"), d.err)
	}
	d.used = time.Now()
	piece := make([]byte, 1+min(pieceBytes, d.size-offset))
	piece[0] = copyPiece
	_, err := d.file.ReadAt(piece[1:], offset)
	return piece, err
}

// expire removes a copy for which nobody asks any more.
func (d *donor) expire(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.token != 0 && now.Sub(d.used) > copyIdle {
		d.drop()
	}
}

// drop ends the copy, if there is one.
func (d *donor) drop() {
	if d.token == 0 {
		return
	}
	d.stop()
	<-d.done // soon: the statement is interrupted
	if d.file != nil {
		if err := errors.Join(d.file.Close(), remove(d.file.Name())); err != nil {
			d.p.log.Warn("history: could not remove the copy that another node fetched", "error", err)
		}
	}
	d.token, d.first, d.file = 0, 0, nil
}

// end ends the copy for good.
func (d *donor) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	d.drop()
}

// remove removes a file of SQLite that may not be there, and those next to it.
func remove(path string) (err error) {
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		if failed := os.Remove(path + suffix); !errors.Is(failed, os.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// fetch copies the history of another node, and has the writer adopt it.
func (p *peers) fetch(ctx context.Context, from peerState) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	p.log.Info("history: copies the history of another node, which has hits that this one lacks", "from", from.origin)
	began := time.Now()
	f := fetch{p: p, subject: copySubject + from.origin, token: rand.Uint64() | 1, path: p.h.store.File() + fetchSuffix}
	defer func() { err = errors.Join(err, remove(f.path)) }()
	if err := f.file(ctx); err != nil {
		return err
	}
	if err := p.h.writer.adopt(ctx, f.path); err != nil {
		return err
	}
	p.log.Info("history: has the history of another node", "from", from.origin, "bytes", f.size, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// fetch is one copy of a donor's file.
type fetch struct {
	p       *peers
	subject string
	token   uint64
	path    string
	size    int64
	sum     uint32
}

// file writes the donor's file to path.
func (f *fetch) file(ctx context.Context) (err error) {
	if err := f.prepare(ctx); err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), pieceTime)
		defer cancel()
		_, _ = f.ask(ending, askEnd, nil) // the donor ends it soon without
	}()
	if most := f.p.h.cfg.MaxBytes; most > 0 && f.size > most {
		return fmt.Errorf("it has %d bytes, and history may have %d here: raise --history-disk", f.size, most)
	}
	if err := f.p.h.store.CheckRoom(3 * f.size); err != nil { // the file, the log while it is adopted, and the rows
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var hash sumWriter
	for offset := int64(0); offset < f.size; {
		piece, err := f.ask(ctx, askPiece, binary.LittleEndian.AppendUint64(nil, uint64(offset)))
		if err != nil {
			return err
		}
		if len(piece) < 2 || piece[0] != copyPiece || int64(len(piece)-1) > f.size-offset {
			return errors.New("the other node answered with something else than a piece of its history")
		}
		if _, err := io.MultiWriter(file, &hash).Write(piece[1:]); err != nil {
			return err
		}
		offset += int64(len(piece) - 1)
	}
	if hash.sum != f.sum {
		return errors.New("the copy differs from the history of the other node")
	}
	return nil
}

// prepare waits until the donor has a file.
func (f *fetch) prepare(ctx context.Context) error {
	for {
		answer, err := f.ask(ctx, askCopy, nil)
		if err != nil {
			return err
		}
		if answer[0] == copyReady && len(answer) == 21 {
			f.size, f.sum = int64(binary.LittleEndian.Uint64(answer[1:])), binary.LittleEndian.Uint32(answer[17:])
			if f.size <= 0 {
				return errors.New("the history of the other node has no bytes")
			}
			f.p.mu.Lock()
			f.p.fetching = binary.LittleEndian.Uint64(answer[9:])
			f.p.mu.Unlock()
			return nil
		}
		if answer[0] != copyBegun {
			return errors.New("the other node gave an answer that this build does not know")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(copyPoll):
		}
	}
}

// ask asks the donor.
func (f *fetch) ask(ctx context.Context, what byte, more []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pieceTime)
	defer cancel()
	answer, err := f.p.Request(ctx, f.subject, append(binary.LittleEndian.AppendUint64([]byte{what}, f.token), more...))
	if err != nil {
		return nil, fmt.Errorf("ask the other node for its history: %w", err)
	}
	if len(answer) == 0 {
		return nil, errors.New("the other node gave no answer that can be read")
	}
	if answer[0] == copyRefused {
		return nil, fmt.Errorf("the other node refuses: %.300q", answer[1:])
	}
	return answer, nil
}
