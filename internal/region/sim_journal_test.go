package region

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// simJournal is the journal of a region: flushes of some nodes, in parts, some twice; and snapshots.
type simJournal struct {
	w        *simWorld
	id       uint64
	first    uint64
	messages [][]byte // from 1 on
	writers  []*record.Encoder
	pending  [][][]byte // parts of writers' flushes that are not in the journal yet
	snaps    [simPartitions][]simSnap
}

type simSnap struct {
	record.StoredSnapshot
	snap record.Snapshot
}

func newSimJournal(w *simWorld) *simJournal {
	j := &simJournal{w: w, id: w.rng.Uint64(), first: 1}
	for i := range 1 + w.rng.IntN(3) {
		e := record.NewEncoder(record.Incarnation{Origin: w.rng.Uint64(), Epoch: 1}, simPartitions)
		e.Node, e.PartBytes, e.BatchBytes = fmt.Sprint("n", i), 100, 40
		j.writers = append(j.writers, e)
	}
	j.pending = make([][][]byte, len(j.writers))
	return j
}

func (j *simJournal) last() uint64 { return uint64(len(j.messages)) }

// write has some node append the next part of a flush.
func (j *simJournal) write() {
	rng, writer := j.w.rng, j.w.rng.IntN(len(j.writers))
	if len(j.pending[writer]) == 0 {
		e := j.writers[writer]
		e.Begin(simNow)
		for range rng.IntN(4) {
			partition, list := rng.IntN(simPartitions), []replication.Delta(nil)
			for range 1 + rng.IntN(6) {
				key := j.w.keys[partition][rng.IntN(simKeys)]
				if rng.IntN(12) == 0 {
					list = append(list, replication.Delta{Key: key})
				} else {
					list = append(list, replication.Delta{Key: key, At: simNow.Unix() - int64(rng.IntN(20)), N: 1 + uint64(rng.IntN(5))})
				}
			}
			e.Add(partition, list)
			if rng.IntN(2) == 0 {
				ids := distinct.New(int64(simEngine().Retention / time.Second))
				ids.Add(simNow.Unix()-int64(rng.IntN(20)), rng.Uint64N(50))
				e.AddDistinct(partition, []replication.KeyDistinct{{Key: j.w.keys[partition][rng.IntN(simKeys)], Set: ids}})
			}
		}
		j.pending[writer] = e.End(nil)
	}
	part := j.pending[writer][0]
	j.messages = append(j.messages, part)
	if rng.IntN(10) > 0 { // else its answer was lost, and it comes again
		j.pending[writer] = j.pending[writer][1:]
	}
}

// complete ends all flushes that have begun.
func (j *simJournal) complete() {
	for writer := range j.pending {
		j.messages = append(j.messages, j.pending[writer]...)
		j.pending[writer] = nil
	}
}

// engine has what the journal has up to a message, of a partition or of all (below 0), and how far each origin is in it.
func (j *simJournal) engine(upTo uint64, only int) (*engine.Engine, map[uint64]record.OriginPosition, replica.FlushPosition) {
	e, err := engine.New(simEngine())
	if err != nil {
		j.w.t.Fatal(err)
	}
	to, t, at := replica.NewHolding(e), replica.NewTailFlushes(replica.FlushPosition{}), map[uint64]record.OriginPosition{}
	for i := range upTo {
		p, err := record.DecodePart(j.messages[i])
		if err != nil {
			j.w.t.Fatal(err)
		}
		for _, p := range t.Take(i+1, p) {
			for _, b := range p.Batches {
				if only >= 0 && b.Partition != only || len(b.Entries) == 0 {
					continue
				}
				if err := to.Count(b, false, false); err != nil {
					j.w.t.Fatal(err)
				}
				position := at[p.Origin]
				position.Origin, position.Position = p.Origin, record.Position{Epoch: p.Epoch, Seq: b.Seq, Total: b.Total}
				at[p.Origin] = position
			}
		}
	}
	return e, at, t.Position()
}

// snapshot takes one of each partition, each at a place of its own, and trims.
func (j *simJournal) snapshot() {
	if j.last() < 2 {
		return
	}
	oldest := j.last()
	for partition := range simPartitions {
		from := min(max(j.last()-min(j.last(), uint64(j.w.rng.IntN(5))), j.first), j.last())
		e, at, where := j.engine(from, partition)
		var cut replication.Cut
		e.Cut(partition, &cut, true)
		snap := record.Snapshot{Incarnation: record.Incarnation{Origin: 1, Epoch: 1}, Partition: partition, From: where.After, State: slices.Clone(cut.State)}
		for origin, head := range where.Heads { // flushes after a place where one is not whole are in the state, and their heads are of From
			position := at[origin]
			position.Origin = origin
			if whole := j.heads(where.After)[origin]; whole != (record.Head{}) {
				position.Head = whole
			}
			_ = head
			snap.Positions = append(snap.Positions, position)
		}
		slices.SortFunc(snap.Positions, func(a, b record.OriginPosition) int { return int(a.Origin>>1) - int(b.Origin>>1) })
		one := simSnap{record.StoredSnapshot{Partition: partition, Epoch: 1, From: snap.From, Sequence: j.w.rng.Uint64()}, snap}
		j.snaps[partition] = append([]simSnap{one}, j.snaps[partition]...)
		if len(j.snaps[partition]) > 2 {
			j.snaps[partition] = j.snaps[partition][:2]
		}
		for _, s := range j.snaps[partition] {
			oldest = min(oldest, s.From)
		}
		_ = e.Close()
	}
	if j.w.rng.IntN(2) == 0 {
		j.first = max(j.first, oldest+1)
	}
}

func (j *simJournal) heads(upTo uint64) map[uint64]record.Head {
	t := replica.NewTailFlushes(replica.FlushPosition{})
	for i := range upTo {
		p, _ := record.DecodePart(j.messages[i])
		t.Take(i+1, p)
	}
	return t.Position().Heads
}

func (j *simJournal) ID() uint64              { return j.id }
func (j *simJournal) Joined() *transport.Node { return nil }

func (j *simJournal) Bounds(context.Context) (first, last uint64, err error) {
	return j.first, j.last(), nil
}

func (j *simJournal) Moment(context.Context) (uint64, time.Time, []replica.OriginStatus, error) {
	return j.last(), simNow, nil, nil
}

func (j *simJournal) ReadFlushes(_ context.Context, t *replica.TailFlushes, upTo uint64, f func([]record.Part) error) error {
	if t.Next() <= upTo && t.Next() < j.first {
		return durable.ErrTrimmed
	}
	for t.Next() <= upTo {
		message := t.Next()
		p, err := record.DecodePart(j.messages[message-1])
		if err != nil {
			return err
		}
		if flush := t.Take(message, p); flush != nil {
			if err := f(flush); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *simJournal) StoredSnapshots(_ context.Context, partition int) (list []record.StoredSnapshot, _ error) {
	for _, s := range j.snaps[partition] {
		list = append(list, s.StoredSnapshot)
	}
	return list, nil
}

func (j *simJournal) ReadSnapshot(_ context.Context, stored record.StoredSnapshot) (record.Snapshot, error) {
	for _, s := range j.snaps[stored.Partition] {
		if s.Sequence == stored.Sequence {
			return s.snap, nil
		}
	}
	return record.Snapshot{}, record.ErrDamaged
}

var _ Journal = (*simJournal)(nil)
