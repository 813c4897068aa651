package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// kafkaBroker reads a topic as a member of a consumer group, which gives each partition to one node. A partition is read from the
// journal's position; the offsets that are committed follow the journal and are for operators, and for topics of which the
// journal knows nothing.
type kafkaBroker struct {
	of     *source
	r      *reader
	client *kgo.Client
	life   string // of the topic: its ID

	mu     sync.Mutex
	behind map[int32]uint64 // messages of a partition that did not come yet
}

// sessionTimeout is how long the partitions of a node that crashed wait for another one, or for its next start.
const sessionTimeout = 10 * time.Second

func openKafka(ctx context.Context, of *source, r *reader) (broker, error) {
	b := &kafkaBroker{of: of, r: r, behind: map[int32]uint64{}}
	reset := kgo.NewOffset().AtStart()
	if of.fromEnd {
		reset = kgo.NewOffset().AtEnd()
	}
	forget := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range lost[of.topic] {
			delete(b.behind, p)
		}
	}
	connect := []kgo.Opt{kgo.SeedBrokers(of.servers...), kgo.ClientID("weir")}
	if of.tls {
		connect = append(connect, kgo.DialTLS())
	}
	if of.user != "" {
		connect = append(connect, kgo.SASL(plain.Auth{User: of.user, Pass: of.password}.AsMechanism()))
	}
	// The group is joined at once, and begin needs the topic's life: another client asks for it.
	if err := b.look(ctx, connect); err != nil {
		return nil, err
	}
	var err error
	b.client, err = kgo.NewClient(append(slices.Clip(connect), kgo.ConsumerGroup(of.reader), kgo.ConsumeTopics(of.topic), kgo.DisableAutoCommit(), kgo.SessionTimeout(sessionTimeout),
		kgo.ConsumeResetOffset(reset), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(batchBytes),
		kgo.AdjustFetchOffsetsFn(b.begin), kgo.OnPartitionsRevoked(forget), kgo.OnPartitionsLost(forget))...)
	return b, err
}

// look finds out which topic of its name it is.
func (b *kafkaBroker) look(ctx context.Context, connect []kgo.Opt) error {
	client, err := kgo.NewClient(connect...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ask := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(b.of.topic)
	ask.Topics = append(ask.Topics, topic)
	answer, err := ask.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, t := range answer.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w", b.of.topic, err)
		}
		b.life = fmt.Sprintf("%x", t.TopicID)
	}
	return nil
}

// begin says where partitions begin that this node is to read: at the journal's position, if it is known.
func (b *kafkaBroker) begin(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for partition := range offsets[b.of.topic] {
		if at, known := b.r.position(ctx, b.of.id(partition, b.life)); known {
			offsets[b.of.topic][partition] = kgo.NewOffset().At(int64(at.Offset))
		}
	}
	return offsets, nil
}

// fetch waits for messages.
func (b *kafkaBroker) fetch(ctx context.Context) (list []piece, err error) {
	waiting, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	fetches := b.client.PollRecords(waiting, batchMessages)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	fetches.EachError(func(_ string, partition int32, failure error) {
		if !errors.Is(failure, context.DeadlineExceeded) {
			err = fmt.Errorf("partition %d: %w", partition, failure)
		}
	})
	fetches.EachPartition(func(of kgo.FetchTopicPartition) {
		if len(of.Records) == 0 {
			return
		}
		p := piece{partition: of.Partition, life: b.life, messages: make([]message, len(of.Records))}
		for i, r := range of.Records {
			p.messages[i] = message{offset: uint64(r.Offset), at: r.Timestamp, name: []byte(r.Topic), key: r.Key, value: r.Value, header: headerOf(r), raw: r}
		}
		last := of.Records[len(of.Records)-1]
		p.raw = last
		list = append(list, p)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.behind[of.Partition] = uint64(max(of.HighWatermark-last.Offset-1, 0))
	})
	if len(list) > 0 {
		return list, nil
	}
	return nil, err
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

func (b *kafkaBroker) commit(p *piece, at replication.Position) {
	last, is := p.raw.(*kgo.Record)
	if !is {
		return
	}
	b.client.CommitOffsets(context.Background(), map[string]map[int32]kgo.EpochOffset{b.of.topic: {p.partition: {Epoch: last.LeaderEpoch, Offset: int64(at.Offset)}}},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				b.r.log.Debug("could not commit offsets; the next commit has them too", "topic", b.of.topic, "error", err)
			}
		})
}

func (b *kafkaBroker) bury(ctx context.Context, m *message, why string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := &kgo.Record{Topic: b.of.dead, Key: m.key, Value: m.value}
	if r, is := m.raw.(*kgo.Record); is {
		out.Headers = append(out.Headers, r.Headers...)
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: "Weir-Source", Value: fmt.Appendf(nil, "%s %d %d", r.Topic, r.Partition, r.Offset)})
	}
	out.Headers = append(out.Headers, kgo.RecordHeader{Key: "Weir-Error", Value: []byte(why)})
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
