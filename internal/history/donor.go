package history

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/wire"
)

// A node whose history lacks hits copies the SQLite file of another node, the donor. A question has a byte that says what is asked,
// and an 8-byte token that the asking node chose. askPiece has an 8-byte offset too. Numbers are little endian.
//
//	askCopy   write a file with what the donor has at one moment; asked again until it is written
//	askPiece  a piece of the file
//	askEnd    remove the file
//
// An answer is a frame (package wire), whose checksum protects the piece, or copyRefused and the reason as text. A donor has one
// copy at a time, and removes it if nothing is asked for copyIdle. A copy that was interrupted starts over.
const (
	askCopy, askPiece, askEnd = 'P', 'R', 'E'

	copyRefused = '-'
	copyBegun   = '+'
	copyReady   = '=' // 8 bytes each: size, and first message of the journal that is needed with it
	copyPiece   = '>' // bytes of the file
	copyVersion = 2

	pieceBytes = 128 << 10

	copyIdle = 30 * time.Second
	copyTime = 15 * time.Minute // for the file of the donor

	copySuffix = ".copy"
)

// donor writes a copy of this node's file, and answers with pieces of it.
type donor struct {
	h       *History
	writing sync.WaitGroup

	mu       sync.Mutex
	ended    bool
	donation *donation // nil: there is none
}

// donation is one copy. Its goroutine removes the file after stop.
type donation struct {
	token uint64
	first uint64 // message of the journal that is needed with it
	stop  context.CancelFunc
	done  chan struct{} // closed when file, size and err are set
	file  *os.File
	size  int64
	err   error
	used  time.Time // guarded by donor.mu
}

// needs is the first message of the journal that a copy needs; 0: there is none.
func (d *donor) needs() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.donation == nil {
		return 0
	}
	return d.donation.first
}

// answer answers a question. It does not wait for the copy.
func (d *donor) answer(question []byte) []byte {
	if len(question) < 9 {
		return nil
	}
	answer, err := d.ask(question[0], binary.LittleEndian.Uint64(question[1:]), question[9:])
	if err != nil {
		return append([]byte{copyRefused}, err.Error()...)
	}
	return wire.Seal(answer, 0)
}

func (d *donor) ask(what byte, token uint64, more []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if token == 0 || d.ended {
		return nil, errors.New("this node stops")
	}
	if what == askCopy && d.donation == nil {
		if err := d.begin(token); err != nil {
			return nil, err
		}
	}
	c := d.donation
	if c == nil || c.token != token {
		if what == askCopy {
			return nil, errors.New("another node copies the history of this one")
		}
		return nil, errors.New("there is no such copy any more")
	}
	begun := []byte{copyBegun, copyVersion}
	if what == askEnd {
		c.stop()
		return begun, nil
	}
	c.used = time.Now()
	select {
	case <-c.done:
	default:
		return begun, nil
	}
	switch {
	case c.err != nil:
		c.stop()
		return nil, c.err
	case what == askCopy:
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte{copyReady, copyVersion}, uint64(c.size)), c.first), nil
	case what == askPiece && len(more) == 8:
		return c.piece(int64(binary.LittleEndian.Uint64(more)))
	}
	return nil, fmt.Errorf("this build does not know the question %q", what)
}

// begin begins to write a copy. The journal keeps what comes after it from now on. The caller holds mu.
func (d *donor) begin(token uint64) error {
	is := d.h.writer.Status()
	if !is.Known || is.Err != nil {
		return errors.New("the history of this node does not go on")
	}
	if err := d.h.store.CheckSpace(2 * d.h.store.FileSize()); err != nil { // as much stays free as the copy takes
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &donation{token: token, first: is.Settled + 1, stop: stop, done: make(chan struct{}), used: time.Now()}
	d.donation = c
	d.writing.Go(func() { d.run(ctx, c) })
	return nil
}

// run writes a copy, keeps it until ctx ends, and removes it.
func (d *donor) run(ctx context.Context, c *donation) {
	path := d.h.store.File() + copySuffix
	c.err = d.write(ctx, path, c)
	close(c.done)
	<-ctx.Done()
	var err error
	if c.file != nil {
		err = c.file.Close()
	}
	if err = errors.Join(err, remove(path)); err != nil {
		d.h.writer.cfg.Logger.Warn("history: could not remove the copy that another node fetched", "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.donation = nil
}

func (d *donor) write(ctx context.Context, path string, c *donation) error {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	if err := d.h.store.CopyTo(ctx, path); err != nil {
		return errors.Join(err, remove(path)) // at once: the disk may be full
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	c.file = file
	is, err := file.Stat()
	if err != nil {
		return err
	}
	c.size = is.Size()
	return nil
}

func (c *donation) piece(offset int64) ([]byte, error) {
	if offset < 0 || offset >= c.size {
		return nil, errors.New("the copy has no such piece")
	}
	n := min(pieceBytes, c.size-offset)
	piece := make([]byte, 2+n, 2+n+wire.SumBytes)
	piece[0], piece[1] = copyPiece, copyVersion
	_, err := c.file.ReadAt(piece[2:], offset)
	return piece, err
}

// expire ends a copy that nobody asks for any more, and one that would fill the disk.
func (d *donor) expire(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.donation == nil {
		return
	}
	full := d.h.store.CheckSpace(d.h.store.FileSize())
	if full != nil {
		d.h.writer.cfg.Logger.Warn("history: canceled a copy that another node was fetching", "error", full)
	}
	if full != nil || now.Sub(d.donation.used) > copyIdle {
		d.donation.stop()
	}
}

// end ends the copy for good, and returns when its file is removed.
func (d *donor) end() {
	d.mu.Lock()
	d.ended = true
	if d.donation != nil {
		d.donation.stop()
	}
	d.mu.Unlock()
	d.writing.Wait()
}

// remove removes a SQLite file, which may not exist, and the files that SQLite keeps next to it.
func remove(path string) (err error) {
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		if failed := os.Remove(path + suffix); !errors.Is(failed, os.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
