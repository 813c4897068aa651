package body

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// feedBytes is the least a feed holds: large enough that a batch is a handful
// of reads, small enough for one per request in flight.
const feedBytes = 64 << 10

// Hits counts bodies of hits. Create it with NewHits; it is safe for many goroutines.
type Hits struct {
	service  *service.Service
	maxBatch int // lines of a body
	maxLine  int // bytes
	tooLong  *service.Rejection
	readers  sync.Pool // of *reader
	feeds    sync.Pool // of *[]byte, for them
}

// NewHits returns one that counts with of and takes lines, or elements of an array, of up to
// maxLine bytes.
func NewHits(of *service.Service, maxLine int) *Hits {
	h := &Hits{service: of, maxBatch: of.Config().MaxBatch, maxLine: maxLine}
	size := max(feedBytes, 2*maxLine)
	h.tooLong = reject(api.CodeLineTooLong, fmt.Sprintf("a line has at most %d bytes", maxLine))
	h.readers.New = func() any { return &reader{of: h} }
	h.feeds.New = func() any { b := make([]byte, size); return &b }
	return h
}

// reader is the state of one body while it is counted. It is pooled: its buffers are all
// that a body would otherwise allocate.
type reader struct {
	of    *Hits
	feed  feed
	json  jsonParser
	tally *service.Tally
	now   time.Time // for hits without a time
	nowOf int       // feed.reads when now was read
}

// Count counts the hits of a whole body into t. f is the FormatOf its Content-Type. The error is
// that of service.Verdict, or says that the body is of another format: then nothing was counted.
func (h *Hits) Count(t *service.Tally, f Format, contentType string, whole []byte) error {
	in, buffer := h.readers.Get().(*reader), h.feeds.Get().(*[]byte)
	in.tally, in.nowOf = t, -1
	in.feed.buf = *buffer
	in.feed.reset(bytes.NewReader(whole))
	defer func() {
		in.tally, in.feed = nil, feed{} // the pool must not hold the request
		h.feeds.Put(buffer)
		h.readers.Put(in)
	}()
	return in.read(f, contentType)
}

func (in *reader) read(f Format, contentType string) error {
	start := in.peekLine()
	if isForm(contentType, start) {
		return fail(api.CodeUnsupportedType, "Content-Type",
			"an HTML form is not taken: send lines `key [n [at]]` with curl -H 'Content-Type: text/plain' --data-binary")
	}
	if f == textLines && isJSON(start) {
		return fail(api.CodeUnsupportedType, "Content-Type",
			"the body begins as JSON, and was declared as text/plain: send it as application/json or application/x-ndjson (curl -H content-type:application/json, or curl --json); a key that begins with { or [ is sent as JSON")
	}
	var end error
	switch sniff(f, start) {
	case textLines:
		end = in.each(lines{&in.feed, in.of.maxLine}, parseTextHit)
	case jsonLines:
		end = in.each(lines{&in.feed, in.of.maxLine}, in.json.parse)
	default:
		end = in.each(&elements{feed: &in.feed, maxBytes: in.of.maxLine}, in.json.parse)
	}
	return in.of.service.Verdict(in.tally, end)
}

// peekLine reads up to the first newline, or as much as fits, and takes nothing.
func (in *reader) peekLine() []byte {
	for bytes.IndexByte(in.feed.buf[in.feed.r:in.feed.w], '\n') < 0 && in.feed.more() {
	}
	return in.feed.buf[in.feed.r:in.feed.w]
}

// each counts the records of a body and returns why it did not end well.
func (in *reader) each(records splitter, parse func([]byte) (h hit, blank bool, rej *service.Rejection)) error {
	for {
		record, tooLong, err := records.next()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errBrokenJSON):
			in.tally.Line++
			in.tally.Reject(rejectBroken)
			return nil
		default:
			return Broken(err, in.of.service.Config().MaxBodyBytes)
		}
		in.tally.Line++
		switch {
		case in.tally.Refuses():
			continue
		case tooLong:
			in.tally.Reject(in.of.tooLong)
			continue
		}
		h, blank, rej := parse(record)
		switch {
		case blank:
		case rej != nil:
			in.tally.Reject(rej)
		default:
			if err := in.count(h); err != nil {
				return err
			}
		}
	}
}

var rejectBroken = reject(api.CodeInvalidJSON, "not valid JSON here; the rest of the body was not read")

// count gives one hit to the service. It returns an error when no further
// hit can be counted.
func (in *reader) count(h hit) error {
	at := h.at
	if !h.hasAt {
		if in.nowOf != in.feed.reads {
			in.now, in.nowOf = in.of.service.Now(), in.feed.reads
		}
		at = in.now
	}
	return in.of.service.Hit(in.tally, at, h.key, h.n)
}
