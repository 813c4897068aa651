package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// announced is the IDs of the events that a receiver got, for each key.
type announced struct {
	mu  sync.Mutex
	ids map[string]map[string]bool
}

func (a *announced) add(t *testing.T, body []byte) {
	var event struct{ ID, Type, Subject string }
	if err := json.Unmarshal(body, &event); err != nil || event.Type != "weir.count.crossed" {
		t.Errorf("%s: %v", body, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids == nil {
		a.ids = map[string]map[string]bool{}
	}
	if a.ids[event.Subject] == nil {
		a.ids[event.Subject] = map[string]bool{}
	}
	a.ids[event.Subject][event.ID] = true
}

// check waits until there are events of all keys, and looks that each key has one ID.
func (a *announced) check(t *testing.T, keys int) {
	t.Helper()
	transporttest.Eventually(t, "all crossings are announced", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.ids) >= keys
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, ids := range a.ids {
		if len(ids) != 1 {
			t.Errorf("%s is announced under %d IDs", key, len(ids))
		}
	}
}

// webhook is a receiver that answers some calls with 500.
func (a *announced) webhook(t *testing.T) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil { // its sender was killed
			return
		}
		if a.add(t, body); rand.IntN(4) == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A node that is killed announces each crossing under one ID: to a webhook, a NATS subject and a Kafka topic.
func TestCrashAlerts(t *testing.T) {
	t.Parallel()
	const keys = 40
	var web, bus, log announced
	broker, kafka, dir := newNATSTopic(t).(*natsTopic), newKafkaTopic(t).(*kafkaTopic), t.TempDir()
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	rules := fmt.Sprintf(`to:
- {name: web, url: %q}
- {name: bus, url: "nats://127.0.0.1:%d/events.alerts"}
- {name: log, url: "kafka://127.0.0.1:%d/events"}
alerts:
- {name: a, keys: "url:*", window: 1h, above: 1, to: web}
- {name: b, keys: "url:*", window: 1h, above: 1, to: bus}
- {name: c, keys: "url:*", window: 1h, above: 1, to: log}
`, web.webhook(t), broker.options.Port, kafka.port)
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, dir, "--alerts", file)
	for i := range keys {
		for !p.post(fmt.Sprintf("url:/%d", i), 2, fmt.Sprint(i), true) {
			continue
		}
		if i%10 == 9 {
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond) //nolint:forbidigo // anywhere between a crossing and its end
			if _, err := p.end(t, os.Kill); err == nil {
				t.Error("the process ended well in spite of SIGKILL")
			}
			p = startProcess(t, dir, "--alerts", file)
		}
	}
	web.check(t, keys)
	js, done := broker.jetStream(t)
	defer done()
	c, err := js.OrderedConsumer(t.Context(), "EVENTS", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	consuming, err := c.Consume(func(m jetstream.Msg) { bus.add(t, m.Data()) })
	if err != nil {
		t.Fatal(err)
	}
	bus.check(t, keys)
	consuming.Stop()
	client, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("127.0.0.1:%d", kafka.port)), kgo.ConsumeTopics("events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	transporttest.Eventually(t, "Kafka has all crossings", func() bool {
		client.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { log.add(t, r.Value) })
		return len(log.ids) == keys
	})
	log.check(t, keys)
	if logText, err := p.end(t, os.Interrupt); err != nil {
		t.Fatalf("%v\n%s", err, logText)
	}
}

// Nodes of a cluster that are killed and stopped announce each crossing under one ID.
func TestClusterAlerts(t *testing.T) {
	t.Parallel()
	const keys = 30
	var web announced
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	rules := fmt.Sprintf("to: [{name: web, url: %q}]\nalerts: [{name: a, keys: 'url:*', window: 1h, above: 1, to: web}]", web.webhook(t))
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newProcesses(t, "--alerts", file)
	c.start(0, 1, 2)
	for i := range keys {
		c.postUntilTaken(i%3, fmt.Sprintf("url:/%d", i), fmt.Sprint("first", i))
		c.postUntilTaken(i%3, fmt.Sprintf("url:/%d", i), fmt.Sprint("second", i))
		switch i {
		case 5, 15:
			c.kill(i / 10)
			c.start(i / 10)
		case 10, 20:
			c.stop(i / 10)
			c.start(i / 10)
		}
	}
	web.check(t, keys)
}
