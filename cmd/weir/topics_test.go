package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

var topicEvents = flag.Int("topics.events", 20_000, "events of each test of topics")

// topicBroker is a broker of a test, with a topic and one for dead letters.
type topicBroker interface {
	url() string
	publish(t *testing.T, bodies []string)
	restart(t *testing.T)
	dead(t *testing.T) int // dead letters
	forget(t *testing.T)   // that nodes read which were killed
}

// freePort is one that a broker has after a restart, too.
func freePort(t *testing.T) int {
	_, text, _ := net.SplitHostPort(transporttest.Addrs(t, 1)[0])
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// natsTopic is a NATS server with streams.
type natsTopic struct {
	options *natsserver.Options
	server  *natsserver.Server
}

func newNATSTopic(t *testing.T) topicBroker {
	b := &natsTopic{options: &natsserver.Options{
		ServerName: "broker", Host: "127.0.0.1", Port: freePort(t), NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
	}}
	b.start(t)
	t.Cleanup(func() { b.stop() })
	js, done := b.jetStream(t)
	defer done()
	for name, subject := range map[string]string{"EVENTS": "events.>", "DEAD": "dead"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *natsTopic) start(t *testing.T) {
	var err error
	options := *b.options
	if b.server, err = natsserver.NewServer(&options); err != nil {
		t.Fatal(err)
	}
	b.server.Start()
	if !b.server.ReadyForConnections(transporttest.Patience) {
		t.Fatal("the NATS server is not ready")
	}
}

func (b *natsTopic) stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

func (b *natsTopic) restart(t *testing.T) {
	b.stop()
	b.start(t)
}

func (b *natsTopic) jetStream(t *testing.T) (jetstream.JetStream, func()) {
	conn, err := nats.Connect(b.server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(1000))
	if err != nil {
		t.Fatal(err)
	}
	return js, conn.Close
}

func (b *natsTopic) url() string {
	return fmt.Sprintf("nats://127.0.0.1:%d/EVENTS?key=url:{path}&dead=dead", b.options.Port)
}

func (b *natsTopic) publish(t *testing.T, bodies []string) {
	js, done := b.jetStream(t)
	defer done()
	for i, body := range bodies {
		if _, err := js.PublishAsync(fmt.Sprintf("events.%d", i%7), []byte(body), jetstream.WithStallWait(3*time.Minute)); err != nil {
			t.Error(err)
			return
		}
	}
	<-js.PublishAsyncComplete()
}

func (b *natsTopic) dead(t *testing.T) int {
	js, done := b.jetStream(t)
	defer done()
	s, err := js.Stream(t.Context(), "DEAD")
	if err != nil {
		t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

func (*natsTopic) forget(*testing.T) {}

// kafkaTopic is a Kafka within the test's process.
type kafkaTopic struct {
	dir     string
	port    int
	cluster *kfake.Cluster
}

func newKafkaTopic(t *testing.T) topicBroker {
	b := &kafkaTopic{dir: t.TempDir(), port: freePort(t)}
	b.start(t)
	t.Cleanup(func() { b.cluster.Close() })
	return b
}

func (b *kafkaTopic) start(t *testing.T) {
	var err error
	if b.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(b.port), kfake.DataDir(b.dir), kfake.SyncWrites(), kfake.SeedTopics(4, "events"), kfake.SeedTopics(1, "dead")); err != nil {
		t.Fatal(err)
	}
}

func (b *kafkaTopic) restart(t *testing.T) {
	b.cluster.Close()
	b.start(t)
}

func (b *kafkaTopic) url() string {
	return fmt.Sprintf("kafka://127.0.0.1:%d/events?key=url:{path}&dead=dead", b.port)
}

func (b *kafkaTopic) publish(t *testing.T, bodies []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("127.0.0.1:%d", b.port)), kgo.DefaultProduceTopic("events"))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	var records []*kgo.Record
	for i, body := range bodies {
		records = append(records, &kgo.Record{Key: fmt.Append(nil, i), Value: []byte(body)})
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Error(err)
	}
}

// forget has all members of the group join it again. A broker does so when one is silent; kfake does not always after its restart.
func (b *kafkaTopic) forget(t *testing.T) {
	client, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("127.0.0.1:%d", b.port)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ask := kmsg.NewPtrLeaveGroupRequest()
	ask.Group = "weir"
	if group := b.cluster.GroupInfo(ask.Group); group != nil {
		for _, m := range group.Members {
			member := kmsg.NewLeaveGroupRequestMember()
			member.MemberID = m.MemberID
			ask.Members = append(ask.Members, member)
		}
	}
	if _, err := ask.RequestWith(t.Context(), client); err != nil {
		t.Error(err)
	}
}

func (b *kafkaTopic) dead(*testing.T) int {
	return int(b.cluster.PartitionInfo("dead", 0).HighWatermark)
}

// topicLoad is events, and what they come to.
type topicLoad struct {
	bodies []string
	want   map[string]uint64
	bad    int
}

// newTopicLoad makes events of 50 keys, of the last quarter of an hour, and some that can't be counted.
func newTopicLoad(events int) topicLoad {
	l, now := topicLoad{want: map[string]uint64{}}, time.Now().Unix()
	for i := range events {
		key, n := fmt.Sprintf("/%d", i%50), uint64(1+i%3)
		if i%1000 == 500 {
			l.bodies = append(l.bodies, `{"path":`)
			l.bad++
			continue
		}
		l.bodies = append(l.bodies, fmt.Sprintf(`{"path":"%s","n":%d,"at":%d}`, key, n, now-int64(i%900)))
		l.want["url:"+key] += n
	}
	return l
}

// send publishes the events in pieces; between is called between them.
func (l topicLoad) send(t *testing.T, to topicBroker, pieces int, between func(i int)) {
	for i := range pieces {
		to.publish(t, l.bodies[len(l.bodies)*i/pieces:len(l.bodies)*(i+1)/pieces])
		between(i)
	}
}

// check waits until a node has as many hits, and looks that it has exactly these.
func (l topicLoad) check(t *testing.T, p *process, to topicBroker) {
	t.Helper()
	wrong := ""
	to.forget(t)
	t.Cleanup(func() {
		if t.Failed() {
			_, metrics := p.get(t, "/metrics")
			_, ready := p.get(t, "/readyz")
			t.Logf("%s\n%s\n%s", wrong, regexp.MustCompile(`(?m)^weir_listener.*from.*|^weir_listener_(lag|rejected|requests).*$`).FindAllString(metrics, -1), ready)
		}
	})
	transporttest.Eventually(t, "all events are counted", func() bool {
		wrong = ""
		for key, want := range l.want {
			if got := p.count(t, key); got != want {
				wrong = fmt.Sprintf("%s: %d, want %d", key, got, want)
				if got > want {
					t.Fatal(wrong)
				}
				return false
			}
		}
		return true
	})
	if wrong != "" {
		t.Fatal(wrong)
	}
	lag := regexp.MustCompile(`(?m)^weir_listener_lag_messages\{.*\} 0$`)
	transporttest.Eventually(t, "the lag is 0", func() bool {
		status, body := p.get(t, "/metrics")
		return status == http.StatusOK && lag.MatchString(body)
	})
	for key, want := range l.want {
		if got := p.count(t, key); got != want {
			t.Errorf("%s: %d hits, want %d", key, got, want)
		}
	}
	if dead := to.dead(t); dead < l.bad || dead > l.bad*3 { // one that was on its way at a kill is there again
		t.Errorf("%d dead letters of %d bad messages", dead, l.bad)
	}
}

var topicBrokers = map[string]func(t *testing.T) topicBroker{"NATS": newNATSTopic, "Kafka": newKafkaTopic}

// A node that is killed while it reads a topic, and a broker that restarts, count each event once.
func TestCrashTopics(t *testing.T) {
	t.Parallel()
	for name, start := range topicBrokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker, dir, load := start(t), t.TempDir(), newTopicLoad(*topicEvents)
			p := startProcess(t, dir, "--from", broker.url(), "--snapshot-every", "64KiB")
			load.send(t, broker, 8, func(i int) {
				switch {
				case i == 4:
					broker.restart(t)
				case i%2 == 1:
					time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) //nolint:forbidigo // anywhere in a batch
					if _, err := p.end(t, os.Kill); err == nil {
						t.Error("the process ended well in spite of SIGKILL")
					}
					broker.forget(t)
					p = startProcess(t, dir, "--from", broker.url(), "--snapshot-every", "64KiB")
				}
			})
			load.check(t, p, broker)
			if log, err := p.end(t, os.Interrupt); err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			p = startProcess(t, dir, "--from", broker.url())
			load.check(t, p, broker)
		})
	}
}

