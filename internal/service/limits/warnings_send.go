package limits

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

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
