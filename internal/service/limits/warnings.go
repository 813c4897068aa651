package limits

import (
	"container/list"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
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

	mu     sync.Mutex // guards warned
	warned *warnedKeys
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
	t := newTeller(cfg)
	t.start()
	return t
}

func newTeller(cfg WarningConfig) *Warnings {
	return &Warnings{
		cfg: cfg, client: newClient(), now: time.Now, after: time.After, warned: newWarnedKeys(KeptWarnings), queue: make(chan warning, MaxWaitingWarnings),
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
	if t.warned.has(counted{r.Name, r.Key}, now) {
		return
	}
	if len(t.queue) == cap(t.queue) { // nobody else fills it meanwhile
		t.dropped.Add(1)
		return
	}
	number, until := windowOf(r, now)
	w := newWarning(r, number, t.cfg.Node, now)
	t.queue <- w
	t.warned.add(w.counted, until)
}

// WarningFigures are for metrics.
type WarningFigures struct {
	Sent    uint64 `metric:"weir_warnings_sent_total" doc:"Warnings of limits that --warn-url took."`
	Failed  uint64 `metric:"weir_warnings_failed_total" doc:"Warnings of limits that were given up: --warn-url refused them, or took none for ten minutes."`
	Dropped uint64 `metric:"weir_warnings_dropped_total" doc:"Decisions whose warning found no place in the queue: the next one of the key tries again."`
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

// KeptWarnings is the most keys whose warnings are remembered. A key that was pushed out is warned about again, under
// the same ID.
const KeptWarnings = 10_000

// warnedKeys are the keys with a warning, and until when each warning holds. It is not safe for many goroutines.
type warnedKeys struct {
	most   int
	byKey  map[counted]*list.Element
	oldest *list.List // of entry, oldest warning first
}

type entry struct {
	of    counted
	until time.Time
}

func newWarnedKeys(most int) *warnedKeys {
	return &warnedKeys{most: most, byKey: map[counted]*list.Element{}, oldest: list.New()}
}

// has reports whether a key has a warning in the window of now.
func (t *warnedKeys) has(of counted, now time.Time) bool {
	at, ok := t.byKey[of]
	return ok && now.Before(at.Value.(entry).until)
}

// add remembers a key. If there are too many, it replaces the one with the oldest warning.
func (t *warnedKeys) add(of counted, until time.Time) {
	if at, ok := t.byKey[of]; ok {
		at.Value = entry{of, until}
		t.oldest.MoveToBack(at)
		return
	}
	if t.oldest.Len() == t.most {
		delete(t.byKey, t.oldest.Remove(t.oldest.Front()).(entry).of)
	}
	t.byKey[of] = t.oldest.PushBack(entry{of, until})
}

// WarningPause is the shortest window: a limit per second would call each second.
const WarningPause = time.Minute

// counted is the key that a limit counts.
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