// Nodes of a cluster that are killed, stopped and started while they read a topic count each event once: partitions and leases move.
func TestClusterTopics(t *testing.T) {
	t.Parallel()
	for name, start := range topicBrokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker, load := start(t), newTopicLoad(*topicEvents)
			c := newProcesses(t, "--from", broker.url())
			c.start(0, 1, 2)
			load.send(t, broker, 8, func(i int) {
				switch i {
				case 1, 4:
					c.kill(i % 3)
					broker.forget(t)
					c.start(i % 3)
				case 2, 6:
					c.stop(i % 3)
					c.start(i % 3)
				case 5:
					broker.restart(t)
				}
			})
			var checking sync.WaitGroup
			for i := range c.nodes {
				checking.Go(func() { load.check(t, c.nodes[i].Load(), broker) })
			}
			checking.Wait()
		})
	}
}

// The position goes with the hits: into a backup and what is restored of it, and from a node alone into a cluster that reads at once.
func TestTopicsMove(t *testing.T) {
	t.Parallel()
	broker, load, dir := newNATSTopic(t), newTopicLoad(2000), t.TempDir()
	broker.publish(t, load.bodies)
	single := startProcess(t, dir, "--from", broker.url())
	load.check(t, single, broker)
	file, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
	mustWeir(t, exitOK, "", "backup", file, "--server", single.addr)
	mustWeir(t, exitOK, "", "restore", file, "--data", restored)
	p := startProcess(t, restored, "--from", broker.url())
	load.check(t, p, broker)
	for _, p := range []*process{p, single} {
		if log, err := p.end(t, os.Interrupt); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
	}
	c := newProcesses(t, "--from", broker.url())
	c.dirs[0] = dir
	c.start(0, 1, 2)
	c.converge("three nodes that read")
	for i := range c.nodes {
		load.check(t, c.nodes[i].Load(), broker)
	}
}

