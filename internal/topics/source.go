package topics

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
)

// source is a topic to read, as its URL says (docs/topics.md):
//
//	nats://[user:password@]host:4222[,host:4222...]/STREAM?consumer=NAME&...
//	kafka://[user:password@]host:9092[,host:9092...]/topic?group=NAME&...
type source struct {
	kafka, tls     bool
	servers        []string
	user, password string
	topic          string // of NATS the stream
	reader         string // the consumer or group: whose position it is
	subject, creds string // of NATS: a filter, a file
	format         string
	descriptor     string // of Protobuf: a file, and the full name of a type in it
	message        string
	keys           []string // templates
	times, counts  []string // fields; none: as in a log
	dead           string   // where messages go that can't be counted; "": nowhere
	identity       string   // of the tokens file, whose hits they are; "": there are no tokens
}

// The formats of messages.
const (
	formatJSON   = "json"        // one object, or one on each line
	formatEvents = "cloudevents" // CloudEvents 1.0, structured or binary
	formatPlain  = "plain"       // the key alone

	formatProtobuf = "protobuf" // a message of a type in a descriptor file
)

// maxSources bounds the topics of one server.
const maxSources = 16

// parseSources reads the URLs of all topics.
func parseSources(urls []string, insecure bool) (list []*source, err error) {
	if len(urls) > maxSources {
		return nil, fmt.Errorf("%d topics: at most %d", len(urls), maxSources)
	}
	for _, text := range urls {
		s, err := parseSource(text)
		if err == nil {
			err = s.check(insecure)
		}
		if err == nil && slices.ContainsFunc(list, func(other *source) bool { return other.id(0, "") == s.id(0, "") }) {
			err = fmt.Errorf("it is read already: name another consumer or group")
		}
		if err != nil {
			scheme, rest, _ := strings.Cut(text, "://")
			place, _, _ := strings.Cut(rest, "?")
			return nil, fmt.Errorf("%s://%s: %w", scheme, place[strings.LastIndexByte(place, '@')+1:], err)
		}
		list = append(list, s)
	}
	return list, nil
}

// parseSource reads a URL. Package url takes one host, and no other colon.
func parseSource(text string) (*source, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	place, query, _ := strings.Cut(rest, "?")
	hosts, topic, _ := strings.Cut(place, "/")
	at := strings.LastIndexByte(hosts, '@')
	user, password, _ := strings.Cut(hosts[:max(at, 0)], ":")
	user, errUser := url.PathUnescape(user)
	password, errPassword := url.PathUnescape(password)
	values, err := url.ParseQuery(query)
	if err = cmp.Or(errUser, errPassword, err); err != nil {
		return nil, fmt.Errorf("%w: write %% as %%25", err)
	}
	scheme, secure := strings.CutSuffix(scheme, "+tls")
	known := []string{"key", "n", "time", "format", "descriptor", "message", "dead", "identity"}
	switch scheme {
	case "nats":
		known = append(known, "consumer", "subject", "creds")
	case "kafka":
		known = append(known, "group")
	default:
		return nil, fmt.Errorf("it must begin with nats://, nats+tls://, kafka:// or kafka+tls://")
	}
	for name, list := range values {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no parameter %q%s; there are %s", name, units.DidYouMean(name, known), strings.Join(known, ", "))
		}
		if len(list) > 1 && name != "key" {
			return nil, fmt.Errorf("%s stands twice", name)
		}
	}
	s := &source{
		kafka: scheme == "kafka", tls: secure, servers: strings.Split(hosts[at+1:], ","), user: user, password: password, topic: topic,
		reader: cmp.Or(values.Get("consumer"), values.Get("group"), "weir"), subject: values.Get("subject"), creds: values.Get("creds"),
		format: cmp.Or(values.Get("format"), formatJSON), keys: values["key"], dead: values.Get("dead"), identity: values.Get("identity"),
		times: values["time"], counts: values["n"], descriptor: values.Get("descriptor"), message: values.Get("message"),
	}
	if len(s.keys) == 0 {
		s.keys = []string{"{key}"}
	}
	return s, nil
}

func (s *source) check(insecure bool) error {
	switch {
	case s.topic == "" || strings.ContainsAny(s.topic, "/ "):
		return fmt.Errorf("a stream or topic stands after the servers: nats://host:4222/STREAM, kafka://host:9092/topic")
	case !slices.Contains([]string{formatJSON, formatEvents, formatPlain, formatProtobuf}, s.format):
		return fmt.Errorf("format=%s: it is json, cloudevents, plain or protobuf", s.format)
	case (s.format == formatProtobuf) != (s.descriptor != "" && s.message != ""):
		return fmt.Errorf("format=protobuf, descriptor=FILE and message=NAME belong together: give all or none")
	case s.dead != "" && s.dead == s.topic:
		return fmt.Errorf("dead=%s: messages that can't be counted would come back", s.dead)
	}
	if _, err := replay.NewObjects(s.keys, s.times, s.counts); err != nil {
		return err
	}
	for _, server := range s.servers {
		if err := settings.CheckAddr(server); err != nil {
			return fmt.Errorf("server %q: write host:port", server)
		}
		host, _, _ := net.SplitHostPort(server)
		ip, err := netip.ParseAddr(host)
		if local := host == "localhost" || err == nil && ip.Unmap().IsLoopback(); !local && !s.tls && !insecure {
			return fmt.Errorf("messages of %s would cross the network in the clear: write nats+tls:// or kafka+tls://, or say --insecure-peers where the network keeps strangers out", server)
		}
	}
	return nil
}

// id identifies a partition of the topic in the journal. life distinguishes topics that had the name one after the other, since
// their offsets begin anew.
func (s *source) id(partition int32, life string) (id replication.RequestID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "topic %t %q %q %q %d", s.kafka, s.topic, s.reader, life, partition))
	copy(id[:], sum[:])
	return id
}

// name is the topic and whose position it is, for messages and labels: no other source has it.
func (s *source) name() string {
	if s.kafka {
		return "Kafka topic " + s.topic + " of group " + s.reader
	}
	return "NATS stream " + s.topic + " of consumer " + s.reader
}
