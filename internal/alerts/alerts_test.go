package alerts

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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/limit"
)

var start = time.Unix(1_769_860_800, 0)

// call is one that a receiver got.
type call struct {
	header http.Header
	body   string
	event  cloudEvent
	data   crossed
}

// receive is a webhook that answers with the statuses, and with the last of them for ever.
func receive(t *testing.T, statuses ...int) (url string, calls chan call) {
	t.Helper()
	calls = make(chan call, 2000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c := call{header: r.Header, body: string(body)}
		c.event.Data = &c.data
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/hook" || json.Unmarshal(body, &c.event) != nil {
			t.Errorf("%s %s %s: %v", r.Method, r.URL, body, err)
		}
		status := statuses[0]
		if len(statuses) > 1 {
			statuses = statuses[1:]
		}
		calls <- c
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hook", calls
}

func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// world is an engine on event time, its journal and alerts of it, whose pauses are none. Its tests call pass and settle themselves.
type world struct {
	t       *testing.T
	engine  *engine.Engine
	service *service.Service
	journal *durable.Journal // nil: none
	*Alerts
}

func newWorld(t *testing.T, dir, file string) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	if w.engine, err = engine.New(engine.Config{Gather: dir != "", Partitions: 4, Clock: engine.EventClock}); err != nil {
		t.Fatal(err)
	}
	e := w.engine
	t.Cleanup(func() { e.Close() })
	backend := service.Backend{Engine: w.engine}
	if dir != "" {
		if w.journal, err = durable.Open(t.Context(), w.engine, durable.Config{Dir: dir}, nil); err != nil {
			t.Fatal(err)
		}
		backend.Journal = w.journal
	}
	if w.service, err = service.New(backend, service.Config{}); err != nil {
		t.Fatal(err)
	}
	w.Alerts = newAlerts(Config{}, w.journal, "eu", "n1", slog.New(slog.DiscardHandler))
	w.now, w.since = func() time.Time { return start }, start
	w.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	if err := w.take("alerts.yaml", []byte(file)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	return w
}