// A stream that is deleted and made again under its name is another one, whose messages count once each.
func TestTopicMadeAgain(t *testing.T) {
	t.Parallel()
	b := newNATSTopic(t).(*natsTopic)
	p := startProcess(t, t.TempDir(), "--from", b.url())
	counted := func(key string, want uint64) {
		transporttest.Eventually(t, fmt.Sprintf("%s has %d hits", key, want), func() bool {
			got := p.count(t, key)
			if got > want {
				t.Fatalf("%s: %d hits, want %d", key, got, want)
			}
			return got == want
		})
	}
	b.publish(t, slices.Repeat([]string{`{"path":"/a"}`}, 100))
	counted("url:/a", 100)
	js, done := b.jetStream(t)
	defer done()
	if err := js.DeleteStream(t.Context(), "EVENTS"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}}); err != nil {
		t.Fatal(err)
	}
	b.publish(t, slices.Repeat([]string{`{"path":"/b"}`}, 400))
	counted("url:/b", 400)
	b.publish(t, []string{`{"path":"/c"}`})
	counted("url:/c", 1)
	counted("url:/b", 400)
}

// A stream that would have its own dead letters is not read, and an alarm says so.
func TestTopicOfItsDeadLetters(t *testing.T) {
	t.Parallel()
	b := newNATSTopic(t).(*natsTopic)
	p := startProcess(t, t.TempDir(), "--from", strings.Replace(b.url(), "dead=dead", "dead=events.dead", 1))
	transporttest.Eventually(t, "there is an alarm", func() bool {
		_, body := p.get(t, "/readyz")
		return strings.Contains(body, "topic_failing") && strings.Contains(body, "would come back")
	})
}

// With tokens, hits of a topic are of an identity: keys that it may not count are dead letters.
func TestTopicsOfAnIdentity(t *testing.T) {
	t.Parallel()
	broker, tokens := newNATSTopic(t), filepath.Join(t.TempDir(), "tokens.yaml")
	mustWeir(t, exitOK, "", "token", "create", "reader", "--role", "ingest", "--keys", "url:/a", "--tokens", tokens)
	if code, _, stderr := weirOf(t, nil, "", "serve", "--http", "127.0.0.1:0", "--data", t.TempDir(), "--tokens", tokens, "--from", broker.url()); code == exitOK || !strings.Contains(stderr, "identity=NAME") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	broker.publish(t, []string{`{"path":"/a"}`, `{"path":"/b"}`, `{"path":"/a"}`})
	p := startProcess(t, t.TempDir(), "--tokens", tokens, "--from", broker.url()+"&identity=reader")
	transporttest.Eventually(t, "the forbidden key is a dead letter", func() bool { return broker.dead(t) == 1 })
	if log, err := p.end(t, os.Interrupt); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
}
