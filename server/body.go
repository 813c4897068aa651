package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weir-counter/weir/internal/units"

	"github.com/weir-counter/weir/api"
)

const acceptedEncodings = "gzip, zstd"

// maxZstdWindow is the window that RFC 8878 asks every decoder to support, and
// what one request may make a decoder hold.
const maxZstdWindow = 8 << 20

// errBodyTooLarge says that a body went on beyond MaxBodyBytes.
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

// decoded returns the plain bytes of r's body, at most limit of them, both
// compressed and not. release gives the decoder back and must be called.
func decoded(r *http.Request, limit int64) (body io.Reader, release func(), p *problem) {
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
		if err := z.Reset(raw); err != nil { // reads gzip's header
			return nil, release, bodyProblem(err, limit)
		}
		return &limitedBody{z, limit}, release, nil
	case "zstd":
		d := zstdReaders.Get().(*zstd.Decoder)
		release = func() {
			if d.Reset(nil) == nil { // lets go of the request
				zstdReaders.Put(d)
			}
		}
		if err := d.Reset(raw); err != nil {
			return nil, release, bodyProblem(err, limit)
		}
		return &limitedBody{d, limit}, release, nil
	default:
		return nil, release, newProblem(api.CodeUnsupportedEncoding, "Content-Encoding",
			"Content-Encoding "+clip(encoding)+" is not taken: send "+acceptedEncodings+" or no encoding")
	}
}

// bodyProblem is the problem of a body that err ended.
func bodyProblem(err error, limit int64) *problem {
	switch {
	case errors.Is(err, errBodyTooLarge):
		return tooLarge(limit)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return newProblem(api.CodeBodyTooLarge, "", "the body asks for a zstd window of more than "+units.FormatSize(maxZstdWindow)+": compress it without --long and --ultra")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return newProblem(api.CodeBodyTimeout, "", "the body took too long to arrive: send less at once")
	case errors.Is(err, errCutJSON):
		return newProblem(api.CodeBodyBroken, "", "the body ended in the middle of its JSON: send all of it")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return newProblem(api.CodeBodyBroken, "", "the body ended early, before its Content-Length or the end of its compressed data: send all of it")
	default:
		return newProblem(api.CodeBodyBroken, "",
			"the body ended early or does not decompress ("+err.Error()+"): check Content-Encoding and Content-Length")
	}
}

// tooLarge is the problem of a body over limit, declared or found.
func tooLarge(limit int64) *problem {
	return newProblem(api.CodeBodyTooLarge, "", "the body is larger than "+units.FormatSize(limit)+", before or after decompression: send less at once")
}
