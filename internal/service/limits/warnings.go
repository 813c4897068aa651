package limits

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// This part calls an address of the operator when a key reaches the warning of its policy (warn), once per key and
// window.
//
// Invariant: a decision never waits. It puts a new warning into a queue of fixed size, or counts it as dropped. One
// goroutine sends. Memory is bounded by KeptWarnings keys with a warning and MaxWaitingWarnings unsent warnings.
// Nothing is on disk, so a crash loses unsent warnings.

// MaxWaitingWarnings is the most unsent warnings. A warning that does not fit is counted as dropped, and the next
// request of its key tries again.
const MaxWaitingWarnings = 1024

// closeTime bounds Close.
const closeTime = 3 * time.Second

// WarningConfig says where warnings go. All but Node must be given.
type WarningConfig struct {
	URL    *url.URL
	Secret []byte // ParseSecret
	Node   string // this node's name in a cluster
	Logger *slog.Logger
}

// Warnings sends warnings. Create it with Open, and end it with Close. Of a nil one decisions may be noted, and nothing is sent. It is safe for many goroutines.
type Warnings struct {
	cfg    WarningConfig
	client *http.Client
	now    func() time.Time
	after  func(time.Duration) <-chan time.Time

	mu     sync.Mutex            // guards warned
	warned map[counted]time.Time // until when the warning of a key holds
	queue  chan warning

	sent, failed, dropped atomic.Uint64
	failing               bool // of the goroutine that sends: the last call failed

	closing sync.Once
	stop    chan struct{} // closed by Close
	cut     context.CancelFunc
	ended   chan struct{} // closed when the goroutine that sends has ended
}

// OpenWarnings begins to send.
func OpenWarnings(cfg WarningConfig) *Warnings {
	t := newWarnings(cfg)
	t.start()
	return t
}

func newWarnings(cfg WarningConfig) *Warnings {
	return &Warnings{
		cfg: cfg, client: newClient(), now: time.Now, after: time.After, warned: map[counted]time.Time{}, queue: make(chan warning, MaxWaitingWarnings),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
}

// start has one goroutine send until Close.
func (t *Warnings) start() {
	ctx, cut := context.WithCancel(context.Background())
	t.cut = cut
	go func() {
		defer close(t.ended)
		t.run(ctx)
	}()
}

// Note receives each decision that was not a peek. It does not wait, and keeps no reference to d.
//
// Cost: nothing on a nil Warnings. A decision that warns costs a look-up, and the first one of a key and window a copy.
func (t *Warnings) Note(d *admit.Decision) {
	if t == nil || !d.Allowed {
		return
	}
	for i := range d.Results {
		if r := &d.Results[i]; r.Warning && r.Mode == policy.Enforce && r.N > 0 {
			t.note(r)
		}
	}
}

func (t *Warnings) note(r *admit.Result) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.warned[counted{r.Name, r.Key}]) {
		return
	}
	if len(t.queue) == cap(t.queue) { // nobody else fills it meanwhile
		t.dropped.Add(1)
		return
	}
	number, until := windowOf(r, now)
	w := newWarning(r, number, t.cfg.Node, now)
	t.queue <- w
	for of := range t.warned {
		if len(t.warned) < KeptWarnings {
			break
		}
		delete(t.warned, of)
	}
	t.warned[w.counted] = until
}

type WarningFigures struct {
	Sent    uint64 `metric:"weir_warnings_sent_total" doc:"Warnings of limits that --warn-url accepted."`
	Failed  uint64 `metric:"weir_warnings_failed_total" doc:"Warnings of limits that were abandoned: --warn-url refused them, or accepted none for ten minutes."`
	Dropped uint64 `metric:"weir_warnings_dropped_total" doc:"Warnings dropped because the queue was full. The key's next decision tries again."`
	Waiting int    `metric:"weir_warnings_waiting" doc:"Warnings of limits that wait to be sent, at most 1,024."`
}

// Figures returns those since the start.
func (t *Warnings) Figures() WarningFigures {
	return WarningFigures{Sent: t.sent.Load(), Failed: t.failed.Load(), Dropped: t.dropped.Load(), Waiting: len(t.queue)}
}