// end ends it once.
func (w *world) end() {
	if w.engine == nil {
		return
	}
	if err := w.Alerts.Close(context.Background()); err != nil {
		w.t.Error(err)
	}
	if w.journal != nil {
		if err := w.journal.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
	w.engine = nil
}

func (w *world) hit(second int64, key string, n uint64) {
	w.t.Helper()
	if _, err := w.engine.HitAt(start.Add(time.Duration(second)*time.Second), key, n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) look() {
	w.t.Helper()
	if err := w.pass(w.t.Context(), w.service); err != nil {
		w.t.Fatal(err)
	}
}

// settled waits until as many events were taken.
func (w *world) settled(n int) {
	w.t.Helper()
	for range n {
		if err := w.settle(w.t.Context(), <-w.taken); err != nil {
			w.t.Fatal(err)
		}
	}
}

func config(url, alerts string) string {
	return fmt.Sprintf("to:\n- {name: ops, url: %q}\nalerts:\n%s\n", url, alerts)
}

// A crossing is announced once, and its end once the count has passed the other bound. A restart announces neither again.
func TestHysteresis(t *testing.T) {
	t.Parallel()
	url, calls := receive(t, 204)
	dir, file := t.TempDir(), config(url, `- {name: busy, keys: "url:*", window: 1m, above: 10, clear: 5, to: ops}`)
	w := newWorld(t, dir, file)
	quiet := func(what string) {
		t.Helper()
		w.look()
		w.look()
		if len(calls) > 0 || w.Figures().Waiting > 0 {
			t.Fatalf("%s is announced: %s", what, (<-calls).body)
		}
	}
	w.hit(0, "url:/a", 10)
	w.hit(0, "other", 99)
	quiet("a count on the bound")
	w.hit(1, "url:/a", 1)
	w.look()
	first := <-calls
	w.settled(1)
	bound := uint64(10)
	if e := first.event; e.SpecVersion != "1.0" || e.Source != "weir/eu" || e.Type != "weir.count.crossed" || e.Subject != "url:/a" || !e.Time.Equal(start) ||
		first.header.Get("Content-Type") != "application/cloudevents+json" || first.data.Alert != "busy" || first.data.Window != 60 ||
		*first.data.Above != bound || first.data.Below != nil || first.data.Clear != 5 || first.data.Count != 11 || first.data.Since != nil {
		t.Errorf("%s %v", first.body, first.header)
	}
	quiet("a crossing that was announced")
	w.hit(60, "url:/a", 5) // those of second 0 are gone
	quiet("a count of 6, above clear")
	w.hit(60, "url:/a", 9)
	quiet("a count that rises again before it was over")
	w.end()
	w = newWorld(t, dir, file)
	quiet("a crossing that was announced before the restart")
	w.hit(121, "other", 1)
	w.look()
	over := <-calls
	w.settled(1)
	if over.event.Type != "weir.count.cleared" || over.data.Count != 0 || !over.data.Since.Equal(start) || over.event.ID == first.event.ID {
		t.Error(over.body)
	}
	w.end()
	w = newWorld(t, dir, file)
	quiet("an end that was announced before the restart")
	w.hit(122, "url:/a", 11)
	w.look()
	if again := <-calls; again.event.Type != "weir.count.crossed" || again.event.ID == first.event.ID {
		t.Error(again.body)
	}
	w.settled(1)
	if f := w.Figures(); f != (Figures{Sent: 1, Open: 0}) || len(w.crossings) != 1 {
		t.Errorf("%+v, %d crossings", f, len(w.crossings))
	}
	if err := w.take("alerts.yaml", []byte(config(url, `- {name: other, keys: "url:*", window: 1m, above: 100, to: ops}`))); err != nil {
		t.Fatal(err)
	}
	quiet("an alert that is gone")
	if len(w.crossings) != 0 {
		t.Error("the crossing of an alert that is gone is kept")
	}
}

// An event that was not taken, or of which that is not known, comes again with its ID: after a failure, and after a restart.
func TestAtLeastOnce(t *testing.T) {
	t.Parallel()
	url, calls := receive(t, 500, 429, 200, 200)
	dir, file := t.TempDir(), config(url, `- {name: busy, keys: "url:/a", window: 1h, above: 0, to: ops}`)
	w := newWorld(t, dir, file)
	w.hit(0, "url:/a", 1)
	w.look()
	ids := map[string]int{}
	for range 3 {
		ids[(<-calls).event.ID]++
	}
	w.end() // before that it was taken is written
	w = newWorld(t, dir, file)
	w.look()
	ids[(<-calls).event.ID]++
	w.settled(1)
	if len(ids) != 1 {
		t.Errorf("IDs %v, want one", ids)
	}
	w.forget()
	w.look()
	if len(calls) > 0 || w.Figures().Waiting > 0 {
		t.Error("an event that was taken is sent again")
	}
}

// Two nodes that look at once announce a crossing under one ID: of two revisions one wins.
func TestTwoLook(t *testing.T) {
	t.Parallel()
	url, calls := receive(t, 200)
	w := newWorld(t, t.TempDir(), config(url, `- {name: busy, keys: "url:/a", window: 1h, above: 0, to: ops}`))
	w.look()
	other := newAlerts(Config{}, w.journal, "eu", "n2", w.log)
	if err := other.take("alerts.yaml", []byte(config(url, `- {name: busy, keys: "url:/a", window: 1h, above: 0, to: ops}`))); err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	if err := other.pass(t.Context(), w.service); err != nil {
		t.Fatal(err)
	}
	w.hit(0, "url:/a", 1)
	w.look()
	if err := other.pass(t.Context(), w.service); err == nil {
		t.Fatal("both nodes have written the crossing")
	}
	if err := other.pass(t.Context(), w.service); err != nil {
		t.Fatal(err)
	}
	if a, b := <-calls, <-calls; a.event.ID != b.event.ID {
		t.Errorf("%s and %s", a.body, b.body)
	}
}

// A low count is announced for each key that fits, also for one that never had a hit, but not by a server that just started.
func TestBelow(t *testing.T) {
	t.Parallel()
	url, calls := receive(t, 200)
	w := newWorld(t, "", config(url, `- {name: quiet, keys: "beat:*", window: 1m, below: 2, to: ops}
- {name: never, keys: "beat:never", window: 1m, below: 1, clear: 1, to: ops}`))
	w.hit(0, "beat:a", 2)
	w.hit(0, "beat:b", 1)
	w.look()
	w.now = func() time.Time { return start.Add(59 * time.Second) }
	w.look()
	if f := w.Figures(); len(calls) > 0 || f.Waiting > 0 {
		t.Fatal("a server that just started announces low counts")
	}
	w.now = func() time.Time { return start.Add(time.Minute) }
	w.look()
	got := map[string]bool{}
	for range 2 {
		c := <-calls
		got[c.data.Alert+" "+c.data.Key] = c.data.Below != nil && c.data.Above == nil
	}
	w.settled(2)
	if !got["quiet beat:b"] || !got["never beat:never"] {
		t.Error(got)
	}
	w.hit(1, "beat:never", 2) // so that it is not quiet either
	w.look()
	if c := <-calls; c.event.Type != "weir.count.cleared" || c.data.Key != "beat:never" {
		t.Error(c.body)
	}
	w.settled(1)
}

// The keys of crossings are bounded, and an alarm says that there are more.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	url, calls := receive(t, 200)
	w := newWorld(t, "", config(url, `- {name: busy, keys: "url:*", window: 1h, above: 0, to: ops}`))
	for i := range maxOpen + 5 {
		w.hit(0, fmt.Sprintf("url:/%d", i), 1)
	}
	w.look()
	w.settled(maxOpen)
	w.look()
	if list := w.Alarms(); len(calls) != maxOpen || len(list) != 1 || list[0].Code != "alerts_full" {
		t.Errorf("%d calls, %v", len(calls), list)
	}
}

// An event that is refused for good holds up no other; a destination that takes none is an alarm, and takes all later.
func TestRefused(t *testing.T) {
	t.Parallel()
	url, calls := receive(t, 400, 307, 200)
	w := newWorld(t, "", config(url, `- {name: busy, keys: "url:*", window: 1h, above: 0, to: ops}`))
	w.hit(0, "url:/a", 2)
	w.hit(0, "url:/b", 1)
	w.look()
	w.settled(2)
	if f := w.Figures(); f.Sent != 1 || f.Failed != 1 || len(calls) != 3 {
		t.Errorf("%+v, %d calls", f, len(calls))
	}
	for _, d := range w.destinations {
		d.mu.Lock()
		d.err, d.since = io.EOF, start.Add(-time.Minute)
		d.mu.Unlock()
	}
	if list := w.Alarms(); len(list) != 1 || list[0].Code != "alerts_failing" || !strings.Contains(list[0].Message, "ops has taken no event since") {
		t.Error(list)
	}
}

// Calls have the fields of a file, read for each call, and a signature as Standard Webhooks has it.
func TestCallers(t *testing.T) {
	t.Parallel()
	url, calls := receive(t, 200)
	header, secret := written(t, "Authorization: Bearer one\nX-Team: a b\n"), []byte("0123456789abcdefghijklmnopqrstuv")
	file := fmt.Sprintf("to: [{name: ops, url: %q, header_file: %s, secret_file: %s}]\nalerts:\n- {name: near, limits: 'log*', to: ops}\n",
		url, header, written(t, "whsec_"+base64.StdEncoding.EncodeToString(secret)))
	w := newWorld(t, "", file)
	w.Warned(warned("login:bob"))
	w.Warned(warned("login:bob"))
	c := <-calls
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", c.header.Get("Webhook-Id"), c.header.Get("Webhook-Timestamp"), c.body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); c.header.Get("Webhook-Signature") != want || c.header.Get("Authorization") != "Bearer one" || c.header.Get("X-Team") != "a b" {
		t.Errorf("%v, want %s", c.header, want)
	}
	if c.event.Type != "weir.limit.warning" || c.header.Get("Webhook-Id") != c.event.ID || !strings.Contains(c.body, `"data":{"alert":"near","name":"login","key":"login:bob","used":8,"limit":10,"per_s":60,"burst":10,"node":"n1"}`) {
		t.Error(c.body)
	}
	if err := os.WriteFile(header, []byte("Authorization: Bearer two"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.now = func() time.Time { return start.Add(time.Minute) }
	w.Warned(warned("login:bob"))
	if again := <-calls; again.header.Get("Authorization") != "Bearer two" || again.event.ID == c.event.ID {
		t.Errorf("%v %s", again.header, again.body)
	}
}

// The example of Standard Webhooks, with which its reference libraries test.
func TestSignature(t *testing.T) {
	t.Parallel()
	key, err := (&destinationSpec{secretFile: written(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")}).secret()
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	sign(h, key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got := h.Get("Webhook-Signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
}

// Each fault of a file has a message that says what to do.
func TestFiles(t *testing.T) {
	t.Parallel()
	const ops, busy = `to: [{name: ops, url: "https://a.example/x"}]` + "\n", `{name: busy, keys: "a:*", window: 5m, above: 10, to: ops}`
	for _, c := range []struct{ file, want string }{
		{ops + "alerts: [" + busy + "]", ""},
		{ops + "alerts: [{name: a, keys: b, window: 1m, below: 3, clear: 3, to: ops}, {name: b, limits: '*', to: ops}]", ""},
		{ops + "alerts: []", "write 1 to 100"},
		{ops + "alerts: [" + busy + "," + busy + "]", "a name of its own"},
		{ops + "alert: [" + busy + "]", "alert"},
		{ops + "alerts: [{name: a, keys: b, window: 1m, above: -3, to: ops}]", "-3"},
		{ops + "alerts: [{name: a, window: 1m, above: 3, to: ops}]", "keys: 0 bytes"},
		{ops + "alerts: [{name: a, keys: '{', window: 1m, above: 3, to: ops}]", "keys:"},
		{ops + "alerts: [{name: a, keys: b, window: 500ms, above: 3, to: ops}]", "whole seconds"},
		{ops + "alerts: [{name: a, keys: b, window: 5m, above: 3, below: 2, to: ops}]", "either above or below"},
		{ops + "alerts: [{name: a, keys: b, window: 5m, to: ops}]", "either above or below"},
		{ops + "alerts: [{name: a, keys: b, window: 5m, above: 3, clear: 4, to: ops}]", "write 3"},
		{ops + "alerts: [{name: a, keys: b, window: 5m, below: 3, clear: 2, to: ops}]", "write 3"},
		{ops + "alerts: [{name: a, keys: b, window: 5m, below: 0, to: ops}]", "write 1"},
		{ops + "alerts: [{name: a, keys: b, window: 5m, above: 1, to: opps}]", `name "opps"`},
		{ops + "alerts: [{name: a, limits: '*', above: 1, to: ops}]", "leave out"},
		{"to: [{name: ops, url: 'http://a.example/secret'}]\nalerts: [" + busy + "]", "--insecure-peers"},
		{"to: [{name: ops, url: 'http://[::1]:80/x'}]\nalerts: [" + busy + "]", ""},
		{"to: [{name: ops, url: 'https://me:mine@a.example'}]\nalerts: [" + busy + "]", "header_file"},
		{"to: [{name: ops, url: 'ftp://a.example'}]\nalerts: [" + busy + "]", "nats://"},
		{"to: [{name: ops, url: 'nats://127.0.0.1:4222/a.b'}]\nalerts: [" + busy + "]", ""},
		{"to: [{name: ops, url: 'nats://127.0.0.1:4222/a.*'}]\nalerts: [" + busy + "]", "one subject"},
		{"to: [{name: ops, url: 'nats://127.0.0.1:4222/a?key=x'}]\nalerts: [" + busy + "]", "only creds"},
		{"to: [{name: ops, url: 'kafka://127.0.0.1:9092/a', secret_file: x}]\nalerts: [" + busy + "]", "for webhooks"},
		{"to: [{name: ops, url: 'https://a.example', secret_file: none}]\nalerts: [" + busy + "]", "no such file"},
		{"to: [{name: ops, url: 'https://a.example', secret_file: " + written(t, "x") + "}]\nalerts: [" + busy + "]", "openssl rand"},
		{"to: [{name: ops, url: 'https://a.example', header_file: " + written(t, "token") + "}]\nalerts: [" + busy + "]", "Bearer TOKEN"},
	} {
		_, err := parse("alerts.yaml", []byte(c.file), false)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "mine@") || strings.Contains(err.Error(), "/secret")) {
			t.Errorf("%s: %v, want %q", c.file, err, c.want)
		}
	}
}

// warned is a result that warns of a key.
func warned(key string) *admit.Result {
	return &admit.Result{
		Name: "login", Key: key, Limit: engine.Limit{N: 10, Per: time.Minute, Burst: 10}, N: 1, Warning: true,
		Verdict: engine.Verdict{Allowed: true, Remaining: 2, Reset: time.Minute},
	}
}

// A full queue drops a warning, and counts it; the next decision about the key tries again. The keys that are remembered are bounded.
func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", config("http://127.0.0.1:1/hook", `- {name: near, limits: login, to: ops}`))
	w.end() // nobody sends
	for n := range maxWaiting {
		w.Warned(warned(fmt.Sprint(n)))
	}
	w.Warned(warned("late"))
	w.Warned(warned("late"))
	d := w.rules.Load().list[0].to
	if f := w.Figures(); f.Dropped != 2 || f.Waiting != maxWaiting {
		t.Fatalf("%+v", f)
	}
	for n := range keptWarnings {
		d.queue = nil
		w.Warned(warned(fmt.Sprint("more", n)))
	}
	if len(w.warned) != keptWarnings {
		t.Errorf("%d keys are remembered", len(w.warned))
	}
	other := warned("other")
	other.Name = "api"
	d.queue = nil
	if w.Warned(other); len(d.queue) > 0 {
		t.Error("a limit without an alert is announced")
	}
}

// Nodes whose clocks are a little apart have one number for a window, and so one ID; a window is a minute at least; a quota by the calendar has its edge.
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
		if a, b := warningID("r", "l", "k", one), warningID("r", "l", "k", two); a != b || a == warningID("s", "l", "k", one) {
			t.Error(a, b)
		}
	}
}
