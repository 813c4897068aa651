package topics

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

// A URL says what is read; what is wrong in one is refused with what to do, and without its password.
func TestSources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, want string }{
		{"nats://127.0.0.1:4222/EVENTS", ""},
		{"nats+tls://weir:se%40cret@10.0.0.1:4222,10.0.0.2:4222/EVENTS?consumer=w1&subject=hits.>&key=url:{path}&key=host:{host}&n=count&time=ts&dead=dead.hits", ""},
		{"kafka://localhost:9092,localhost:9093/hits?group=weir&format=cloudevents&key={type}:{data.path}", ""},
		{"http://localhost/x", "must begin with nats://"},
		{"nats://127.0.0.1:4222", "a stream or topic stands after"},
		{"nats://:password@127.0.0.1/EVENTS", "write host:port"},
		{"nats://10.0.0.1:4222/EVENTS", "nats+tls://"},
		{"nats://127.0.0.1:4222/EVENTS?keys={a}", `no parameter "keys", did you mean`},
		{"kafka://127.0.0.1:9092/hits?consumer=x", `no parameter "consumer"`},
		{"nats://127.0.0.1:4222/EVENTS?key={a", "a { without a }"},
		{"nats://127.0.0.1:4222/EVENTS?n=a&n=b", "stands twice"},
		{"nats://127.0.0.1:4222/EVENTS?format=xml", "json, cloudevents, plain or protobuf"},
		{"nats://127.0.0.1:4222/EVENTS?format=protobuf&message=a.B", "belong together"},
		{"kafka://127.0.0.1:9092/hits?dead=hits", "would come back"},
	} {
		err := Config{From: []string{c.url}}.Validate()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "password@")) {
			t.Errorf("%s: %v, want %q", c.url, err, c.want)
		}
	}
	double := Config{From: []string{"nats://127.0.0.1:4222/A", "nats://localhost:4222/A?key={x}"}}
	if err := double.Validate(); err == nil || !strings.Contains(err.Error(), "read already") {
		t.Error(err)
	}
	s, err := parseSource("kafka+tls://a%3Ab:c%25d@h:1,i:2/t")
	if err != nil || s.user != "a:b" || s.password != "c%d" || len(s.servers) != 2 || s.topic != "t" || s.reader != "weir" {
		t.Errorf("%+v, %v", s, err)
	}
}

