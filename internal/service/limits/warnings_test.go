package limits

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

var (
	start  = time.Unix(1_769_860_800, 0)
	secret = []byte("0123456789abcdefghijklmnopqrstuv")
)

// call is one that a receiver got.
type call struct {
	header http.Header
	body   string
}

// receive is a server that answers with the statuses, the last of them for ever, and tells of each call.
func receive(t *testing.T, statuses ...int) (*url.URL, chan call) {
	t.Helper()
	calls := make(chan call, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/hook" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		status := statuses[0]
		if len(statuses) > 1 {
			statuses = statuses[1:]
		}
		calls <- call{r.Header, string(body)}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL + "/hook")
	if err != nil {
		t.Fatal(err)
	}
	return to, calls
}

// teller is one whose clock stands and whose pauses are none. It is not started.
func teller(t *testing.T, to *url.URL) *Warnings {
	t.Helper()
	tell := newWarnings(WarningConfig{URL: to, Secret: secret, Node: "n1", Logger: slog.New(slog.DiscardHandler)})
	tell.now = func() time.Time { return start }
	tell.after = func(time.Duration) <-chan time.Time {
		now := make(chan time.Time, 1)
		now <- start
		return now
	}
	return tell
}

func closeIt(t *testing.T, tell *Warnings) {
	t.Helper()
	if err := tell.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// warned is a decision that warns of a key.
func warned(key string) *admit.Decision {
	return &admit.Decision{Allowed: true, Results: []admit.Result{{
		Name: "login", Key: key, Limit: engine.Limit{N: 10, Per: time.Minute, Burst: 10}, N: 1, Warning: true,
		Verdict: engine.Verdict{Allowed: true, Remaining: 2, Reset: time.Minute},
	}}}
}

// A key that comes to its warning is reported once in a window, signed, with what a receiver needs; and again in the next, under another id.
func TestOncePerWindow(t *testing.T) {
	t.Parallel()
	to, calls := receive(t, http.StatusNoContent)
	tell := teller(t, to)
	for _, now := range []time.Duration{0, 0, 59 * time.Second, time.Minute, 61 * time.Second} {
		tell.now = func() time.Time { return start.Add(now) }
		tell.Note(warned("login:bob"))
	}
	for _, quiet := range []func(r *admit.Result){
		func(r *admit.Result) { r.Warning = false },
		func(r *admit.Result) { r.Mode = policy.Shadow },
		func(r *admit.Result) { r.N = 0 },
	} {
		d := warned("quiet")
		quiet(&d.Results[0])
		tell.Note(d)
	}
	denied := warned("denied")
	denied.Allowed = false
	tell.Note(denied)
	(*Warnings)(nil).Note(warned("nobody"))
	tell.start()
	first, second := <-calls, <-calls
	closeIt(t, tell)
	if f := tell.Figures(); f != (WarningFigures{Sent: 2}) {
		t.Errorf("%+v", f)
	}
	var got message
	if err := json.Unmarshal([]byte(first.body), &got); err != nil {
		t.Fatal(err)
	}
	want := message{got.ID, "limit.warning", got.Timestamp, data{Name: "login", Key: "login:bob", Used: 8, Limit: 10, PerSeconds: 60, Burst: 10, Node: "n1"}}
	if got != want || !got.Timestamp.Equal(start) || got.ID != first.header.Get("Webhook-Id") || first.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %v", first.body, first.header)
	}
	if second.header.Get("Webhook-Id") == got.ID {
		t.Errorf("both windows have id %s", got.ID)
	}
	for _, c := range []call{first, second} {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.%s", c.header.Get("Webhook-Id"), c.header.Get("Webhook-Timestamp"), c.body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); c.header.Get("Webhook-Signature") != want {
			t.Errorf("%v, want %s", c.header, want)
		}
	}
}

// What fails is tried again under the same id; what is refused for good, or redirected, is not.
func TestRetries(t *testing.T) {
	t.Parallel()
	to, calls := receive(t, 500, 429, 503, 200, 400, 307, 200)
	tell := teller(t, to)
	tell.start()
	ids := map[string]int{}
	tell.Note(warned("first"))
	for range 4 {
		ids[(<-calls).header.Get("Webhook-Id")]++
	}
	if len(ids) != 1 {
		t.Error(ids)
	}
	for _, key := range []string{"refused", "redirected", "taken"} {
		tell.Note(warned(key))
		if c := <-calls; !strings.Contains(c.body, key) {
			t.Error(c.body)
		}
	}
	closeIt(t, tell)
	if f := tell.Figures(); f != (WarningFigures{Sent: 2, Failed: 2}) {
		t.Errorf("%+v", f)
	}
}

// A warning that nobody takes is given up when it is old.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	to, calls := receive(t, 500)
	tell := teller(t, to)
	tell.Note(warned("k"))
	now := start
	tell.now = func() time.Time { return now }
	var last time.Duration
	tell.after = func(pause time.Duration) <-chan time.Time {
		now, last = now.Add(pause), pause
		done := make(chan time.Time, 1)
		done <- now
		return done
	}
	w := <-tell.queue
	tell.deliver(t.Context(), &w)
	if f := tell.Figures(); f.Failed != 1 || len(calls) < 15 || len(calls) > 27 || now.Sub(start) > giveUpAfter || last < longestPause/2 || last > longestPause {
		t.Errorf("%+v, %d calls in %s, %s apart at last", f, len(calls), now.Sub(start), last)
	}
}

