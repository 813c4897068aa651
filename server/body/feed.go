package body

import (
	"bytes"
	"io"
)

// feed is what is left of a whole body. What is taken from it are views of the body.
type feed struct {
	buf []byte
	r   int // buf[r:] is not yet taken
}

// splitter takes the next record from a feed. tooLong stands for one that was skipped. err is
// what ended the body.
type splitter interface {
	next() (record []byte, tooLong bool, err error)
}

// lines splits a feed at newlines. The last line may have none.
type lines struct {
	*feed
	maxBytes int // of one line
}

func (l lines) next() (line []byte, tooLong bool, err error) {
	line = l.buf[l.r:]
	if len(line) == 0 {
		return nil, false, io.EOF
	}
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
		l.r++
	}
	l.r += len(line)
	return line, len(line) > l.maxBytes, nil
}