// Messages of each format make hits, or none of their hits counts.
func TestMessages(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	came := now.Add(-time.Hour)
	for _, c := range []struct{ query, value, headers, want string }{
		{"key=url:{path}", `{"path":"/a","at":1600000000,"n":3}`, "", "url:/a 3 1600000000"},
		{"key=url:{path}", `{"path":"/a"}`, "", "url:/a 1 1699996400"},
		{"key=url:{path}", "{\"path\":\"/a\"}\n\n{\"path\":\"/b\",\"count\":2}\n", "", "url:/a 1 1699996400, url:/b 2 1699996400"},
		{"key=url:{path}", "{\"path\":\"/a\"}\n{\"path\":", "", "not a JSON object"},
		{"key=url:{path}&key=u:{user.id}", "{\n\"path\":\"/a\", \"user\": {\"id\": 7, \"x\": {}}}", "", "url:/a 1 1699996400, u:7 1 1699996400"},
		{"key=url:{path}", `{"x":1}`, "", "no key template fits"},
		{"key=url:{path}", ``, "", "no object"},
		{"key=url:{path}", `[1]`, "", "not a JSON object"},
		{"key=url:{path}&n=bytes&time=when", `{"path":"/a","bytes":9,"n":"x","when":"2020-09-13T12:26:40Z"}`, "", "url:/a 9 1600000000"},
		{"key=url:{path}", `{"path":"/a","n":-1}`, "", "not a whole number"},
		{"key=url:{path}", `{"path":"/a","at":1700000100}`, "", "in the future"},
		{"key={path}", `{"path":"limit:a"}`, "", "counted by limits alone"},
		{"key={$subject}:{$key}", `{}`, "", "hits.web:k 1 1699996400"},
		{"key={$subject}:{$key}", `{"$subject":"other","$key":"other"}`, "", "hits.web:k 1 1699996400"},
		{"key={$subject}:{$key}", "{\"$subject\":\"other\"}\n{\"\\u0024key\":\"other\"}", "", "hits.web:k 1 1699996400, hits.web:k 1 1699996400"},
		{"format=cloudevents&key={$subject}:{$key}", `{}`, "ce-specversion=1.0,ce-$subject=other,ce-$key=other", "hits.web:k 1 1699996400"},
		{"format=plain", " url:/home \n", "", "url:/home 1 1699996400"},
		{"format=plain", "a\nb", "", "not one key"},
		{"format=plain", "", "", "the key is empty"},
		{"format=cloudevents&key={type}:{data.path}", `{"specversion":"1.0","type":"visit","source":"/w","id":"1","time":"2020-09-13T12:26:40Z","data":{"path":"/a"}}`, "content-type=application/cloudevents+json; charset=utf-8", "visit:/a 1 1600000000"},
		{"format=cloudevents&key={type}&n=data.n", `{"specversion":"1.0","type":"visit","data":{"n":5}}`, "", "visit 5 1699996400"},
		{"format=cloudevents&key={type}", `{"specversion":"0.3","type":"visit"}`, "", "not a CloudEvent"},
		{"format=cloudevents&key={type}", `{"type":"visit"}`, "", "not a CloudEvent"},
		{"format=cloudevents&key={type}:{data.path}", `{"path":"/a"}`, "ce-specversion=1.0,ce-type=visit,ce-time=2020-09-13T12:26:40Z", "visit:/a 1 1600000000"},
		{"format=cloudevents&key={type}", `not JSON`, "ce-specversion=1.0,ce-type=visit", "visit 1 1699996400"},
		{"format=cloudevents&key={type}:{data.path}", `not JSON`, "ce-specversion=1.0,ce-type=visit", "the data of the event"},
		{"format=cloudevents&key={type}", `{}`, "ce-specversion=2.0,ce-type=visit", "not a CloudEvent"},
	} {
		s, err := parseSource("nats://127.0.0.1:4222/EVENTS?" + c.query)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newParser(s, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		headers := map[string]string{}
		for pair := range strings.SplitSeq(c.headers, ",") {
			name, value, _ := strings.Cut(pair, "=")
			headers[name] = value
		}
		var to piece
		m := &message{at: came, name: "hits.web", key: []byte("k"), value: []byte(c.value), header: func(name string) string { return headers[name] }}
		if err = p.add(&to, m, now); err != nil {
			if len(to.hits) > 0 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %s: %v, %v", c.value, c.query, to.hits, err)
			}
			continue
		}
		if got := hitText(to.hits); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.value, c.query, got, c.want)
		}
	}
}

func hitText(hits []hit) string {
	var list []string
	for _, h := range hits {
		list = append(list, fmt.Sprintf("%s %d %d", h.key, h.n, h.at))
	}
	return strings.Join(list, ", ")
}

