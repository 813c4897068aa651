package body

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// block is how many records are read before the first of them is counted.
const block = 64

// Hits counts bodies of hits. Create it with NewHits; it is safe for many goroutines.
type Hits struct {
	service  *service.Service
	maxBatch int // lines of a body
	maxLine  int // bytes
	tooLong  *service.Rejection
	readers  sync.Pool // of *reader
}

// NewHits returns one that counts with of and takes lines, or elements of an array, of up to
// maxLine bytes.
func NewHits(of *service.Service, maxLine int) *Hits {
	h := &Hits{service: of, maxBatch: of.Config().MaxBatch, maxLine: maxLine}
	h.tooLong = reject(api.CodeLineTooLong, fmt.Sprintf("a line has at most %d bytes", maxLine))
	h.readers.New = func() any { return &reader{of: h} }
	return h
}

// reader is the state of one body while it is counted. It is pooled: it is all that a body
// would otherwise allocate.
type reader struct {
	of      *Hits
	feed    feed
	json    jsonParser
	tally   *service.Tally
	now     time.Time // for hits of a block without a time; zero: there was none yet
	records [block]record
	keys    [block]string // of the records, "" of those that are no hit
	hits    []service.Expected
	used    int // of records, and so of keys, at most
}

// record is one that was read, and not yet counted.
type record struct {
	hit
	blank bool
	wrong *service.Rejection // nil: it is a hit, or blank
}

// Count counts the hits of a whole body into t. f is the FormatOf its Content-Type. The error is
// that of service.Verdict, or says that the body is of another format: then nothing was counted.
func (h *Hits) Count(t *service.Tally, f Format, contentType string, whole []byte) error {
	in := h.readers.Get().(*reader)
	in.tally, in.feed = t, feed{buf: whole}
	defer func() {
		in.tally, in.feed = nil, feed{} // the pool must not hold the request
		clear(in.records[:in.used])
		clear(in.keys[:in.used])
		clear(in.hits[:in.used])
		in.used = 0
		h.readers.Put(in)
	}()
	return in.read(f, contentType)
}

func (in *reader) read(f Format, contentType string) error {
	start := in.feed.buf
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

// each counts the records of a body and returns why it did not end well. It reads a block of
// them, then has the engine look for all keys, then counts one after the other.
func (in *reader) each(records splitter, parse func([]byte) (h hit, blank bool, rej *service.Rejection)) error {
	for {
		n, end := in.readBlock(records, parse)
		in.used = max(in.used, n)
		if err := in.countBlock(in.records[:n]); err != nil {
			return err
		}
		switch {
		case end == nil:
		case errors.Is(end, io.EOF):
			return nil
		case errors.Is(end, errBrokenJSON):
			in.tally.Line++
			in.tally.Reject(rejectBroken)
			return nil
		default:
			return Broken(end, in.of.service.Config().MaxBodyBytes)
		}
	}
}

// readBlock reads records until there are block of them, or the body ends.
func (in *reader) readBlock(records splitter, parse func([]byte) (h hit, blank bool, rej *service.Rejection)) (n int, end error) {
	for ; n < block; n++ {
		text, tooLong, err := records.next()
		if err != nil {
			return n, err
		}
		r := &in.records[n]
		if tooLong {
			*r = record{wrong: in.of.tooLong}
			continue
		}
		r.hit, r.blank, r.wrong = parse(text)
	}
	return n, nil
}

// countBlock counts records, in order. It returns an error when no further hit can be counted.
func (in *reader) countBlock(records []record) error {
	for i := range records {
		in.keys[i] = records[i].key
	}
	in.hits = in.of.service.Expect(in.hits[:0], in.keys[:len(records)])
	in.now = time.Time{}
	for i := range records {
		r := &records[i]
		in.tally.Line++
		switch {
		case in.tally.Refuses(), r.blank:
		case r.wrong != nil:
			in.tally.Reject(r.wrong)
		default:
			if !r.hasAt {
				if in.now.IsZero() {
					in.now = in.of.service.Now()
				}
				r.at = in.now
			}
			if err := in.of.service.HitExpected(in.tally, r.at, in.hits[i], r.n); err != nil {
				return err
			}
		}
	}
	return nil
}

var rejectBroken = reject(api.CodeInvalidJSON, "not valid JSON here; the rest of the body was not read")
