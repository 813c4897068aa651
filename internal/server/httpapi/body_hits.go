package httpapi

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/request"
)

// block is how many records are read before the first of them is counted.
const block = 64

// BodyHits counts bodies of hits. Create it with NewBodyHits; it is safe for many goroutines.
type BodyHits struct {
	service  *service.Service
	maxBatch int // lines of a body
	maxLine  int // bytes
	tooLong  *request.Rejection
	readers  sync.Pool // of *reader
}

// NewBodyHits returns a BodyHits that counts with svc and takes lines, or elements of an array, of up to maxLine bytes.
func NewBodyHits(svc *service.Service, maxLine int) *BodyHits {
	h := &BodyHits{service: svc, maxBatch: svc.Config().MaxBatch, maxLine: maxLine}
	h.tooLong = reject(api.CodeLineTooLong, fmt.Sprintf("a line has at most %d bytes", maxLine))
	h.readers.New = func() any { return &reader{owner: h} }
	return h
}

// reader is the state of one body while it is counted. It is pooled: it is all that a body would otherwise allocate.
type reader struct {
	owner   *BodyHits
	feed    feed
	json    jsonParser
	tally   *ingest.Tally
	now     time.Time // for hits of a block without a time; zero: there was none yet
	records [block]record
	keys    [block]string // of the records, "" of those that are no hit
	hits    []engine.Expected
	used    int // of records, and so of keys, at most
}

// record is one that was read, and not yet counted.
type record struct {
	hit
	blank bool
	wrong *request.Rejection // nil: it is a hit, or blank
}

// Count counts the hits of a whole body into t. f is the BodyFormatOf its Content-Type. It fails as service.Verdict
// does, or because the body is of another format: then nothing was counted.
func (h *BodyHits) Count(t *ingest.Tally, f BodyFormat, contentType string, whole []byte) error {
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

func (in *reader) read(f BodyFormat, contentType string) error {
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
		end = in.each(bodyLines{&in.feed, in.owner.maxLine}, parseTextHit)
	case jsonLines:
		end = in.each(bodyLines{&in.feed, in.owner.maxLine}, in.json.parse)
	default:
		end = in.each(&elements{feed: &in.feed, maxBytes: in.owner.maxLine}, in.json.parse)
	}
	return in.owner.service.Verdict(in.tally, end)
}

// each counts the records of a body and returns why it did not end well. It reads a block of
// them, then has the engine look for all keys, then counts one after the other.
func (in *reader) each(records splitter, parse func([]byte) (h hit, blank bool, rej *request.Rejection)) error {
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
			return BrokenBody(end, in.owner.service.Config().MaxBodyBytes)
		}
	}
}

// readBlock reads records until there are block of them, or the body ends.
func (in *reader) readBlock(records splitter, parse func([]byte) (h hit, blank bool, rej *request.Rejection)) (n int, end error) {
	for ; n < block; n++ {
		text, tooLong, err := records.next()
		if err != nil {
			return n, err
		}
		r := &in.records[n]
		if tooLong {
			*r = record{wrong: in.owner.tooLong}
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
	in.hits = in.owner.service.Expect(in.hits[:0], in.keys[:len(records)])
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
					in.now = in.owner.service.Now()
				}
				r.at = in.now
			}
			err := error(nil)
			if r.hasID {
				err = in.owner.service.HitDistinct(in.tally, r.at, in.hits[i], r.n, r.id)
			} else {
				err = in.owner.service.HitExpected(in.tally, r.at, in.hits[i], r.n)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

var rejectBroken = reject(api.CodeInvalidJSON, "not valid JSON here; the rest of the body was not read")

// hit is one record of a body. key is a view of the body, or of a copy where it was written with escapes.
type hit struct {
	key   string
	n     uint64
	at    time.Time
	hasAt bool
	hasID bool
	id    uint64 // the hash of an id that the hit carries
}

// view returns b as a string without a copy. The string must be gone before b is written to again.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// quoteField echoes a piece of a record in a message; it copies.
func quoteField(b []byte) string {
	return `"` + strings.ToValidUTF8(request.Clip(string(b)), "?") + `"`
}

var (
	rejectControl = reject(api.CodeInvalidKey, "the key has a control character; send such keys as JSON")
	rejectAsText  = reject(api.CodeInvalidLine, "the line begins as JSON, among lines of text: send all as application/x-ndjson; a key that begins with { or [ is sent as JSON")
	rejectFields  = reject(api.CodeInvalidLine, "a line is: key [n [at]]; send one hit per line (curl: --data-binary keeps newlines, -d does not) and keys with spaces as JSON")
)

// parseTextHit reads a line `key [n [at]]`, separated by spaces or tabs. blank is true for a line without anything on
// it.
func parseTextHit(line []byte) (h hit, blank bool, rej *request.Rejection) {
	key, rest, control := cutKey(line)
	if len(key) == 0 {
		return h, true, nil
	}
	if key[0] == '{' || key[0] == '[' {
		return h, false, rejectAsText
	}
	if control {
		return h, false, rejectControl
	}
	if rej := request.CheckHitKey(view(key)); rej != nil {
		return h, false, rej
	}
	h.key, h.n = view(key), 1
	n, rest := cutField(rest)
	if len(n) == 0 {
		return h, false, nil
	}
	at, rest := cutField(rest)
	if extra, _ := cutField(rest); len(extra) > 0 {
		return h, false, rejectFields
	}
	if h.n, rej = request.ParseCount(view(n)); rej != nil {
		return h, false, rej
	}
	if len(at) > 0 {
		h.hasAt = true
		h.at, rej = request.ParseAt(view(at))
	}
	return h, false, rej
}

// cutKey is cutField that also reports whether the field has a control
// character. A carriage return at the end of the line is white space.
func cutKey(b []byte) (key, rest []byte, control bool) {
	i := 0
	for i < len(b) && isTextSpace(b, i) {
		i++
	}
	start := i
	for i < len(b) && b[i] != ' ' {
		if b[i] < ' ' {
			if isTextSpace(b, i) {
				break
			}
			control = true
		}
		control = control || b[i] == 0x7f
		i++
	}
	return b[start:i], b[i:], control
}

// cutField splits the first run of bytes that are not white space from b.
func cutField(b []byte) (field, rest []byte) {
	i := 0
	for i < len(b) && isTextSpace(b, i) {
		i++
	}
	start := i
	for i < len(b) && !isTextSpace(b, i) {
		i++
	}
	return b[start:i], b[i:]
}

func isTextSpace(b []byte, i int) bool {
	return b[i] == ' ' || b[i] == '\t' || b[i] == '\r' && i == len(b)-1
}