// A message of a broker without keys can't have one.
func TestForgedKey(t *testing.T) {
	t.Parallel()
	s, err := parseSource("nats://127.0.0.1:4222/EVENTS?key={$key}")
	if err != nil {
		t.Fatal(err)
	}
	p, err := newParser(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	var to piece
	if err := p.add(&to, &message{value: []byte(`{"$key":"forged"}`)}, time.Unix(1, 0)); !errors.Is(err, errNoKey) {
		t.Errorf("%v, %v", to.hits, err)
	}
}

// buried is a broker that takes dead letters.
type buried struct {
	broker
	letters int
	check   func() // nil: nothing
	failure error
}

func (b *buried) bury(context.Context, *message, string) error {
	b.letters++
	if b.check != nil {
		b.check()
	}
	return b.failure
}

func (*buried) commit(*piece, replication.Position) {}

// newReader returns a reader of an identity that may count keys of "in:", and has a ceiling of one new key.
func newReader(t *testing.T) *Reader {
	const file = `identities: [{name: shop, ceilings: {new_keys_per_minute: 1}, tokens: [{id: a, sha256: %x}], permissions: [{role: ingest, keys: ["in:"]}]}]`
	set, err := auth.Parse("tokens", fmt.Appendf(nil, file, sha256.Sum256([]byte("weir_a_secret"))))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Gather: true, Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	j, err := durable.Open(t.Context(), e, durable.Config{Dir: t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close(context.Background()) })
	s, err := service.New(service.Backend{Engine: e, Journal: j, Tokens: access.NewTokens(set)}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(s, "nats://127.0.0.1:4222/EVENTS?identity=shop&dead=dead", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newPiece has a message of a hit for each key.
func newPiece(keys ...string) (p piece) {
	for i, key := range keys {
		value, _ := json.Marshal(map[string]string{"key": key})
		p.messages = append(p.messages, message{offset: uint64(i), at: time.Now(), value: value, header: func(string) string { return "" }})
		p.hits, p.ends = append(p.hits, hit{key, time.Now().Unix(), 1}), append(p.ends, i+1)
	}
	return p
}

// A message with a hit that is refused is a dead letter before the position moves beyond it, so that no crash loses it.
func TestRefusedHitIsBuriedFirst(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	b, p := &buried{}, newPiece("in:a", "out:a", "*")
	p.hits = nil
	if r.parse(t.Context(), b, &p); len(p.hits) != 1 || b.letters != 2 {
		t.Errorf("parsed %+v, %d letters, want 2", p.hits, b.letters)
	}
	p, b.letters = newPiece("in:a", "out:a", "in:a"), 0 // its role was another one when it was parsed
	b.check = func() {
		if err := r.journal.SyncFollowed(t.Context()); err != nil {
			t.Error(err)
		}
		if at, _ := r.journal.Position(r.source.id(0, "")); at.Offset > 1 {
			t.Errorf("the position is %+v before message 1 is buried", at)
		}
	}
	if err := r.count(t.Context(), b, []piece{p}); err != nil {
		t.Fatal(err)
	}
	if at, _ := r.journal.Position(r.source.id(0, "")); at.Offset != 3 || b.letters != 1 || r.tally.Counted != 1 {
		t.Errorf("position %+v, %d letters, %+v", at, b.letters, r.tally.HitsAnswer)
	}
}

// A new key over the identity's ceiling waits in the topic.
func TestNewKeyWaits(t *testing.T) {
	t.Parallel()
	r, b, p := newReader(t), &buried{}, newPiece("in:a", "in:a", "in:b", "in:a")
	if some, err := r.advance(t.Context(), b, &p); !some || err != nil || p.to.Offset != 2 || b.letters > 0 {
		t.Errorf("moved %v to %+v with %d letters, %v", some, p.to, b.letters, err)
	}
}

// A dead letter that comes back is not one again: it would come for ever.
func TestDeadLetterComesBack(t *testing.T) {
	t.Parallel()
	r, b := &Reader{source: &source{topic: "EVENTS", dead: "dead"}, log: slog.New(slog.DiscardHandler)}, &buried{}
	for _, from := range []string{"", "OTHER hits 1", "EVENTS hits 1"} {
		r.bury(t.Context(), b, &message{header: func(string) string { return from }}, errNoKey)
	}
	if b.letters != 2 || r.unburied.Load() != 1 || r.bad.Load() != 3 {
		t.Errorf("%d letters, %d of 3 bad messages unburied", b.letters, r.unburied.Load())
	}
}

// An alarm says what became of messages that can't be counted: also while some are in dead, that others are not.
func TestBadMessagesAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("it is full")
		for _, c := range []struct {
			dead     string
			failures []error
			want     string
		}{
			{"", []error{nil}, "it is dropped; dead=NAME"},
			{"dead", []error{nil}, "it is in dead"},
			{"dead", []error{full}, "it is dropped, since dead does not take it: it is full"},
			{"dead", []error{nil, full, nil}, "it is dropped, since dead does not take it: it is full"},
		} {
			r, b := &Reader{source: &source{topic: "EVENTS", dead: c.dead}, log: slog.New(slog.DiscardHandler)}, &buried{}
			bury := func(failure error) {
				b.failure = failure
				r.bury(t.Context(), b, &message{header: func(string) string { return "" }}, errNoKey)
			}
			for _, failure := range c.failures {
				bury(failure)
			}
			if got := r.Alarms(); len(got) != 1 || !strings.Contains(got[0].Message, c.want) {
				t.Errorf("dead=%s, %v: %+v", c.dead, c.failures, got)
			}
			time.Sleep(badFor)
			if got := r.Alarms(); len(got) != 0 {
				t.Errorf("%+v", got)
			}
			time.Sleep(time.Second)
			if bury(nil); len(c.dead) > 0 && !strings.Contains(r.Alarms()[0].Message, "it is in dead") {
				t.Errorf("%+v", r.Alarms())
			}
		}
	})
}

// failing is a broker that fails with some messages, and then has none.
type failing struct {
	broker
	list []piece
}

func (b *failing) fetch(ctx context.Context) ([]piece, error) {
	if list := b.list; list != nil {
		b.list = nil
		return list, errors.New("it fails")
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Messages that came with an error are counted: they need not be read again.
func TestMessagesWithAnError(t *testing.T) {
	t.Parallel()
	r, to := newReader(t), make(chan []piece, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var feeding sync.WaitGroup
	feeding.Go(func() { r.feed(ctx, &failing{list: []piece{newPiece("in:a")}}, to) })
	if got := <-to; len(got) != 1 || len(got[0].messages) != 1 || len(got[0].ends) != 1 {
		t.Errorf("%+v", got)
	}
	cancel()
	feeding.Wait()
	if r.failing.Load() == nil {
		t.Error("the failure is not noted")
	}
}

// An alarm says that a partition fails, while others have messages, until it was well for some time.
func TestFailingPartitionAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reader{source: &source{}, log: slog.New(slog.DiscardHandler)}
		wantAlarms := func(want int) {
			t.Helper()
			if got := r.Alarms(); len(got) != want || want > 0 && !strings.Contains(got[0].Message, "partition 3") {
				t.Errorf("%+v, want %d", got, want)
			}
		}
		for range 4 {
			r.note(errors.New("partition 3: it fails"))
			wantAlarms(0)
			r.failing.Store(nil) // others flow
			time.Sleep(failingFor / 4)
		}
		time.Sleep(failingFor / 4)
		wantAlarms(1)
		time.Sleep(2 * failingFor)
		wantAlarms(0)
		r.note(errors.New("partition 3: it fails again"))
		wantAlarms(0)
	})
}

// A partition that fails is noted, also with messages of others.
func TestFailingPartition(t *testing.T) {
	t.Parallel()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	kafka.ControlKey(int16(kmsg.Fetch), func(asked kmsg.Request) (kmsg.Response, error, bool) {
		kafka.KeepControl()
		ask := asked.(*kmsg.FetchRequest)
		answer := ask.ResponseKind().(*kmsg.FetchResponse)
		for _, wanted := range ask.Topics {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = wanted.Topic, wanted.TopicID
			for _, p := range wanted.Partitions {
				partition := kmsg.NewFetchResponseTopicPartition()
				partition.Partition = p.Partition
				if p.Partition == 1 {
					partition.ErrorCode = kerr.TopicAuthorizationFailed.Code
				}
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
	r := newReader(t)
	from, err := parseSource("kafka://" + kafka.ListenAddrs()[0] + "/events")
	if err != nil {
		t.Fatal(err)
	}
	b, err := openKafka(t.Context(), from, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.close(context.Background()) })
	for began := time.Now(); r.partly.Load() == nil && time.Since(began) < 3*time.Minute; {
		_, _ = b.fetch(t.Context()) // waits
	}
	if f := r.partly.Load(); f == nil || !strings.Contains(f.err.Error(), "partition 1: TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("%+v", f)
	}
}

// No content makes the parser fail, and none makes hits with a key that is none.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"path":"/a","user":{"id":7}}`), true)
	f.Add([]byte(`{"specversion":"1.0","data":{"path":{"x":[{}]}}}`), false)
	f.Fuzz(func(t *testing.T, value []byte, plain bool) {
		query := "format=cloudevents&key={type}:{data.path}&n=data.n"
		if plain {
			query = "key=p:{path}&key=u:{user.id}"
		}
		s, err := parseSource("kafka://127.0.0.1:1/t?" + query)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newParser(s, 0)
		if err != nil {
			t.Fatal(err)
		}
		var to piece
		err = p.add(&to, &message{value: value, header: func(string) string { return "" }}, time.Unix(1, 0))
		for _, h := range to.hits {
			if err != nil || h.n == 0 || h.key == "" || !json.Valid(value) && !plain {
				t.Errorf("%+v, %v", h, err)
			}
		}
	})
}
