package topics

import (
	"bytes"
	"errors"
	"mime"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/service/request"
)

// message is one of a topic, as a broker has it.
type message struct {
	offset uint64
	at     time.Time // when the broker got it
	name   []byte    // NATS subject, or topic
	key    []byte    // of Kafka; nil: none
	value  []byte
	header func(name string) string
	raw    any // for the broker
}

// piece is messages of one partition in a row.
type piece struct {
	partition int32
	life      string // of the topic: see source.id
	messages  []message
	hits      []hit
	ends      []int // of each message, in hits
	raw       any   // of the last message, for the broker
	counted   bool  // it was, and perhaps taken back
}

// hit is what a message counts.
type hit struct {
	key string
	at  int64 // Unix seconds
	n   uint64
}

// Why a message can't be counted.
var (
	errNoHits     = errors.New("it has no object")
	errNoKey      = errors.New("no key template fits its fields")
	errNotPlain   = errors.New("it is not one key")
	errNotEvent   = errors.New("it is not a CloudEvent of specversion 1.0")
	errNotObject  = errors.New("it is not a JSON object")
	errFarAhead   = errors.New("its time is in the future")
	errManyHits   = errors.New("it has more than 100,000 hits")
	errBadContent = errors.New("the content type of its data is not JSON, as its key template needs")
)

// maxMessageHits bounds the hits of a message: they count together.
const maxMessageHits = 100_000

// parser makes hits of messages. It belongs to one goroutine.
type parser struct {
	source  *source
	objects *replay.Objects
	event   *replay.Objects // of a structured event: its specversion
	data    bool            // some template or field is of the data
	scratch []byte
	ahead   time.Duration // how far in the future a time may be
}

func newParser(s *source, ahead time.Duration) (*parser, error) {
	p := &parser{source: s, ahead: ahead}
	var err error
	if p.objects, err = replay.NewObjects(s.keys, s.times, s.counts); err != nil {
		return nil, err
	}
	for _, text := range append(append([]string{}, s.times...), s.counts...) {
		p.data = p.data || strings.HasPrefix(text, "data.")
	}
	for _, text := range s.keys {
		p.data = p.data || strings.Contains(text, "{data.")
	}
	p.event, err = replay.NewObjects([]string{"{specversion}"}, nil, nil)
	return p, err
}

// add appends the hits of a message to p; after an error none.
func (p *parser) add(to *piece, m *message, now time.Time) error {
	before := len(to.hits)
	err := p.parse(to, m, now)
	if err != nil {
		clear(to.hits[before:])
		to.hits = to.hits[:before]
	}
	return err
}

func (p *parser) parse(to *piece, m *message, now time.Time) error {
	switch p.source.format {
	case formatPlain:
		p.begin(m)
		p.objects.Set("key", bytes.TrimSpace(m.value))
		if bytes.ContainsAny(p.value(m), "\r\n") {
			return errNotPlain
		}
		return p.end(to, m, now)
	case formatEvents:
		return p.parseEvent(to, m, now)
	}
	p.begin(m)
	if p.objects.Add("", m.value) == nil {
		return p.end(to, m, now)
	}
	objects := 0
	for line := range bytes.Lines(m.value) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		p.begin(m)
		if p.objects.Add("", line) != nil {
			return errNotObject
		}
		if err := p.end(to, m, now); err != nil {
			return err
		}
		if objects++; objects > maxMessageHits {
			return errManyHits
		}
	}
	if objects == 0 {
		return errNoHits
	}
	return nil
}

// value is a message's content without white space around it.
func (*parser) value(m *message) []byte { return bytes.TrimSpace(m.value) }

// begin begins a hit of a message, with the fields that are the broker's.
func (p *parser) begin(m *message) {
	p.objects.Begin()
	p.objects.Set("$subject", m.name)
	if m.key != nil {
		p.objects.Set("$key", m.key)
	}
}

// attributes are those of CloudEvents 1.0 that headers may have, next to extensions, which templates may name too.
func (p *parser) parseEvent(to *piece, m *message, now time.Time) error {
	prefix := "ce_"
	if !p.source.kafka {
		prefix = "ce-"
	}
	version := m.header(prefix + "specversion")
	if version == "" {
		return p.parseStructured(to, m, now)
	}
	if version != "1.0" {
		return errNotEvent
	}
	p.begin(m)
	for _, name := range p.source.attributes() {
		if value := m.header(prefix + name); value != "" {
			p.objects.Set(name, []byte(value))
		}
	}
	if p.data {
		if p.objects.Add("data.", m.value) != nil {
			return errBadContent
		}
	}
	return p.end(to, m, now)
}

// parseStructured reads an event that is JSON as a whole.
func (p *parser) parseStructured(to *piece, m *message, now time.Time) error {
	if kind, _, err := mime.ParseMediaType(m.header("content-type")); err == nil && kind != "application/cloudevents+json" && kind != "application/json" {
		return errNotEvent
	}
	p.event.Begin()
	if p.event.Add("", m.value) != nil {
		return errNotEvent
	}
	var has bool
	if p.scratch, has = p.event.AppendKey(p.scratch[:0], 0); !has || string(p.scratch) != "1.0" {
		return errNotEvent
	}
	p.begin(m)
	if p.objects.Add("", m.value) != nil {
		return errNotEvent
	}
	return p.end(to, m, now)
}

// attributes are the names that templates and fields of the source may take from the headers of an event.
func (s *source) attributes() (names []string) {
	for _, text := range s.keys {
		for {
			_, after, open := strings.Cut(text, "{")
			name, rest, closed := strings.Cut(after, "}")
			if !open || !closed {
				break
			}
			names, text = append(names, name), rest
		}
	}
	return append(append(names, s.times...), s.counts...)
}

// end adds the hits of what was begun, one for each template that fits.
func (p *parser) end(to *piece, m *message, now time.Time) error {
	at, timed, n, err := p.objects.End()
	switch {
	case err != nil:
		return err
	case !timed:
		at = min(m.at.Unix(), now.Unix())
	case at > now.Add(p.ahead).Unix():
		return errFarAhead
	}
	fits := false
	for i := range p.objects.Keys() {
		var has bool
		if p.scratch, has = p.objects.AppendKey(p.scratch[:0], i); !has {
			continue
		}
		fits = true
		key := string(p.scratch)
		if bad := request.ParseHitKey(key); bad != nil {
			return errors.New(bad.Message)
		}
		if n > 0 {
			to.hits = append(to.hits, hit{key, at, n})
		}
	}
	if !fits {
		return errNoKey
	}
	return nil
}
