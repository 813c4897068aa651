package stream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/wire"
)

// chunkBytes is how much of a snapshot one message has.
const chunkBytes = 512 << 10

func chunkSubject(partition, slot int) string {
	return snapshotSubject + "." + record.SlotName(partition, slot) + ".chunk"
}

func endSubject(partition, slot int) string {
	return snapshotSubject + "." + record.SlotName(partition, slot) + ".end"
}

// putTimeout bounds the writing of a snapshot, and chunkTimeout of one of its messages. A restart of the server loses the answer to a
// message, and nothing is trimmed while a snapshot is written.
const (
	putTimeout   = 100 * time.Second
	chunkTimeout = 10 * time.Second
)

// PutSnapshot writes a snapshot over what is in a slot, if that has the known
// revision, its end's sequence; 0: whatever is there. It returns the new one. After
// an error the slot has what it had, or the new snapshot.
func (s *Store) PutSnapshot(ctx context.Context, snap record.Snapshot, slot int, known uint64) (revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	chunkTo, endTo := chunkSubject(snap.Partition, slot), endSubject(snap.Partition, slot)
	if known == 0 {
		switch msg, err := FromLeader(ctx, s.Conn(), SnapshotStream, 0, endTo); {
		case err == nil:
			if is, err := record.DecodeStored(msg.Data); err == nil && is.From > snap.From {
				return 0, errNewerThere
			}
			known = msg.Sequence
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return 0, err
		}
	}
	data := snap.Encode()
	end := record.StoredSnapshot{Partition: snap.Partition, Slot: slot, Epoch: snap.Epoch, From: snap.From, Length: uint64(len(data))}
	for chunk := range slices.Chunk(data, chunkBytes) {
		ack, err := s.put(ctx, chunkTo, chunk)
		if err != nil {
			return 0, err
		}
		end.Chunks = append(end.Chunks, ack.Sequence)
	}
	ack, err := s.put(ctx, endTo, end.Encode(), jetstream.WithExpectLastSequencePerSubject(known))
	if err != nil {
		return 0, err
	}
	// What was there before: if it stays, the next snapshot in the slot removes it.
	ctx, cancel = context.WithTimeout(ctx, chunkTimeout)
	defer cancel()
	return ack.Sequence, errors.Join(
		s.snapshots.Purge(ctx, jetstream.WithPurgeSubject(endTo), jetstream.WithPurgeSequence(ack.Sequence)),
		s.snapshots.Purge(ctx, jetstream.WithPurgeSubject(chunkTo), jetstream.WithPurgeSequence(end.Chunks[0])),
	)
}

func (s *Store) put(ctx context.Context, subject string, data []byte, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
	defer cancel()
	return s.js.Publish(ctx, subject, data, opts...)
}

// errNewerThere is why a snapshot was not stored: another node, further on, was quicker.
var errNewerThere = errors.New("the slot has a newer snapshot")

// ListSnapshots lists what is in the slots of each partition, the newest first.
// A slot whose end is damaged is a finding.
func (s *Store) ListSnapshots(ctx context.Context, partitions int) (lists [][]record.StoredSnapshot, findings []record.Finding, err error) {
	lists = make([][]record.StoredSnapshot, partitions)
	var mu sync.Mutex // guards findings
	err = concurrency.Do(partitions, func(partition int) error {
		list, spoiled, err := s.SlotsOf(ctx, partition)
		lists[partition] = list
		mu.Lock()
		findings = append(findings, spoiled...)
		mu.Unlock()
		return err
	})
	return lists, findings, err
}

// SlotsOf lists what is in the slots of one partition, as ListSnapshots does.
func (s *Store) SlotsOf(ctx context.Context, partition int) (list []record.StoredSnapshot, findings []record.Finding, err error) {
	for slot := range record.Slots {
		l, err := s.listSlot(ctx, partition, slot)
		switch {
		case err == nil:
			list = append(list, l)
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case IsUnavailable(err), errors.Is(err, wire.ErrVersion):
			return nil, nil, err
		default:
			findings = append(findings, record.SpoiledSnapshot(partition, slot, err))
		}
	}
	slices.SortFunc(list, func(a, b record.StoredSnapshot) int {
		return cmp.Or(cmp.Compare(b.From, a.From), cmp.Compare(b.Epoch, a.Epoch))
	})
	return list, findings, nil
}

// Newest returns the newest sound snapshot of a partition; nil: there is none.
func (s *Store) Newest(ctx context.Context, partition int) (*record.Snapshot, error) {
	stored, _, err := s.SlotsOf(ctx, partition)
	if err != nil {
		return nil, err
	}
	for _, at := range stored {
		snap, err := s.GetSnapshot(ctx, at)
		if err == nil {
			return &snap, nil
		}
		if ctx.Err() != nil || IsUnavailable(err) {
			return nil, err
		}
		s.log.Warn("journal: could not read a snapshot; trying the next one", "partition", partition, "error", err)
	}
	return nil, nil
}

// Requests returns the requests that the newest sound snapshot of partition 0 lists, as replica.TailSource wants them.
func (s *Store) Requests(ctx context.Context) (list []record.SeenRequest, upTo uint64, err error) {
	snap, err := s.Newest(ctx, 0)
	if snap == nil {
		return nil, 0, err
	}
	return snap.Requests, snap.From, nil
}

func (s *Store) listSlot(ctx context.Context, partition, slot int) (record.StoredSnapshot, error) {
	var msg *jetstream.RawStreamMsg
	err := RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		msg, err = FromLeader(ctx, s.Conn(), SnapshotStream, 0, endSubject(partition, slot))
		return err
	})
	if err != nil {
		return record.StoredSnapshot{}, err
	}
	l, err := record.DecodeStored(msg.Data)
	if err == nil && (l.Partition != partition || l.Slot != slot) {
		err = fmt.Errorf("%w: it is the end of another snapshot", record.ErrDamaged)
	}
	l.Sequence = msg.Sequence
	return l, err
}

// GetSnapshot reads and checks a snapshot.
func (s *Store) GetSnapshot(ctx context.Context, l record.StoredSnapshot) (record.Snapshot, error) {
	var data bytes.Buffer
	for _, sequence := range l.Chunks {
		var chunk *jetstream.RawStreamMsg
		err := RetryUnavailable(ctx, func(ctx context.Context) (err error) {
			chunk, err = FromLeader(ctx, s.Conn(), SnapshotStream, sequence, "")
			if errors.Is(err, jetstream.ErrMsgNotFound) { // the leader's disk may be damaged, and this node's sound
				chunk, err = s.snapshots.GetMsg(ctx, sequence)
			}
			return err
		})
		if err != nil {
			return record.Snapshot{}, fmt.Errorf("message %d of the stream of snapshots: %w", sequence, err)
		}
		data.Write(chunk.Data)
	}
	if uint64(data.Len()) != l.Length {
		return record.Snapshot{}, fmt.Errorf("%w: %d bytes in place of %d", record.ErrDamaged, data.Len(), l.Length)
	}
	snap, err := record.DecodeSnapshot(data.Bytes())
	if err == nil && (snap.Partition != l.Partition || snap.Epoch != l.Epoch || snap.From != l.From) {
		err = fmt.Errorf("%w: it is another snapshot", record.ErrDamaged)
	}
	return snap, err
}
