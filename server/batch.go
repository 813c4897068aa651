package server

import (
	"bytes"
	"fmt"

	"github.com/weir-counter/weir/api"
)

// overlong refuses a body of more than MaxBatch lines before any of them counts: who sends
// too much sends all of it again, in parts, and nothing counts twice.
func (in *ingest) overlong(f format, whole []byte) *problem {
	most := in.server.cfg.MaxBatch
	if len(whole) <= most { // a line has a byte at least, with its end
		return nil
	}
	lines := 0
	if sniff(f, whole) == jsonDocument {
		lines = in.elementsOf(whole, most)
	} else if lines = bytes.Count(whole, []byte{'\n'}); whole[len(whole)-1] != '\n' {
		lines++
	}
	if lines <= most {
		return nil
	}
	return newProblem(api.CodeTooManyLines, "", fmt.Sprintf("the body has more than %d lines (--max-batch): nothing was counted, send it in parts", most))
}

// elementsOf counts the elements of a document, up to one more than most.
func (in *ingest) elementsOf(whole []byte, most int) (n int) {
	buffer := in.server.feeds.Get().(*[]byte)
	defer in.server.feeds.Put(buffer)
	from := feed{buf: *buffer}
	from.reset(bytes.NewReader(whole))
	all := elements{feed: &from, maxBytes: in.server.cfg.MaxLineBytes}
	for n <= most {
		if _, _, err := all.next(); err != nil {
			break // what is wrong is said when it is read again
		}
		n++
	}
	return n
}
