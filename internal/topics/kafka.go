package topics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// kafkaBroker reads a topic as a member of a consumer group, which gives each partition to one node. A partition is read from the
// journal's position on. The offsets that are committed are for operators, and where the journal knows nothing.
type kafkaBroker struct {
	source *source
	r      *Reader
	client *kgo.Client
	made   chan struct{} // closed when client is there

	mu     sync.Mutex
	life   string           // of the topic: its ID
	behind map[int32]uint64 // messages of a partition that did not come yet
}

// sessionTimeout is how long the partitions of a node that crashed wait for another one, or for its next start.
const sessionTimeout = 10 * time.Second

func openKafka(_ context.Context, from *source, r *Reader) (_ broker, err error) {
	b := &kafkaBroker{source: from, r: r, made: make(chan struct{}), behind: map[int32]uint64{}}
	forget := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range lost[from.topic] {
			delete(b.behind, p)
		}
	}
	b.client, err = from.client(
		kgo.ConsumerGroup(from.reader), kgo.ConsumeTopics(from.topic), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(sessionTimeout), kgo.RebalanceTimeout(sessionTimeout), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(batchBytes),
		kgo.AdjustFetchOffsetsFn(b.begin), kgo.OnPartitionsRevoked(forget), kgo.OnPartitionsLost(forget),
	)
	close(b.made)
	return b, err
}

// client returns a client of the servers.
func (s *source) client(options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, kgo.SeedBrokers(s.servers...), kgo.ClientID("weir"))
	if s.tls {
		options = append(options, kgo.DialTLS())
	}
	if s.user != "" {
		options = append(options, kgo.SASL(plain.Auth{User: s.user, Pass: s.password}.AsMechanism()))
	}
	return kgo.NewClient(options...)
}

// begin says where partitions begin that this node is to read: at the journal's position, if it is known.
func (b *kafkaBroker) begin(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	<-b.made
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(b.source.topic)
	ask := kmsg.NewPtrMetadataRequest()
	ask.Topics = append(ask.Topics, topic)
	answer, err := ask.RequestWith(ctx, b.client)
	if err != nil || len(answer.Topics) != 1 {
		return nil, fmt.Errorf("which topic is %s: %w", b.source.topic, err)
	}
	if err := kerr.ErrorForCode(answer.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("topic %s: %w", b.source.topic, err)
	}
	life := fmt.Sprintf("%x", answer.Topics[0].TopicID)
	for partition := range offsets[b.source.topic] {
		at, known, err := b.r.position(ctx, b.source.id(partition, life))
		if err != nil {
			return nil, err
		}
		if known {
			offsets[b.source.topic][partition] = kgo.NewOffset().At(int64(at.Offset))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life = life
	return offsets, nil
}

func (b *kafkaBroker) fetch(ctx context.Context) (list []piece, err error) {
	waiting, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	fetches := b.client.PollRecords(waiting, batchMessages)
	fetches.EachError(func(topic string, partition int32, failure error) {
		if waiting.Err() == nil || !errors.Is(failure, waiting.Err()) {
			err = fmt.Errorf("partition %d: %w", partition, failure)
			if topic == b.source.topic { // else it is the broker that fails
				b.r.note(err)
			}
		}
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		if len(part.Records) == 0 {
			return
		}
		p := piece{partition: part.Partition, life: b.life, messages: make([]message, len(part.Records))}
		for i, r := range part.Records {
			p.messages[i] = message{offset: uint64(r.Offset), at: r.Timestamp, name: r.Topic, key: r.Key, value: r.Value, header: headerOf(r), raw: r}
		}
		last := part.Records[len(part.Records)-1]
		b.behind[part.Partition] = uint64(max(part.HighWatermark-last.Offset-1, 0))
		list = append(list, p)
	})
	if len(list) > 0 {
		err = nil // it is noted, or the next fetch has it
	}
	return list, err
}

func headerOf(r *kgo.Record) func(name string) string {
	return func(name string) string {
		for _, h := range r.Headers {
			if h.Key == name {
				return string(h.Value)
			}
		}
		return ""
	}
}

// commit does not wait: the next commit has this one too.
func (b *kafkaBroker) commit(p *piece, at replication.Position) {
	last := p.messages[len(p.messages)-1].raw.(*kgo.Record)
	b.client.CommitOffsets(context.Background(), map[string]map[int32]kgo.EpochOffset{b.source.topic: {p.partition: {Epoch: last.LeaderEpoch, Offset: int64(at.Offset)}}}, nil)
}

func (b *kafkaBroker) bury(ctx context.Context, m *message, why string) error {
	r := m.raw.(*kgo.Record)
	out := &kgo.Record{Topic: b.source.dead, Key: m.key, Value: m.value}
	out.Headers = append(append(out.Headers, r.Headers...), kgo.RecordHeader{Key: "Weir-Error", Value: []byte(why)},
		kgo.RecordHeader{Key: "Weir-Source", Value: fmt.Appendf(nil, "%s %d %d", r.Topic, r.Partition, r.Offset)})
	return b.client.ProduceSync(ctx, out).FirstErr()
}

func (b *kafkaBroker) lag() (n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.behind {
		n += one
	}
	return n
}

func (b *kafkaBroker) close(context.Context) { b.client.Close() }
