package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/units"
)

// Bodies of hits are lines, NDJSON or JSON, plain or compressed. A BodyFormat says how one is written, a splitter takes
// one record after the other, and each record is parsed in place. Nothing on that way allocates per record. They are
// parsed by hand, and so are bodies of decisions (AllowParser): encoding/json would cost several times what a hit or a
// decision does (BenchmarkHitWire, BenchmarkAllowWire).
//
// Invariants. A record that is not understood never loses the ones next to it. Memory is bounded by the limit of a body
// and of a line, also of a body that inflates.

// AcceptedEncodings are what a Content-Encoding may be, as Accept-Encoding has it.
const AcceptedEncodings = "gzip, zstd"

// maxZstdWindow is the window that RFC 8878 asks every decoder to support, and
// what one request may make a decoder hold.
const maxZstdWindow = 8 << 20

// errBodyTooLarge says that a body went on beyond its limit.
var errBodyTooLarge = errors.New("body too large")

// limitedBody reads src up to left bytes and fails with errBodyTooLarge when
// there is more; io.LimitReader would end as if the body were whole.
type limitedBody struct {
	src  io.Reader
	left int64
}

func (l *limitedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.src.Read(p)
	if int64(n) > l.left {
		n, err = int(l.left), errBodyTooLarge
	}
	l.left -= int64(n)
	return n, err
}

var (
	gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}
	zstdReaders = sync.Pool{New: func() any {
		// One at a time means no goroutines, so the pool may drop it.
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			panic(err) // constant options
		}
		return d
	}}
)

// DecodedBody returns the plain bytes of r's body, at most limit of them, compressed or not. release gives the decoder
// back and must be called.
func DecodedBody(r *http.Request, limit int64) (body io.Reader, release func(), err error) {
	release = func() {}
	if r.ContentLength > limit {
		return nil, release, tooLarge(limit)
	}
	raw := &limitedBody{r.Body, limit}
	switch encoding := strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ", ")); encoding {
	case "", "identity":
		return raw, release, nil
	case "gzip", "x-gzip":
		z := gzipReaders.Get().(*gzip.Reader)
		release = func() { gzipReaders.Put(z) }
		if err = z.Reset(raw); err != nil { // reads gzip's header
			return nil, release, notGzip(err, limit)
		}
		return &limitedBody{z, limit}, release, nil
	case "zstd":
		d := zstdReaders.Get().(*zstd.Decoder)
		release = func() {
			if d.Reset(nil) == nil { // lets go of the request
				zstdReaders.Put(d)
			}
		}
		if err = d.Reset(raw); err != nil {
			return nil, release, BrokenBody(err, limit)
		}
		return &limitedBody{d, limit}, release, nil
	default:
		return nil, release, fail(api.CodeUnsupportedEncoding, "Content-Encoding",
			"Content-Encoding "+request.Clip(encoding)+" is not taken: send "+AcceptedEncodings+" or no encoding")
	}
}

// notGzip is the error of a body of at most limit bytes whose gzip header could not be read.
func notGzip(err error, limit int64) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fail(api.CodeBodyBroken, "Content-Encoding", "the body is not gzip, as its Content-Encoding says, or ended within the header: compress it, or send no Content-Encoding")
	}
	return BrokenBody(err, limit)
}

// BrokenBody is the error of a body of at most limit bytes that err ended.
func BrokenBody(err error, limit int64) error {
	switch {
	case errors.Is(err, errBodyTooLarge):
		return tooLarge(limit)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fail(api.CodeBodyTooLarge, "", "the body asks for a zstd window of more than "+units.FormatSize(maxZstdWindow)+": compress it without --long and --ultra")
	case errors.Is(err, zstd.ErrMagicMismatch):
		return fail(api.CodeBodyBroken, "Content-Encoding", "the body is not zstd, as its Content-Encoding says: compress it, or send no Content-Encoding")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(api.CodeBodyTimeout, "", "the body took too long to arrive: send less at once")
	case errors.Is(err, errCutJSON):
		return fail(api.CodeBodyBroken, "", "the body ended in the middle of its JSON: send all of it")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fail(api.CodeBodyBroken, "", "the body ended early, before its Content-Length or the end of its compressed data: send all of it")
	default:
		return fail(api.CodeBodyBroken, "",
			"the body ended early or does not decompress ("+err.Error()+"): check Content-Encoding and Content-Length")
	}
}

// tooLarge is the error of a body over limit, declared or found.
func tooLarge(limit int64) error {
	return fail(api.CodeBodyTooLarge, "", "the body is larger than "+units.FormatSize(limit)+", before or after decompression: send less at once")
}

// BodyFormat is how a body of hits is written.
type BodyFormat uint8

const (
	unknownFormat BodyFormat = iota
	textLines                // key [n [at]]
	jsonLines                // NDJSON: one object per line
	// JSONDocument is one object or an array of them.
	JSONDocument
	anyFormat // not declared: the first byte decides
)

// AcceptedTypes are the media types of hits, as Accept-Post has them.
const AcceptedTypes = "text/plain, application/x-ndjson, application/json"

