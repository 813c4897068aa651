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

// This part calls an address of the operator's when a key comes to the warning of its policy (warn), once for a key and
// window.
//
// Invariant: a decision waits for nobody. It puts what is new into a queue of fixed size, or counts that there was no place; one goroutine
// sends. Memory is bounded: Kept keys that were told, Waiting warnings that wait. Nothing is on disk, so a crash loses what waits.

// MaxWaitingWarnings is how many warnings wait to be sent, at most: of one more the request that finds no place is counted, and the next
// of its key tries again.
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

	mu     sync.Mutex // guards told
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

// Note is told of each decision that was not a peek. It waits for nothing, and keeps no part of it.
//
// Cost: nothing without a Teller; of a decision that warns, a look-up, and for the first of a key and window its copy.
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

// KeptWarnings is how many keys that were told are remembered. A key that others have pushed out is told again, under the same id.
const KeptWarnings = 10_000

// told is which keys were told, until when that holds. It is not safe for many goroutines.
type warnedKeys struct {
	most   int
	byKey  map[counted]*list.Element
	oldest *list.List // of entry; the first was told first
}

type entry struct {
	of    counted
	until time.Time
}

func newWarnedKeys(most int) *warnedKeys {
	return &warnedKeys{most: most, byKey: map[counted]*list.Element{}, oldest: list.New()}
}

// has tells whether a key was told, in the window of now.
func (t *warnedKeys) has(of counted, now time.Time) bool {
	at, ok := t.byKey[of]
	return ok && now.Before(at.Value.(entry).until)
}

// add remembers a key, in the place of the one that was told first if there are too many.
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

// windowOf is the window of a result that warns now: its number is the same on all nodes, but for their clocks, and until its end the key is not told
// again. A quota by the calendar has its periods. Of other limits there is one in each interval (Pause at least): numbers are of intervals from
// the same beginning for all, and the end is an interval from now, so that a key that is warned of around the edge of two is told once.
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
