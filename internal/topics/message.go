package topics

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/request"
)

// message is one of a topic, as a broker has it.
type message struct {
	offset uint64
	at     time.Time // when the broker got it
	name   string    // NATS subject, or topic
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
	buried    *message // the last one of which a hit was refused
	hits      []hit
	ends      []int                // of each message, in hits
	to        replication.Position // of its last move
}

// hit is what a message counts.
type hit struct {
	key string
	at  int64 // Unix seconds
	n   uint64
}

// Why a message can't be counted.
var (
	errNoHits    = errors.New("it has no object")
	errNoKey     = errors.New("no key template fits its fields")
	errNotPlain  = errors.New("it is not one key")
	errNotEvent  = errors.New("it is not a CloudEvent of specversion 1.0")
	errNoData    = errors.New("the data of the event is not a JSON object, which its key template needs")
	errNotObject = errors.New("it is not a JSON object, nor one on each line")
	errForbidden = errors.New("its key is *, or one that role ingest of the identity is not for")
	errFarAhead  = errors.New("its time is in the future")
	errManyHits  = errors.New("it has more than 100,000 hits")
)

// maxMessageHits bounds the hits of a message.
const maxMessageHits = 100_000

// parser makes hits of messages. It belongs to one goroutine.
type parser struct {
	source  *source
	objects *replay.Objects
	data    bool // some field belongs to the data of an event
	proto   *protobuf
	scratch []byte
	ahead   time.Duration // how far in the future a time may be
	role    *ingest.Tally // of the keys that may be counted; nil: all
}

func newParser(s *source, ahead time.Duration) (*parser, error) {
	o, err := replay.NewObjects(s.keys, s.times, s.counts, "specversion")
	if err != nil {
		return nil, err
	}
	data := slices.ContainsFunc(o.Fields(), func(name string) bool { return strings.HasPrefix(name, "data.") })
	p := &parser{source: s, objects: o, data: data, ahead: ahead}
	if s.format == formatProtobuf {
		p.proto, err = openProtobuf(s.descriptor, s.message, o.Fields())
	}
	return p, err
}

// add appends the hits of a message to p; after an error none.
func (p *parser) add(to *piece, m *message, now time.Time) error {
	before := len(to.hits)
	err := p.parse(to, m, now)
	if err != nil {
		to.hits = to.hits[:before]
	}
	return err
}

func (p *parser) parse(to *piece, m *message, now time.Time) error {
	p.objects.Begin()
	switch p.source.format {
	case formatPlain:
		key := bytes.TrimSpace(m.value)
		if bytes.ContainsAny(key, "\r\n") {
			return errNotPlain
		}
		p.objects.Set("key", append([]byte{}, key...)) // never nil
	case formatEvents:
		if err := p.event(m); err != nil {
			return err
		}
	case formatProtobuf:
		if err := p.proto.set(p.objects, m.value); err != nil {
			return err
		}
	default:
		if p.objects.Add("", m.value) != nil {
			return p.lines(to, m, now)
		}
	}
	return p.end(to, m, now)
}

// lines reads one object a line.
func (p *parser) lines(to *piece, m *message, now time.Time) error {
	first := len(to.hits)
	for line := range bytes.Lines(m.value) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		p.objects.Begin()
		if p.objects.Add("", line) != nil {
			return errNotObject
		}
		if err := p.end(to, m, now); err != nil {
			return err
		}
		if len(to.hits)-first > maxMessageHits {
			return errManyHits
		}
	}
	if len(to.hits) == first {
		return errNoHits
	}
	return nil
}

// event reads a CloudEvent, whose attributes are headers (binary) or fields next to its data (structured).
func (p *parser) event(m *message) error {
	prefix := "ce-"
	if p.source.kafka {
		prefix = "ce_"
	}
	if m.header(prefix+"specversion") == "" {
		if p.objects.Add("", m.value) != nil {
			return errNotEvent
		}
	} else {
		for _, name := range p.objects.Fields() {
			if value := m.header(prefix + name); value != "" {
				p.objects.Set(name, []byte(value))
			}
		}
		if p.data && p.objects.Add("data.", m.value) != nil {
			return errNoData
		}
	}
	if string(p.objects.Field("specversion")) != "1.0" {
		return errNotEvent
	}
	return nil
}

// end adds the hits of what was begun, one for each template that fits. The broker's fields come last: no message can forge them.
func (p *parser) end(to *piece, m *message, now time.Time) error {
	p.objects.Set("$subject", []byte(m.name))
	p.objects.Set("$key", m.key)
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
	for i := range p.source.keys {
		var has bool
		if p.scratch, has = p.objects.AppendKey(p.scratch[:0], i); !has {
			continue
		}
		fits = true
		key := string(p.scratch)
		if bad := request.CheckHitKey(key); bad != nil {
			return errors.New(bad.Message)
		}
		if key == engine.AllKeys || p.role != nil && !p.role.May(key) {
			return errForbidden
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
