// Package alerts sends events when the count of a key crosses a bound, and when a key reaches the warning of its policy. Events are
// CloudEvents 1.0 in JSON. They go to a webhook, to a NATS subject or to a Kafka topic, as the file of --alerts says (docs/alerts.md).
//
// A crossing is announced once, and its end once the count has passed the other bound (clear). In a cluster the node with the lease
// looks. It writes each event to a bucket that all nodes share before it sends it, and again once it was taken. So after a crash
// the event is sent again with the same ID. Two nodes that look at once can't both write: of two revisions one wins.
//
// Invariants:
//   - A key of an alert has at most one event that was not taken yet. Until then its next crossing waits.
//   - An event of a crossing is in the bucket before it is sent.
//   - After a failure of the bucket nothing that was known counts: the state is read again.
//   - A decision never waits: its warning fits into a queue, or is dropped and counted.
package alerts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/service"
)

// Config says what to announce. The zero value announces nothing.
type Config struct {
	File     string // docs/alerts.md
	Insecure bool   // destinations may be on other machines without TLS
}

// Alerts sends the events of a node. Create it with Open, call Start once there is a service, and end it with Close.
type Alerts struct {
	cfg     Config
	source  string // of events
	node    string
	log     *slog.Logger
	journal *durable.Journal // nil: hits are in memory only, and so is what was announced
	rules   atomic.Pointer[rules]
	now     func() time.Time
	since   time.Time // of its start
	sleep   func(ctx context.Context, d time.Duration) error

	mu           sync.Mutex // guards the following
	destinations map[destinationSpec]*destination
	warned       map[warnedKey]time.Time // until when the warning of a key holds
	fileFault    string                  // "": the newest file is in use
	fault        string                  // why nothing is looked at; "": all is well
	full         string                  // which alert has too many keys; "": none

	sending sync.WaitGroup // goroutines of destinations
	ends    []func()
	lease   *kv.LeaseHolder // nil: this node is alone
	taken   chan *crossing  // whose events were taken, or given up
	life    atomic.Uint64   // of what is known: events of an earlier one are not sent any more
	opened  atomic.Int64    // crossings

	state // of the goroutine that looks

	sent, failed, dropped atomic.Uint64
}

// Check reads the file, before anything is opened.
func (c Config) Check() error {
	if c.File == "" {
		return nil
	}
	data, err := readFile(c.File)
	if err == nil {
		_, err = parse(c.File, data, c.Insecure)
	}
	if err != nil {
		err = fmt.Errorf("--alerts: %w", err)
	}
	return err
}

// Open reads the file of --alerts, and begins to send warnings. name is the region or cluster, and node its node; both may be "".
func Open(cfg Config, j *durable.Journal, name, node string, log *slog.Logger) (*Alerts, error) {
	data, err := readFile(cfg.File)
	if err != nil {
		return nil, fmt.Errorf("--alerts: %w", err)
	}
	a := newAlerts(cfg, j, name, node, log)
	if err := a.take(cfg.File, data); err != nil {
		return nil, fmt.Errorf("--alerts: %w", err)
	}
	return a, nil
}

func newAlerts(cfg Config, j *durable.Journal, name, node string, log *slog.Logger) *Alerts {
	return &Alerts{
		cfg: cfg, source: strings.TrimSuffix("weir/"+name, "/"), node: node, log: log, journal: j, now: time.Now, since: time.Now(), sleep: concurrency.Sleep,
		destinations: map[destinationSpec]*destination{}, warned: map[warnedKey]time.Time{}, taken: make(chan *crossing, maxOpen),
	}
}

func readFile(path string) ([]byte, error) { return filewatch.Read(path, "alerts", maxFile) }

// Start begins to look at counts, and to follow the file.
func (a *Alerts) Start(s *service.Service) {
	if a.journal != nil {
		a.lease = a.journal.HoldLease("alerts")
	}
	file := &filewatch.File{
		Path: a.cfg.File, What: "alerts", Gone: "put it back", Read: readFile, Take: a.take, Report: a.report,
		InUse: func() filewatch.Hash { return a.rules.Load().content },
	}
	a.ends = append(a.ends,
		concurrency.Background(context.Background(), func(ctx context.Context) { file.Watch(ctx, nil) }),
		concurrency.Background(context.Background(), func(ctx context.Context) { a.look(ctx, s) }))
}