// Close sends what waits, each once and for 3 s altogether or until ctx ends, up to the first that is not taken. The log says how many were not.
func (t *Warnings) Close(ctx context.Context) error {
	t.closing.Do(func() { close(t.stop) })
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	defer context.AfterFunc(ctx, t.cut)()
	<-t.ended
	t.cut()
	return nil
}

// KeptWarnings is the most keys whose warnings are remembered. A key that was forgotten is warned about again, under
// the same ID.
const KeptWarnings = 10_000

// WarningPause is the shortest window: a limit per second would call each second.
const WarningPause = time.Minute

type counted struct{ limit, key string }

// warning is one key that came to its warning.
type warning struct {
	counted
	at     time.Time
	window int64 // which window of the key it is about, the same on all nodes
	body   data
}

// message is the body of a call, as Standard Webhooks recommends it.
type message struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	Timestamp api.Time `json:"timestamp"`
	Data      data     `json:"data"`
}

// data has the words of api.DenialLimit.
type data struct {
	Name       string  `json:"name"`
	Key        string  `json:"key"`
	Used       uint64  `json:"used"`
	Limit      uint64  `json:"limit"`
	PerSeconds float64 `json:"per_s"`
	Burst      uint64  `json:"burst"`
	Calendar   string  `json:"calendar,omitempty"`
	Node       string  `json:"node,omitempty"`
}

// newWarning is what a result says at a time; it keeps no part of the result.
func newWarning(r *admit.Result, window int64, node string, at time.Time) warning {
	key := strings.Clone(r.Key)
	return warning{
		counted: counted{r.Name, key}, at: at, window: window,
		body: data{
			Name: r.Name, Key: key, Used: r.Limit.Burst - r.Remaining, Limit: r.Limit.N, PerSeconds: r.Limit.Per.Seconds(), Burst: r.Limit.Burst,
			Calendar: r.Limit.Calendar.String(), Node: node,
		},
	}
}

// windowOf returns the window of a result that warns now. Its number is the same on all nodes, as far as their clocks
// agree; until its end the key is not warned about again. A calendar quota has its periods as windows. Any other limit
// has one window per interval, at least WarningPause long. Windows are numbered from a common start, but end an
// interval from now. So a key that warns around the boundary of two windows is warned about once.
func windowOf(r *admit.Result, now time.Time) (number int64, until time.Time) {
	if r.Limit.Calendar.Unit != limit.NoUnit {
		until = now.Add(r.Reset)
		return until.Round(time.Minute).Unix(), until // edges are at whole minutes
	}
	window := max(r.Limit.Interval(), WarningPause)
	return now.Truncate(window).Unix(), now.Add(window)
}

// id is the same for a key and window, whichever node sends it and however often, and nobody can make it without the secret.
func (w *warning) id(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(strconv.AppendInt(wire.AppendText(wire.AppendText(nil, w.limit), w.key), w.window, 10))
	return "warning_" + hex.EncodeToString(mac.Sum(nil)[:16])
}

// message is the body of the call, in JSON, with its id.
func (w *warning) message(secret []byte) (id string, body []byte, err error) {
	id = w.id(secret)
	body, err = json.Marshal(message{id, "limit.warning", api.Millis(w.at), w.body})
	return id, body, err
}

const (
	// tryTimeout bounds one call.
	tryTimeout = 10 * time.Second
	// firstPause is about how long to wait after the first call that failed; each further one is twice as long, up to longestPause.
	firstPause   = time.Second
	longestPause = time.Minute
	// giveUpAfter is how old a warning becomes: then it is not tried again.
	giveUpAfter = 10 * time.Minute
	// mostAnswer is how much of an answer is read, so that its connection can be used again.
	mostAnswer = 64 << 10
)

// newClient follows no redirects: what is signed is for one address.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       tryTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: tryTimeout, IdleConnTimeout: time.Minute, MaxConnsPerHost: 1},
	}
}

