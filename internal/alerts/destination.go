package alerts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/topics"
)

const (
	maxWaiting = 1024             // events of one destination
	tryTimeout = 10 * time.Second // of one try
	giveUp     = 24 * time.Hour   // how old an event becomes
	failingFor = 5 * time.Second  // before there is an alarm
	closeTime  = 3 * time.Second  // in which Close sends warnings

	// firstPause is about how long to wait after the first failure; each further pause is twice as long, up to longestPause.
	firstPause   = time.Second
	longestPause = time.Minute

	// mostAnswer is how much of an answer is read, so that its connection can be used again.
	mostAnswer = 64 << 10
)

// event is one to send, and as the bucket has it.
type event struct {
	ID   string          `json:"id"`
	Key  string          `json:"key"`
	At   time.Time       `json:"at"`
	Body json.RawMessage `json:"body"`

	crossing *crossing // nil: it is a warning
	life     uint64    // of a crossing
}

// destination is where events go. One goroutine sends them, until its context ends.
type destination struct {
	alerts *Alerts
	name   string
	spec   destinationSpec
	cancel context.CancelFunc
	wake   concurrency.Signal
	client *http.Client   // nil: there is a writer
	writer *topics.Writer // nil: there is a client

	mu    sync.Mutex // guards the following
	queue []event
	err   error // of the last try
	since time.Time
}

// newDestination starts a destination.
func (a *Alerts) newDestination(spec destinationSpec) (*destination, error) {
	d := &destination{alerts: a, name: spec.name, spec: spec, wake: concurrency.NewSignal()}
	if spec.web() { // it follows no redirects: what is signed is for one address
		d.client = &http.Client{
			Timeout:       tryTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: tryTimeout, IdleConnTimeout: time.Minute, MaxConnsPerHost: 1},
		}
	} else {
		var err error
		if d.writer, err = topics.NewWriter(spec.url, a.cfg.Insecure); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	a.sending.Go(func() { d.run(ctx) })
	return d, nil
}

// offer adds an event; false: the queue is full. One that was taken from it is added in any case.
func (d *destination) offer(e event, again bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) >= maxWaiting && !again {
		return false
	}
	d.queue = append(d.queue, e)
	d.wake.Raise()
	return true
}

// next takes the first event that is to be sent.
func (d *destination) next(warningsAlone bool) (e event, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 {
		e = d.queue[0]
		d.queue = slices.Delete(d.queue, 0, 1)
		if e.crossing == nil || !warningsAlone && e.life == d.alerts.life.Load() {
			return e, true
		}
	}
	return e, false
}

func (d *destination) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue)
}

func (d *destination) failingSince() (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since, d.err
}

// run sends one event after another. One that fails goes to the end of the queue, so that it holds up no other for long.
func (d *destination) run(ctx context.Context) {
	sending, cut := context.WithCancel(context.Background()) // a call that is under way ends
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeTime, cut) })()
	pause := firstPause
	for ctx.Err() == nil {
		e, ok := d.next(false)
		if !ok {
			select {
			case <-ctx.Done():
			case <-d.wake:
			}
			continue
		}
		again, err := d.send(sending, &e)
		switch {
		case err == nil:
			pause = firstPause
		case again && d.alerts.now().Sub(e.At) < giveUp:
			d.offer(e, true)
			_ = d.alerts.sleep(ctx, pause/2+rand.N(pause/2)) //nolint:gosec // so that nodes do not call all at once: it hides nothing
			pause = min(2*pause, longestPause)
			continue
		}
		if e.crossing != nil {
			select {
			case d.alerts.taken <- e.crossing:
			case <-ctx.Done():
			}
		}
	}
	d.finish(sending)
}

// finish sends the warnings that wait, up to the first that is not taken. Crossings are sent after the next start.
func (d *destination) finish(ctx context.Context) {
	for again := false; !again; {
		e, ok := d.next(true)
		if !ok {
			break
		}
		again, _ = d.send(ctx, &e)
	}
	if n := d.waiting(); n > 0 {
		d.alerts.log.Warn("events wait at the end: crossings are sent after the next start, warnings are not", "to", d.name, "events", n)
	}
	if d.client != nil {
		d.client.CloseIdleConnections()
	} else {
		d.writer.Close()
	}
}

