package server

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

// errRecordTooLong says that a record did not fit; it was skipped.
var errRecordTooLong = errors.New("record too long")

// lines splits a feed at newlines.
type lines struct {
	*feed
	maxBytes int // of one line, below len(buf)
}

// next returns the next line without its newline, valid until the next call.
// The error is errRecordTooLong, after which next goes on with the following
// line, or what ended the body. A last line without a newline counts only
// when the body ended well: cut off, "a 12" could have been "a 1234".
func (l lines) next() ([]byte, error) {
	searched := 0
	for {
		if i := bytes.IndexByte(l.buf[l.r+searched:l.w], '\n'); i >= 0 {
			line := l.buf[l.r : l.r+searched+i]
			l.r += len(line) + 1
			if len(line) > l.maxBytes {
				return nil, errRecordTooLong
			}
			return line, nil
		}
		searched = l.w - l.r
		if searched > l.maxBytes+1 { // +1: the \r before a newline still to come
			l.skipLine()
			return nil, errRecordTooLong
		}
		if l.more() {
			continue
		}
		if l.err == io.EOF && searched > 0 {
			line := l.buf[l.r:l.w]
			l.r = l.w
			if len(line) > l.maxBytes {
				return nil, errRecordTooLong
			}
			return line, nil
		}
		return nil, l.err
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
