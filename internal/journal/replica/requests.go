package replica

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// A request with an idempotency key may reach two nodes before either of them knows it from the journal. Both count
// it, and say so in their flushes (record.Request). The journal is a total order: the flush that comes first counts
// the request. Every reader leaves the hits out of the other one, and the node that wrote it takes them back
// (Holding.hits). So no node waits for another, and neither a crash nor a network partition can count a request twice.
// The rejected designs are in docs/decisions/0009.
//
// Which of the two counts does not matter, for both have the same number of hits. But a reader must not choose twice for one
// request: so a snapshot of partition 0 has the requests that were seen before it.

// requests are the requests that were seen in the journal.
type requests struct {
	by    map[replication.RequestID][]seen // several, of clocks or times that are far from each other; a slice is never changed
	order []replication.RequestID          // as they came
}

// seen is the flush that counts a request.
type seen struct {
	of record.Incarnation
	record.Head
	at     int64     // of the flush, Unix ms
	listed time.Time // when a snapshot listed it first, by a clock that is not set: no node's wrong time of day ends it
}

const (
	// maxRequests bounds the requests that are kept: 24 MB of memory, and two minutes of 1,000 requests with a key a second.
	maxRequests = 1 << 17

	// maxTimes bounds the flushes that are kept of one request.
	maxTimes = 8

	// requestsFor is for how long a request is kept, by what flushes say of the time. A node knows the receipts of others after the lag of the
	// journal, so that two flushes with one request are that close together. It is shorter than keyspace.ReceiptSeconds, after which a
	// request with the same key is a new one.
	requestsFor = 5 * time.Minute
)

// settle notes the requests of a flush. It returns the hits of the flush that must be left out because an earlier
// flush counts them; nil: none.
func (s *requests) settle(parts []record.Part) (less *record.Less) {
	for _, p := range parts {
		for _, r := range p.Requests {
			if s.note(r.ID, seen{of: p.Incarnation, Head: record.Head{Epoch: p.Epoch, Flush: p.Flush}, at: p.At}) {
				continue
			}
			if less == nil {
				less = &record.Less{}
			}
			for _, h := range r.Hits {
				less.Add(h)
			}
		}
	}
	return less
}

// note notes that a flush has a request, and tells whether it is the one that counts it.
func (s *requests) note(id replication.RequestID, in seen) bool {
	was := s.by[id]
	for _, w := range was { // first of all, so that a flush that is read again gets the same answer
		if w.of == in.of && w.Head == in.Head {
			return true
		}
	}
	for _, w := range was {
		if time.Duration(max(in.at-w.at, w.at-in.at))*time.Millisecond < requestsFor {
			return false
		}
	}
	if s.by == nil {
		s.by = map[replication.RequestID][]seen{}
	}
	s.by[id] = append(slices.Clip(was[max(0, len(was)+1-maxTimes):]), in)
	if len(was) > 0 {
		return true
	}
	s.order = append(s.order, id)
	if len(s.order) > maxRequests {
		delete(s.by, s.order[0])
		s.order = s.order[1:]
	}
	return true
}

// list returns the requests for a snapshot, and forgets those that snapshots have listed for requestsFor; now is by a clock that is not set.
func (s *requests) list(now time.Time) (list []record.SeenRequest) {
	kept := s.order[:0]
	for _, id := range s.order {
		var left []seen
		for _, in := range s.by[id] {
			if in.listed.IsZero() {
				in.listed = now
			}
			if now.Sub(in.listed) <= requestsFor {
				left = append(left, in)
				list = append(list, record.SeenRequest{ID: id, Incarnation: in.of, Flush: in.Flush, At: in.at})
			}
		}
		if len(left) == 0 {
			delete(s.by, id)
			continue
		}
		s.by[id] = left
		kept = append(kept, id)
	}
	s.order = kept
	return list
}

// resume notes the requests of a snapshot.
func (s *requests) resume(list []record.SeenRequest) {
	for _, r := range list {
		s.note(r.ID, seen{of: r.Incarnation, Head: record.Head{Epoch: r.Epoch, Flush: r.Flush}, at: r.At})
	}
}

// learn notes the requests that the journal had before a reader's position. The newest snapshot lists some of them;
// the messages after it have the rest. Nothing is missing between the two, because the journal is trimmed only behind its
// snapshots. Its first message is first.
//
// A snapshot that is newer than the position lists what was seen within requestsFor, which the reader may be behind. Then the
// messages before the position count that are still there: history has a minute of them kept (package history, settleTime).
func (s *requests) learn(ctx context.Context, from TailSource, first, position uint64) error {
	listed, upTo, err := from.Requests(ctx)
	if err != nil {
		return err
	}
	s.resume(listed)
	if upTo = max(upTo+1, first); upTo > position {
		upTo = first
	}
	if upTo > position {
		return nil
	}
	return from.Read(ctx, upTo, position, func(_ uint64, data []byte) error {
		s.remember(data)
		return nil
	})
}

// remember notes the requests of a message of the journal that is not counted again.
func (s *requests) remember(data []byte) {
	if p, err := record.DecodePart(data); err == nil {
		s.settle([]record.Part{p})
	}
}

func (s *requests) clone() requests {
	return requests{maps.Clone(s.by), slices.Clone(s.order)}
}
