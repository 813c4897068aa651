package region

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Digests travel between regions by a GET of another region's HTTP listener, whose answer lasts. The request says what the
// caller has of each region. The answer is frames, each a Message, or empty to keep the connection alive. TCP's window, not
// the round trip, bounds the throughput.
//
// Invariant: an answer that ends or is silent is an error within SilentAfter. Then there is a new request.

const (
	// LinkPath is where a listener answers.
	LinkPath = "/v1/regions/feed"

	// RegionHeader has the name of the region that answers.
	RegionHeader = "Weir-Region"

	// KeepAlive is the time without a message after which an empty frame is sent.
	KeepAlive = time.Second

	// SilentAfter is how long nothing may come.
	SilentAfter = 4 * time.Second

	// FrameBytes is about what a frame takes in addition to its message.
	FrameBytes = 3

	// maxFrame bounds a message.
	maxFrame = 2 << 20

	// dialTime bounds the time to the head of an answer.
	dialTime = 10 * time.Second
)

// LinkRequest asks for everything newer than Have.
type LinkRequest struct {
	URL   string // of the listener, without a path
	Token string // "": none
	As    string // the region that asks
	Have  map[string]ID
	Begun map[string][]Begun // bases whose first pieces it has
}

// LinkStream is an answer.
type LinkStream struct {
	Region string // that answers

	body   io.ReadCloser
	from   *bufio.Reader
	cancel context.CancelCauseFunc
	silent *time.Timer
	ctx    context.Context
}

var errSilent = errors.New("the link is silent")

// DialLink sends a request, and returns when the answer begins.
func DialLink(ctx context.Context, over http.RoundTripper, q LinkRequest) (*LinkStream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	have, errHave := json.Marshal(q.Have)
	begun, errBegun := json.Marshal(q.Begun)
	if err := errors.Join(errHave, errBegun); err != nil {
		cancel(err)
		return nil, err
	}
	values := url.Values{"as": {q.As}, "have": {string(have)}, "begun": {string(begun)}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(q.URL, "/")+LinkPath+"?"+values.Encode(), nil)
	if err != nil {
		cancel(err)
		return nil, err
	}
	if q.Token != "" {
		request.Header.Set("Authorization", "Bearer "+q.Token)
	}
	dialing := time.AfterFunc(dialTime, func() { cancel(errSilent) })
	response, err := over.RoundTrip(request)
	dialing.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(err)
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 500)) // the part that was read says enough
		_ = response.Body.Close()
		cancel(nil)
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	s := &LinkStream{Region: response.Header.Get(RegionHeader), body: response.Body, from: bufio.NewReaderSize(response.Body, 64<<10), cancel: cancel, ctx: ctx}
	s.silent = time.AfterFunc(SilentAfter, func() { cancel(errSilent) })
	return s, nil
}

// Next returns the next message, or nothing to show that the link is alive. After an error the stream is over.
func (s *LinkStream) Next() ([]byte, error) {
	size, err := binary.ReadUvarint(s.from)
	if err == nil && size > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes: this is not a link of regions", size)
	}
	var data []byte
	if err == nil {
		data = make([]byte, size)
		_, err = io.ReadFull(s.from, data)
	}
	if err != nil {
		if cause := context.Cause(s.ctx); cause != nil {
			err = cause
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the other region has ended the link")
		}
		return nil, err
	}
	s.silent.Reset(SilentAfter)
	return data, nil
}

// Close ends it.
func (s *LinkStream) Close() {
	s.silent.Stop()
	s.cancel(nil)
	_ = s.body.Close() // nothing is lost
}

// AppendFrame appends a message as a frame.
func AppendFrame(b, message []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(message))), message...)
}