var formats = map[string]BodyFormat{
	"text/plain":             textLines,
	"application/x-ndjson":   jsonLines,
	"application/ndjson":     jsonLines,
	"application/jsonl":      jsonLines,
	"application/json-lines": jsonLines,
	"application/jsonlines":  jsonLines,
	"application/json":       JSONDocument,
	"":                       anyFormat,
	// What curl -d declares by default.
	formType: anyFormat,
}

const formType = "application/x-www-form-urlencoded"

// BodyFormatOf reads a Content-Type.
func BodyFormatOf(contentType string) (BodyFormat, error) {
	if f, ok := formats[contentType]; ok {
		return f, nil
	}
	name, params, err := mime.ParseMediaType(contentType)
	f := formats[name]
	if err != nil || f == unknownFormat {
		return unknownFormat, fail(api.CodeUnsupportedType, "Content-Type",
			"Content-Type "+request.Clip(contentType)+" is not taken: send one of "+AcceptedTypes)
	}
	switch charset := strings.ToLower(params["charset"]); charset {
	case "", "utf-8", "utf8", "us-ascii":
		return f, nil
	default:
		return unknownFormat, fail(api.CodeUnsupportedType, "Content-Type", "charset "+request.Clip(charset)+" is not taken: send UTF-8")
	}
}

// sniff settles the format from the start of the body. An object that ends on its first line is the first of NDJSON,
// whatever kind of JSON was declared. Both read it alike, and a broken line loses no other.
func sniff(f BodyFormat, start []byte) BodyFormat {
	start = bytes.TrimLeft(start, " \t\r\n")
	if f == anyFormat {
		f = textLines
		if isJSON(start) {
			f = JSONDocument
		}
	}
	if f != JSONDocument || len(start) == 0 || start[0] != '{' {
		return f
	}
	line, _, _ := bytes.Cut(start, []byte("\n"))
	if bytes.HasSuffix(bytes.TrimRight(line, " \t\r"), []byte("}")) {
		return jsonLines
	}
	return f
}

// isJSON tells JSON from text by its first byte that is not white space.
func isJSON(start []byte) bool {
	start = bytes.TrimLeft(start, " \t\r\n")
	return len(start) > 0 && (start[0] == '{' || start[0] == '[')
}

// isForm tells an HTML form (key=a&n=2) from lines with the same Content-Type, which curl -d sets. As a line it would
// count a key "key=a&n=2".
func isForm(contentType string, start []byte) bool {
	return strings.HasPrefix(contentType, formType) && bytes.HasPrefix(start, []byte("key="))
}

// SmallBody is the size in bytes up to which a body takes a place of a pool only once it is whole. While it arrives, it
// costs its connection and a buffer of its size: clients that send slowly, or nothing, keep no other client out.
const SmallBody = 16 << 10

// IdempotencyKey is the header field with the name of a request of hits, which counts once however often it is sent.
const IdempotencyKey = "Idempotency-Key"

// feed is what is left of a whole body. What is taken from it are views of the body.
type feed struct {
	buf []byte
	r   int // buf[r:] is not yet taken
}

// splitter takes the next record from a feed. tooLong stands for one that was skipped. err is what ended the body.
type splitter interface {
	next() (record []byte, tooLong bool, err error)
}

// bodyLines splits a feed at newlines. The last line may have none.
type bodyLines struct {
	*feed
	maxBytes int // of one line
}

func (l bodyLines) next() (line []byte, tooLong bool, err error) {
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

func fail(code api.Code, field, message string) *api.Error {
	return &api.Error{Code: code, Field: field, Message: message}
}

func reject(code api.Code, message string) *request.Rejection {
	return &request.Rejection{Code: code, Message: message}
}

// ReadKey reads an idempotency key: a quoted string as the IETF's draft has it, or the same letters without quotes.
func ReadKey(values []string) (string, *api.Error) {
	if len(values) == 0 {
		return "", nil
	}
	key := strings.Trim(values[0], " \t")
	ok := len(values) == 1
	if strings.HasPrefix(key, `"`) {
		key, ok = unquoteKey(key)
		ok = ok && len(values) == 1
	} else if strings.ContainsAny(key, `",;\ `) {
		ok = false
	}
	control := func(r rune) bool { return r < ' ' || r > '~' }
	if !ok || key == "" || len(key) > engine.MaxOnceKeyBytes || slices.ContainsFunc([]rune(key), control) {
		return "", fail(api.CodeInvalidIdempotencyKey, IdempotencyKey, "send one Idempotency-Key of 1 to "+strconv.Itoa(engine.MaxOnceKeyBytes)+
			` ASCII characters, such as a UUID; one with a space or any of ",;\ stands in "quotes"`)
	}
	return key, nil
}

// unquoteKey reads a string of RFC 8941: \" and \\ are its only escapes.
func unquoteKey(quoted string) (key string, ok bool) {
	b := make([]byte, 0, len(quoted))
	for i := 1; i < len(quoted); i++ {
		switch c := quoted[i]; c {
		case '"':
			return string(b), i == len(quoted)-1
		case '\\':
			if i++; i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
				return "", false
			}
			b = append(b, quoted[i])
		default:
			b = append(b, c)
		}
	}
	return "", false
}