// send tries once, and counts what is settled by it. After an error, again reports whether another try may do better.
func (d *destination) send(ctx context.Context, e *event) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if d.client != nil {
		again, err = d.call(ctx, e)
	} else {
		again, err = true, d.writer.Write(ctx, e.ID, e.Key, e.Body)
	}
	switch {
	case err == nil:
		d.alerts.sent.Add(1)
	case !again || d.alerts.now().Sub(e.At) >= giveUp:
		d.alerts.failed.Add(1)
		d.alerts.log.Error("an event is abandoned", "to", d.name, "key", e.Key, "id", e.ID, "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil && d.err == nil:
		d.since = d.alerts.now()
		d.alerts.log.Warn("a destination of alerts does not take an event; until it does, further failures are not logged", "to", d.name, "key", e.Key, "error", err)
	case err == nil && d.err != nil:
		d.alerts.log.Info("a destination of alerts takes events again", "to", d.name)
	}
	d.err = err
	return again, err
}

// call calls the webhook. The error does not have the URL, which may be secret.
func (d *destination) call(ctx context.Context, e *event) (again bool, err error) {
	header, errHeader := d.spec.header()
	secret, errSecret := d.spec.secret()
	if err := cmp.Or(errHeader, errSecret); err != nil {
		return true, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.spec.url, bytes.NewReader(e.Body))
	if err != nil {
		return false, errors.New("the URL is not valid")
	}
	request.Header = header
	header.Set("Content-Type", "application/cloudevents+json")
	header.Set("User-Agent", "weir")
	if secret != nil {
		sign(header, secret, e.ID, d.alerts.now(), e.Body)
	}
	answer, err := d.client.Do(request)
	if failure, ok := errors.AsType[*url.Error](err); ok {
		err = failure.Err
	}
	if err != nil {
		return true, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, mostAnswer) // the status says all
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
	default: // others are about the receiver, or about who calls: an operator can repair that
		again = true
	}
	if answer.StatusCode/100 == 2 {
		return false, nil
	}
	return again, fmt.Errorf("the answer is %s", answer.Status)
}

// header reads the fields that calls have: lines of a file, such as "Authorization: Bearer TOKEN".
func (s *destinationSpec) header() (http.Header, error) {
	header := http.Header{}
	if s.headerFile == "" {
		return header, nil
	}
	text, err := os.ReadFile(s.headerFile)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && !strings.ContainsAny(name, " \t") {
			header.Add(name, strings.TrimSpace(value))
		} else if name != "" {
			return nil, fmt.Errorf("%s: write lines such as `Authorization: Bearer TOKEN`", s.headerFile)
		}
	}
	return header, nil
}

// A secret has from least to most bytes.
const (
	leastSecret = 24
	mostSecret  = 64
)

// secret reads the secret that calls are signed with, as https://www.standardwebhooks.com has it; nil: there is none.
func (s *destinationSpec) secret() ([]byte, error) {
	if s.secretFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.secretFile)
	if err != nil {
		return nil, err
	}
	encoded, prefixed := strings.CutPrefix(strings.TrimSpace(string(text)), "whsec_")
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !prefixed || err != nil || len(secret) < leastSecret || len(secret) > mostSecret {
		return nil, fmt.Errorf("%s: it is not whsec_ and 24 to 64 random bytes in base64: make one with `echo whsec_$(openssl rand -base64 32)`", s.secretFile)
	}
	return secret, nil
}

// sign adds the header fields of Standard Webhooks for a try at a time: id, time and body are signed together, with HMAC-SHA256.
func sign(h http.Header, secret []byte, id string, at time.Time, body []byte) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + seconds + "."))
	mac.Write(body)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", seconds)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