// Content identifies the file in use, for nodes to compare; "" of a nil one.
func (a *Alerts) Content() string {
	if a == nil {
		return ""
	}
	content := a.rules.Load().content
	return string(content[:])
}

// take puts the content of a file in use. Destinations that stay keep what waits for them.
func (a *Alerts) take(path string, data []byte) error {
	rules, err := parse(path, data, a.cfg.Insecure)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	used := map[destinationSpec]*destination{}
	for i := range rules.list {
		r := &rules.list[i]
		if r.to = used[r.spec]; r.to == nil {
			r.to = a.destinations[r.spec]
		}
		if r.to == nil {
			if r.to, err = a.newDestination(r.spec); err != nil {
				return err
			}
		}
		used[r.spec] = r.to
	}
	for spec, d := range a.destinations {
		if used[spec] == nil {
			d.cancel()
		}
	}
	a.destinations = used
	a.rules.Store(rules)
	a.log.Info("alerts are in use", "file", path, "alerts", len(rules.list))
	return nil
}

func (a *Alerts) report(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fileFault = ""; err != nil {
		a.fileFault = err.Error()
		a.log.Error("the file of --alerts can't be used; the alerts before the change are in use", "error", err)
	}
}

// Close ends the watch, and sends warnings that wait, for 3 s altogether or until ctx ends.
func (a *Alerts) Close(ctx context.Context) (err error) {
	for _, end := range a.ends {
		end()
	}
	if a.lease != nil {
		err = a.lease.Close(ctx)
	}
	a.mu.Lock()
	for _, d := range a.destinations {
		d.cancel()
	}
	a.mu.Unlock()
	a.sending.Wait()
	return err
}

// Figures are counted since the start.
type Figures struct {
	Sent    uint64 `metric:"weir_alerts_sent_total" doc:"Events of --alerts that were accepted."`
	Failed  uint64 `metric:"weir_alerts_failed_total" doc:"Events of --alerts that were abandoned: refused, or not accepted within a day."`
	Dropped uint64 `metric:"weir_alerts_dropped_total" doc:"Warnings of limits dropped because the queue was full. The key's next decision tries again."`
	Waiting int    `metric:"weir_alerts_waiting" doc:"Events of --alerts that wait to be sent."`
	Open    int64  `metric:"weir_alerts_open" doc:"Keys beyond a bound of --alerts, of the node that announces them."`
}

func (a *Alerts) Figures() Figures {
	f := Figures{Sent: a.sent.Load(), Failed: a.failed.Load(), Dropped: a.dropped.Load(), Open: a.opened.Load()}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.destinations {
		f.Waiting += d.waiting()
	}
	return f
}

// Alarms say what can't be announced.
func (a *Alerts) Alarms() (list []api.Alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	add := func(code, format string, args ...any) {
		list = append(list, api.Alarm{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if a.fileFault != "" {
		add("alerts_file_bad", "the newest file of --alerts can't be used, and the one before it applies: %s", a.fileFault)
	}
	if a.fault != "" {
		add("alerts_failing", "no crossings are announced now: %s", a.fault)
	}
	if a.full != "" {
		add("alerts_full", "%s", a.full)
	}
	for _, d := range a.destinations {
		if since, err := d.failingSince(); err != nil && a.now().Sub(since) > failingFor {
			add("alerts_failing", "%s has taken no event since %s: %v; %d wait", d.name, since.UTC().Format(time.RFC3339), err, d.waiting())
		}
	}
	return list
}

// cloudEvent is an event as CloudEvents 1.0 has it in JSON.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            any       `json:"data"`
}

// newEvent returns an event about a key. A new ID is made for an empty one.
func (a *Alerts) newEvent(id, kind, key string, data any) event {
	if id == "" {
		id = rand.Text()
	}
	at := a.now().UTC().Truncate(time.Millisecond)
	body, _ := json.Marshal(cloudEvent{"1.0", id, a.source, kind, key, at, "application/json", data}) // numbers and texts
	return event{ID: id, Key: key, At: at, Body: body}
}
