package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestThrottle(t *testing.T) {
	var throttle throttle
	now := time.Unix(1_700_000_000, 0)
	for i := range 500 {
		_, ok := throttle.pass(fmt.Sprintf("127.0.0.1:%d - rid:%d - Client parser ERROR, proto='x%d'", 4000+i, i, i), now)
		if ok != (i == 0) {
			t.Fatalf("message %d: %v", i, ok)
		}
	}
	if _, ok := throttle.pass("no space left on device", now); !ok {
		t.Error("another message was not logged")
	}
	now = now.Add(time.Minute)
	if unsaid, ok := throttle.pass("127.0.0.1:9 - rid:9 - Client parser ERROR, proto='y'", now); !ok || unsaid != 499 {
		t.Errorf("a minute later: %d, %v", unsaid, ok)
	}
}

// Who sends junk of ever new shapes fills neither memory nor the log.
func TestThrottleIsBounded(t *testing.T) {
	var throttle throttle
	now, said := time.Unix(1_700_000_000, 0), 0
	for i := range 10_000 {
		if _, ok := throttle.pass(strings.Repeat("x", i+1), now); ok {
			said++
		}
	}
	if said > maxShapes+1 || len(throttle.shapes) > maxShapes+1 {
		t.Errorf("%d logged, %d shapes", said, len(throttle.shapes))
	}
}

func TestServerLogIsThrottled(t *testing.T) {
	var text bytes.Buffer
	l := serverLog{logger: slog.New(slog.NewTextHandler(&text, nil))}
	for i := range 1000 {
		l.Errorf("127.0.0.1:%d - rid:%d - TLS route handshake error: first record does not look like a TLS handshake", i, i)
	}
	if n := strings.Count(text.String(), "\n"); n != 1 && n != 2 { // a minute may pass on the way
		t.Errorf("%d lines", n)
	}
}