// A full queue drops, and counts it; the next decision about the key tries again.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	to, _ := receive(t, 200)
	tell := teller(t, to)
	for n := range MaxWaitingWarnings {
		tell.Note(warned(fmt.Sprint(n)))
	}
	tell.Note(warned("late"))
	tell.Note(warned("late"))
	if f := tell.Figures(); f != (WarningFigures{Dropped: 2, Waiting: MaxWaitingWarnings}) {
		t.Fatalf("%+v", f)
	}
	<-tell.queue
	tell.Note(warned("late"))
	tell.Note(warned("late"))
	if f := tell.Figures(); f != (WarningFigures{Dropped: 2, Waiting: MaxWaitingWarnings}) {
		t.Errorf("%+v", f)
	}
}

// Close sends what waits, up to the first that is not taken, and does not wait for an answer that does not come.
func TestClose(t *testing.T) {
	t.Parallel()
	to, calls := receive(t, 200, 200, 500)
	tell := teller(t, to)
	for n := range 5 {
		tell.Note(warned(fmt.Sprint(n)))
	}
	close(tell.stop) // as Close does
	tell.finish(t.Context())
	if f := tell.Figures(); f != (WarningFigures{Sent: 2, Failed: 3}) || len(calls) != 3 {
		t.Errorf("%+v, %d calls", f, len(calls))
	}

	asked, end := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-end
	}))
	defer server.Close()
	defer close(end)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	tell = teller(t, to)
	tell.Note(warned("hangs"))
	tell.start()
	<-asked
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tell.Close(over); err != nil || tell.Figures().Failed != 1 {
		t.Errorf("%v, %+v", err, tell.Figures())
	}
}

// The keys that are remembered are bounded.
func TestWarnedKeysAreBounded(t *testing.T) {
	t.Parallel()
	warnings := newWarnings(WarningConfig{})
	for n := range KeptWarnings + 10 {
		warnings.Note(warned(fmt.Sprint(n)))
		<-warnings.queue
	}
	if n := len(warnings.warned); n != KeptWarnings {
		t.Errorf("%d keys", n)
	}
	warnings.Note(warned(fmt.Sprint(KeptWarnings + 9)))
	if n := len(warnings.queue); n != 0 {
		t.Error("the newest key is warned about again")
	}
}

// Nodes whose clocks are a little apart have one number for a window, and so one id; a window is a minute at least; a quota by the calendar has its edge.
func TestWindows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit     engine.Limit
		at, other time.Duration
		reset     time.Duration
		until     time.Duration
	}{
		{engine.Limit{N: 10, Per: time.Hour, Burst: 10}, 10 * time.Minute, 50 * time.Minute, time.Hour, 70 * time.Minute},
		{engine.Limit{N: 10, Per: time.Second, Burst: 10}, 10 * time.Second, 50 * time.Second, time.Second, 70 * time.Second},
		{engine.Limit{N: 10, Per: 24 * time.Hour, Burst: 10, Calendar: limit.Calendar{Unit: limit.Day}}, time.Hour, time.Hour + 200*time.Millisecond, 11 * time.Hour, 12 * time.Hour},
	} {
		r := admit.Result{Name: "l", Key: "k", Limit: test.limit, Verdict: engine.Verdict{Reset: test.reset}}
		one, until := windowOf(&r, start.Add(test.at))
		two, _ := windowOf(&r, start.Add(test.other))
		three, _ := windowOf(&r, until)
		if one != two || one == three && test.limit.Calendar.Unit == limit.NoUnit || !until.Equal(start.Add(test.until)) {
			t.Errorf("%+v: %d %d %d until %s", test.limit, one, two, three, until)
		}
		a, b := newWarning(&r, one, "n1", start), newWarning(&r, two, "n2", start)
		if a.id(secret) != b.id(secret) || a.id(secret) == a.id([]byte("another")) {
			t.Error(a.id(secret), b.id(secret))
		}
	}
}

// The secret, the ID, the time, the body and the signature are the example of Standard Webhooks (its reference libraries test with it).
func TestSignature(t *testing.T) {
	t.Parallel()
	key, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	sign(h, key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got := h.Get("Webhook-Signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
	for _, wrong := range []string{"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_!", "whsec_" + strings.Repeat("MfKQ9r8G", 11)} {
		if _, err := ParseSecret(wrong); err == nil || !strings.Contains(err.Error(), "openssl rand") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// BenchmarkNote is what a decision pays that warns of a key that was sent already.
func BenchmarkNote(b *testing.B) {
	tell := newWarnings(WarningConfig{})
	d := warned("login:bob")
	tell.Note(d)
	b.ReportAllocs()
	for b.Loop() {
		tell.Note(d)
	}
}
