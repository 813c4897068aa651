package topics

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Writer writes CloudEvents to a NATS subject that a stream has, or to a Kafka topic. It connects when it first writes, and belongs to
// one goroutine.
type Writer struct {
	to     *source
	conn   *nats.Conn
	js     jetstream.JetStream
	client *kgo.Client
}

// NewWriter returns the Writer of a URL: nats://host:4222/subject or kafka://host:9092/topic, as --from has it.
func NewWriter(url string, insecure bool) (*Writer, error) {
	to, err := parseSource(url)
	if err != nil {
		return nil, err
	}
	if _, query, has := strings.Cut(url, "?"); has && (to.creds == "" || strings.Contains(query, "&")) {
		return nil, errors.New("it has parameters that are for reading: only creds=FILE can stand there, for NATS")
	}
	if !to.kafka && strings.ContainsAny(to.topic, "*>") {
		return nil, fmt.Errorf("subject %s: an event goes to one subject, without * and >", to.topic)
	}
	return &Writer{to: to}, to.check(insecure)
}

// contentType is the header field by which a message is a CloudEvent, structured.
const contentType = "content-type"

// Write writes an event, and returns once it is stored. A stream drops an ID that it had in the last two minutes.
func (w *Writer) Write(ctx context.Context, id, key string, event []byte) (err error) {
	const structured = "application/cloudevents+json"
	if w.to.kafka {
		if w.client == nil {
			if w.client, err = w.to.client(); err != nil {
				return err
			}
		}
		r := &kgo.Record{Topic: w.to.topic, Key: []byte(key), Value: event, Headers: []kgo.RecordHeader{{Key: contentType, Value: []byte(structured)}}}
		return w.client.ProduceSync(ctx, r).FirstErr()
	}
	if w.conn == nil {
		if w.conn, w.js, err = w.to.dial(); err != nil {
			return err
		}
	}
	m := nats.NewMsg(w.to.topic)
	m.Header[contentType], m.Data = []string{structured}, event
	_, err = w.js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("no stream has subject %s: create one (%w)", w.to.topic, err)
	}
	return err
}

// Close ends the connection.
func (w *Writer) Close() {
	if w.client != nil {
		w.client.Close()
	}
	if w.conn != nil {
		w.conn.Close()
	}
}
