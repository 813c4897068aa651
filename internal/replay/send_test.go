package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/internal/service"
)

// serve starts a real server on loopback.
func serve(t *testing.T, cfg engine.Config, wrap func(http.Handler) http.Handler) (*engine.Engine, *client.Client) {
	t.Helper()
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	to, err := service.New(service.Backend{Engine: e}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := httpapi.New(to, httpapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(wrap(listener.Handler()))
	t.Cleanup(h.Close)
	c, err := client.New(h.URL, client.Options{Compression: client.Zstd, MinPause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return e, c
}

// What was sent must be what the report says was there, although every third
// request is refused, and every third is counted but its answer lost.
func TestSend(t *testing.T) {
	var requests atomic.Int64
	e, to := serve(t, engine.Config{Clock: engine.EventClock, Retention: 1000 * time.Hour}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch requests.Add(1) % 3 {
			case 1:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 2:
				h.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			default:
				h.ServeHTTP(w, r)
			}
		})
	})
	text := testLog(t, 30_000, 5)
	want, err := ofText(t, text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ofText(t, text, Options{To: to})
	if err != nil {
		t.Fatal(err)
	}
	if got.Sent.Counted != 60_000 || got.Sent.Rejected != 0 || got.Sent.TooLate != 0 || got.Hits != 30_000 {
		t.Errorf("sent %+v", got.Sent)
	}
	for _, top := range want.Top {
		for _, k := range top.Keys {
			c, err := e.CountAt(want.Last.Time, k.Key, 100*time.Hour)
			if err != nil || c.Estimate != k.Hits {
				t.Errorf("%s: the server has %+v (%v), the report %d", k.Key, c, err, k.Hits)
			}
		}
	}
}

// A file that is sent a second time counts once, unless Again says otherwise; so does one that grew meanwhile.
func TestSendTwice(t *testing.T) {
	e, to := serve(t, engine.Config{Clock: engine.EventClock}, func(h http.Handler) http.Handler { return h })
	text := bytes.Repeat([]byte("1700000000 1 x\n"), 100_000) // two chunks
	for _, c := range []struct {
		text  []byte
		again bool
		sent  uint64 // not counted again
		want  uint64 // at the server
		warns bool
	}{
		{text: text, want: 100_000},
		{text: text, sent: 100_000, want: 100_000, warns: true},
		{text: append(text, "1700000000 5 y\n"...), sent: 69_905, want: 130_095, warns: true}, // the last chunk is another one
		{text: text, again: true, want: 230_095},
	} {
		r, err := ofText(t, c.text, Options{To: to, Again: c.again})
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.CountAt(time.Unix(1_700_000_000, 0), "x", time.Second)
		if err != nil || got.Estimate != c.want || r.Sent.Again != c.sent || (r.Warning != "") != c.warns {
			t.Errorf("the server has %+v (%v), want %d; sent %+v, warning %q", got.Estimate, err, c.want, r.Sent, r.Warning)
		}
	}
}

// A sorted log arrives sorted, however many workers there are.
func TestSendInOrder(t *testing.T) {
	_, to := serve(t, engine.Config{Clock: engine.EventClock, Retention: 1000 * time.Hour}, func(h http.Handler) http.Handler { return h })
	var text bytes.Buffer
	for i := range 300_000 { // several chunks
		fmt.Fprintf(&text, "%d 1 key-%d\n", 1_700_000_000+i/10, i%7)
	}
	r, err := ofText(t, text.Bytes(), Options{To: to, Workers: 4})
	if err != nil || r.Sent.Counted != 300_000 || r.Sent.Late != 0 {
		t.Errorf("%v, sent %+v", err, r.Sent)
	}
}

// Hits older than the server's retention are an answer of the server; it is a
// failure when it counted none.
func TestSendTooLate(t *testing.T) {
	clock := func() time.Time { return testNow }
	_, to := serve(t, engine.Config{Retention: time.Minute, Now: clock}, func(h http.Handler) http.Handler { return h })
	old := fmt.Sprintf("%d 5 x\n%d 2 y\n", testNow.Unix()-3*24*3600, testNow.Unix()-4000)
	for _, test := range []struct {
		text, err, warning string
		tooLate, counted   uint64
	}{
		{old, "no hit was counted: 7 hits too late for the server: start it with --retention of at least 4d", "", 7, 0},
		{fmt.Sprintf("%d 7 x\n", testNow.Unix()-500*24*3600), "no hit was counted: 7 hits too late for the server: start it with --retention of at least 501d, or with --history-keep 400d/501d to have them in its history alone", "", 7, 0},
		{"1000 7 x\n", "no hit was counted: 7 hits too late for the server: no retention reaches back so far", "", 7, 0},
		{old + fmt.Sprintf("%d 3 x\n", testNow.Unix()), "", "7 hits too late for the server: start it with --retention of at least 4d", 7, 3},
	} {
		r, err := ofText(t, []byte(test.text), Options{To: to})
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.HasPrefix(err.Error(), test.err)) {
			t.Errorf("got %v, want %q", err, test.err)
		}
		if r.Sent.TooLate != test.tooLate || r.Sent.Counted != test.counted || r.Warning != test.warning || r.StoppedEarly != "" {
			t.Errorf("sent %+v, warning %q, stopped early %q", r.Sent, r.Warning, r.StoppedEarly)
		}
	}
}

func TestSendWithoutKeys(t *testing.T) {
	_, to := serve(t, engine.Config{}, func(h http.Handler) http.Handler { return h })
	_, err := ofText(t, []byte("1000 5\n1001 2\n"), Options{To: to})
	if err == nil || !strings.Contains(err.Error(), "no hit was sent") {
		t.Error(err)
	}
}

// A server that refuses for good ends the replay early.
func TestSendFailure(t *testing.T) {
	_, to := serve(t, engine.Config{}, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	})
	r, err := ofText(t, testLog(t, 100_000, 6), Options{To: to})
	if err == nil || !strings.Contains(err.Error(), "the server answered 403") || r == nil {
		t.Fatalf("got %v", err)
	}
	var b strings.Builder
	if err := r.Print(&b); err != nil || !strings.HasPrefix(b.String(), "stopped early: the server answered 403") {
		t.Errorf("%v, printed %s", err, b.String())
	}
	if !strings.Contains(encode(t, r), `"rejected": []`) {
		t.Errorf("an empty list is not one: %s", encode(t, r))
	}
}

// When the context ends, batches on their way get a moment, and no more.
func TestSendInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	e, to := serve(t, engine.Config{Clock: engine.EventClock}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			stop()
			h.ServeHTTP(w, r)
		})
	})
	_, err := Run(ctx, Options{Files: []string{Stdin}, Stdin: strings.NewReader("1000 5 x\n"), To: to})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if c, err := e.CountAt(time.Unix(1000, 0), "x", time.Second); err != nil || c.Estimate != 5 {
		t.Errorf("the batch on its way: %+v, %v", c, err)
	}
}
