package body

import (
	"bytes"
	"errors"
	"io"
)

// feed is a window over a stream: buf[r:w] is read from src and not yet taken.
// It never grows: a record must fit into buf or is rejected.
type feed struct {
	src  io.Reader
	buf  []byte
	r, w int
	err  error // what ended src: io.EOF or worse; kept until the window is used up

	reads int // how often src gave something
}

// maxEmptyReads is how often in a row src may read nothing.
const maxEmptyReads = 100

func (f *feed) reset(src io.Reader) { f.src, f.r, f.w, f.err, f.reads = src, 0, 0, nil, 0 }

// more moves the window to the front of buf and reads once. It returns false
// when nothing was added: src has ended (f.err says how) or the window fills
// buf.
func (f *feed) more() bool {
	if f.r > 0 {
		copy(f.buf, f.buf[f.r:f.w])
		f.w -= f.r
		f.r = 0
	}
	if f.err != nil || f.w == len(f.buf) {
		return false
	}
	for range maxEmptyReads {
		n, err := f.src.Read(f.buf[f.w:])
		f.w += n
		if err != nil {
			f.err = err
		}
		if n > 0 {
			f.reads++
		}
		if n > 0 || err != nil {
			return n > 0
		}
	}
	f.err = io.ErrNoProgress
	return false
}

// ended tells whether src ended well: cut off, "a 12" could have been "a 1234".
func (f *feed) ended() bool { return errors.Is(f.err, io.EOF) }

// splitter takes the next record from a feed; the record is valid until the
// next call. tooLong stands for one that did not fit and was skipped. err is
// what ended the body.
type splitter interface {
	next() (record []byte, tooLong bool, err error)
}

// lines splits a feed at newlines. A last line without one counts only when
// the body ended well.
type lines struct {
	*feed
	maxBytes int // of one line, below len(buf)
}

func (l lines) next() (line []byte, tooLong bool, err error) {
	searched := 0
	for {
		if i := bytes.IndexByte(l.buf[l.r+searched:l.w], '\n'); i >= 0 {
			line = l.buf[l.r : l.r+searched+i]
			l.r += len(line) + 1
			return line, len(line) > l.maxBytes, nil
		}
		searched = l.w - l.r
		if searched > l.maxBytes {
			l.skipLine()
			return nil, true, nil
		}
		if l.more() {
			continue
		}
		if searched > 0 && l.ended() {
			line = l.buf[l.r:l.w]
			l.r = l.w
			return line, false, nil
		}
		return nil, false, l.err
	}
}

// skipLine takes everything up to and including the next newline.
func (l lines) skipLine() {
	for {
		if i := bytes.IndexByte(l.buf[l.r:l.w], '\n'); i >= 0 {
			l.r += i + 1
			return
		}
		l.r = l.w
		if !l.more() {
			return
		}
	}
}