// run sends one warning after another until Close.
func (t *Warnings) run(ctx context.Context) {
	defer t.client.CloseIdleConnections()
	for {
		select {
		case <-t.stop:
			t.finish(ctx)
			return
		case w := <-t.queue:
			t.deliver(ctx, &w)
		}
	}
}

// finish sends what waits, up to the first that is not taken.
func (t *Warnings) finish(ctx context.Context) {
	for len(t.queue) > 0 {
		w := <-t.queue
		t.deliver(ctx, &w)
		if !t.failing {
			continue
		}
		lost := 0
		for ; len(t.queue) > 0; lost++ {
			<-t.queue
		}
		if lost > 0 {
			t.failed.Add(uint64(lost))
			t.cfg.Logger.Warn("warnings that waited are not sent any more", "warnings", lost)
		}
		return
	}
}

// deliver sends a warning, and counts what became of it.
func (t *Warnings) deliver(ctx context.Context, w *warning) {
	if t.send(ctx, w) {
		t.sent.Add(1)
	} else {
		t.failed.Add(1)
	}
}

// send tries until a warning is taken, is refused for good, or is too old, or Close was called.
func (t *Warnings) send(ctx context.Context, w *warning) bool {
	id, body, err := w.message(t.cfg.Secret)
	if err != nil {
		t.heard(w, err)
		return false
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		again, err := t.try(ctx, id, body)
		t.heard(w, err)
		if err == nil {
			return true
		}
		wait := pause/2 + rand.N(pause/2) //nolint:gosec // so that nodes do not call all at once: it hides nothing
		if !again || t.now().Add(wait).Sub(w.at) > giveUpAfter || !t.wait(wait) {
			return false
		}
	}
}

// wait is false once Close was called.
func (t *Warnings) wait(pause time.Duration) bool {
	select {
	case <-t.stop:
		return false
	default:
	}
	select {
	case <-t.stop:
		return false
	case <-t.after(pause):
		return true
	}
}

// try calls once. Of an error again tells whether another call may do better. The error does not have the URL, which may be secret.
func (t *Warnings) try(ctx context.Context, id string, body []byte) (again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.cfg.URL.String(), bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "weir")
	sign(request.Header, t.cfg.Secret, id, t.now(), body)
	answer, err := t.client.Do(request)
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	if err != nil {
		return true, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, mostAnswer) // the status says all
	switch status := answer.StatusCode; {
	case status/100 == 2:
		return false, nil
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		again = true
	default:
		again = status/100 == 5
	}
	return again, fmt.Errorf("the answer is %s", answer.Status)
}

// heard logs when calls begin to fail, and when they succeed again.
func (t *Warnings) heard(w *warning, err error) {
	switch {
	case err != nil && !t.failing:
		t.cfg.Logger.Warn("the address of warnings does not take one; until it does, further failures are counted and not logged",
			"host", t.cfg.URL.Host, "limit", w.limit, "key", w.key, "error", err)
	case err == nil && t.failing:
		t.cfg.Logger.Info("the address of warnings takes them again", "host", t.cfg.URL.Host, "failed", t.failed.Load(), "dropped", t.dropped.Load())
	}
	t.failing = err != nil
}

// A secret has from least to most bytes.
const (
	leastSecret = 24
	mostSecret  = 64
)

// ParseSecret reads the secret that calls are signed with, as https://www.standardwebhooks.com has it: whsec_ and 24 to 64 bytes in base64.
func ParseSecret(text string) ([]byte, error) {
	encoded, prefixed := strings.CutPrefix(strings.TrimSpace(text), "whsec_")
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !prefixed || err != nil || len(secret) < leastSecret || len(secret) > mostSecret {
		return nil, errors.New("it is not whsec_ and 24 to 64 random bytes in base64: make one with `echo whsec_$(openssl rand -base64 32)`")
	}
	return secret, nil
}

// sign adds the header fields of Standard Webhooks (https://www.standardwebhooks.com) for an attempt at a time: id, time and body are
// signed together, with HMAC-SHA256.
func sign(h http.Header, secret []byte, id string, at time.Time, body []byte) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + seconds + "."))
	mac.Write(body)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", seconds)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
