package region

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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
	Begun map[string][]Begun // bases of which it has the first pieces
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
	values := url.Values{"as": {q.As}, "have": {FormatHave(q.Have)}}
	if begun := FormatBegun(q.Begun); begun != "" {
		values.Set("begun", begun)
	}
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

// FormatHave returns what somebody has: a comma-separated list of region:epoch:seq.
func FormatHave(have map[string]ID) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		list = append(list, fmt.Sprintf("%s:%d:%d", name, have[name].Epoch, have[name].Seq))
	}
	return strings.Join(list, ",")
}

// ParseHave reads it.
func ParseHave(text string) (map[string]ID, error) {
	have := map[string]ID{}
	return have, parseList(text, "region:epoch:seq", func(name string, n []uint64) { have[name] = ID{n[0], n[1]} })
}

// FormatBegun returns which bases have begun: a comma-separated list of region:epoch:seq:pieces:hash.
func FormatBegun(begun map[string][]Begun) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(begun)) {
		for _, b := range begun[name] {
			list = append(list, fmt.Sprintf("%s:%d:%d:%d:%d", name, b.Epoch, b.Seq, b.Pieces, b.Hash))
		}
	}
	return strings.Join(list, ",")
}

// ParseBegun reads it.
func ParseBegun(text string) (map[string][]Begun, error) {
	begun := map[string][]Begun{}
	return begun, parseList(text, "region:epoch:seq:pieces:hash", func(name string, n []uint64) {
		begun[name] = append(begun[name], Begun{ID: ID{n[0], n[1]}, Pieces: n[2], Hash: n[3]})
	})
}

// maxListed bounds the elements of a list in a request.
const maxListed = 10_000

// parseList reads a comma-separated list of elements, which are names of regions with numbers.
func parseList(text, form string, add func(region string, numbers []uint64)) error {
	if text == "" {
		return nil
	}
	if n := strings.Count(text, ",") + 1; n > maxListed {
		return fmt.Errorf("%d elements: at most %d", n, maxListed)
	}
	for one := range strings.SplitSeq(text, ",") {
		words := strings.Split(one, ":")
		var numbers []uint64
		for _, word := range words[1:] {
			if n, err := strconv.ParseUint(word, 10, 64); err == nil {
				numbers = append(numbers, n)
			}
		}
		if want := strings.Count(form, ":"); len(words) != want+1 || len(numbers) != want || CheckName(words[0]) != nil {
			return fmt.Errorf("%q: want %s", one, form)
		}
		add(words[0], numbers)
	}
	return nil
}
