package body

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/service"
)

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

// Decoded returns the plain bytes of r's body, at most limit of them, both
// compressed and not. release gives the decoder back and must be called.
func Decoded(r *http.Request, limit int64) (body io.Reader, release func(), err error) {
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
			return nil, release, Broken(err, limit)
		}
		return &limitedBody{d, limit}, release, nil
	default:
		return nil, release, fail(api.CodeUnsupportedEncoding, "Content-Encoding",
			"Content-Encoding "+service.Clip(encoding)+" is not taken: send "+AcceptedEncodings+" or no encoding")
	}
}

// notGzip is the *service.Error of a body of at most limit bytes whose gzip header could
// not be read.
func notGzip(err error, limit int64) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fail(api.CodeBodyBroken, "Content-Encoding", "the body is not gzip, as its Content-Encoding says, or ended within the header: compress it, or send no Content-Encoding")
	}
	return Broken(err, limit)
}

// Broken is the *service.Error of a body of at most limit bytes that err ended.
func Broken(err error, limit int64) error {
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
