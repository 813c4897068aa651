package topics

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
)

// source is a topic to read, as its URL says:
//
//	nats://[user:password@]host:4222[,host:4222...]/STREAM?consumer=NAME&...
//	kafka://[user:password@]host:9092[,host:9092...]/topic?group=NAME&...
//
// With TLS the schemes are nats+tls and kafka+tls.
type source struct {
	kafka, tls     bool
	servers        []string
	user, password string
	topic          string   // of NATS the stream
	reader         string   // the consumer or group: whose position it is
	subject        string   // of NATS: which messages; "": all
	creds          string   // of NATS: file
	format         string   // one of formats
	keys           []string // templates
	times, counts  []string // fields; none: those of a log
	dead           string   // where messages go that can't be counted; "": nowhere
	identity       string   // of the tokens file, that hits are of; "": there are no tokens
	fromEnd        bool     // where nothing is known of the position
}

// The formats of messages.
const (
	formatJSON   = "json"        // one object, or one on each line
	formatEvents = "cloudevents" // CloudEvents 1.0, structured or binary
	formatPlain  = "plain"       // the key alone
)

var formats = []string{formatJSON, formatEvents, formatPlain}

// maxSources bounds the topics of one server.
const maxSources = 16

// parameters are what a URL may have after ?, by scheme.
var parameters = map[bool][]string{
	false: {"consumer", "subject", "creds", "key", "n", "time", "format", "dead", "identity", "start"},
	true:  {"group", "key", "n", "time", "format", "dead", "identity", "start"},
}

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
		for _, other := range list {
			if err == nil && other.id(0, "") == s.id(0, "") {
				err = fmt.Errorf("it is read already: name another consumer or group")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", withoutSecret(text), err)
		}
		list = append(list, s)
	}
	return list, nil
}

func parseSource(text string) (*source, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	s := &source{}
	scheme, s.tls = strings.CutSuffix(scheme, "+tls")
	if s.kafka = scheme == "kafka"; !s.kafka && scheme != "nats" {
		return nil, fmt.Errorf("it must begin with nats://, nats+tls://, kafka:// or kafka+tls://")
	}
	// A URL has one host: several are split here.
	place, query, _ := strings.Cut(rest, "?")
	hosts, topic, _ := strings.Cut(place, "/")
	at := strings.LastIndexByte(hosts, '@')
	if at >= 0 {
		user, password, _ := strings.Cut(hosts[:at], ":")
		var errUser, errPassword error
		s.user, errUser = url.QueryUnescape(user)
		s.password, errPassword = url.QueryUnescape(password)
		if errUser != nil || errPassword != nil {
			return nil, fmt.Errorf("write %% in the user or password as %%25")
		}
	}
	s.servers, s.topic = strings.Split(hosts[at+1:], ","), topic
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("after the ?: %w", err)
	}
	for name, list := range values {
		if !slices.Contains(parameters[s.kafka], name) {
			return nil, fmt.Errorf("no parameter %q%s; there are %s", name, units.DidYouMean(name, parameters[s.kafka]), strings.Join(parameters[s.kafka], ", "))
		}
		if len(list) > 1 && name != "key" {
			return nil, fmt.Errorf("%s stands twice", name)
		}
	}
	s.reader, s.subject, s.creds, s.keys = values.Get("consumer")+values.Get("group"), values.Get("subject"), values.Get("creds"), values["key"]
	s.format, s.dead, s.identity = values.Get("format"), values.Get("dead"), values.Get("identity")
	if s.format == "" {
		s.format = formatJSON
	}
	if s.reader == "" {
		s.reader = "weir"
	}
	if len(s.keys) == 0 {
		s.keys = []string{"{key}"}
	}
	if name := values.Get("time"); name != "" {
		s.times = []string{name}
	} else if s.format == formatEvents {
		s.times = []string{"time"}
	}
	if name := values.Get("n"); name != "" {
		s.counts = []string{name}
	}
	switch values.Get("start") {
	case "", "first":
	case "new":
		s.fromEnd = true
	default:
		return nil, fmt.Errorf("start=%s: it is first or new", values.Get("start"))
	}
	return s, nil
}

func (s *source) check(insecure bool) error {
	if s.topic == "" || strings.ContainsAny(s.topic, "/ ") {
		return fmt.Errorf("a stream or topic stands after the servers: nats://host:4222/STREAM, kafka://host:9092/topic")
	}
	if !slices.Contains(formats, s.format) {
		return fmt.Errorf("format=%s: it is one of %s", s.format, strings.Join(formats, ", "))
	}
	if !s.kafka && strings.ContainsAny(s.reader, " .*>/\\") {
		return fmt.Errorf("consumer=%s: the name of a consumer has no space and none of . * > / \\", s.reader)
	}
	if s.dead != "" && s.dead == s.topic {
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
			return fmt.Errorf("hits from %s would come in the clear: write nats+tls:// or kafka+tls://, or say --insecure-peers where the network keeps strangers out", server)
		}
	}
	if s.creds != "" {
		if _, err := os.Stat(s.creds); err != nil {
			return fmt.Errorf("creds: %w", err)
		}
	}
	return nil
}

// id identifies a partition of the topic in the journal. life distinguishes topics that were created one after the other
// under one name: their offsets begin anew. Servers may change.
func (s *source) id(partition int32, life string) (id replication.RequestID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "topic %t %q %q %q %d", s.kafka, s.topic, s.reader, life, partition))
	copy(id[:], sum[:])
	return id
}

// name is the topic, for messages and labels.
func (s *source) name() string {
	if s.kafka {
		return "kafka topic " + s.topic
	}
	return "NATS stream " + s.topic
}

// withoutSecret is a URL for messages.
func withoutSecret(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	place, _, _ := strings.Cut(rest, "?")
	return scheme + "://" + place[strings.LastIndexByte(place, '@')+1:]
}
