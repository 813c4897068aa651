package replica

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// Hits add up in any order, but a removal deletes what is before it. All nodes must agree on what is before it, so the
// journal's order counts. A node's own hits and removals are ahead of the journal. So
//
//   - an own removal that did not come back yet also takes what is applied meanwhile
//     (engine.Replication.Apply, Confirm);
//   - a removal of another node leaves own hits that did not come back yet (ownSince);
//   - a snapshot is stored only once its own hits and removals came back, because its state
//     has them ahead of the journal. It is not stored if a removal spoiled it meanwhile
//     (openSnapshot).

// ownSince returns, by key, the own deltas of a partition that did not come back from the journal, in the order in
// which they were cut. They are from batches after seq. The caller holds cutting, so that nothing is on its way from
// the engine to the resend buffer, and mu.
func (r *Replica) ownSince(partition int, seq uint64) func(key string) []replication.Delta {
	var byKey map[string][]replication.Delta
	return func(key string) []replication.Delta {
		if byKey == nil {
			byKey = map[string][]replication.Delta{}
			if !r.eachOwn(partition, seq, func(d replication.Delta) { byKey[d.Key] = append(byKey[d.Key], d) }) {
				r.holding.unsure[partition].Store(true)
			}
		}
		return byKey[key]
	}
}

// reportUnsure names the partitions in which own hits may be missing. The caller holds
// mu.
func (r *Replica) reportUnsure() {
	for partition := range r.holding.unsure {
		if r.holding.unsure[partition].Swap(false) {
			r.audit.find(r.audit.progressOf(r.audit.Origin).named(fmt.Sprintf("partition %d", partition)),
				"a key was deleted when more own hits were on their way than are kept", "the newest own hits of that key")
		}
	}
}

// eachOwn calls f with each of the deltas of ownSince. It reports whether the resend buffer still
// had all.
func (r *Replica) eachOwn(partition int, seq uint64, f func(replication.Delta)) (all bool) {
	if r.encoder == nil {
		return true
	}
	for flush := r.audit.progressOf(r.audit.Origin).flush + 1; flush <= r.encoder.Flush; flush++ {
		for number, last := uint64(0), false; !last; number++ {
			p, err := record.DecodePart(r.resends.get(flush, number))
			if err != nil {
				all = flush == r.encoder.Flush && number == 0 // it is not cut yet
				return all
			}
			for _, b := range p.Batches {
				if b.Partition == partition && b.Seq > seq {
					for _, d := range b.Deltas() {
						f(d)
					}
				}
			}
			last = p.Last
		}
	}
	return true
}

// openSnapshot is a snapshot whose own hits and removals did not all come back from
// the journal.
type openSnapshot struct {
	flush   uint64          // the last of them
	hits    map[string]bool // their keys
	removed map[string]bool
	spoiled bool // in the order of the journal the state is another
}

// openSnapshot begins to watch the partition whose state the cut has just taken. The
// caller holds mu.
func (r *Replica) openSnapshot(partition int) {
	o := &openSnapshot{flush: r.encoder.Flush, hits: map[string]bool{}, removed: map[string]bool{}}
	note := func(d replication.Delta) {
		if d.N == 0 {
			o.removed[d.Key] = true
		} else {
			o.hits[d.Key] = true
		}
	}
	o.spoiled = !r.eachOwn(partition, r.holding.upTo[partition], note)
	for _, d := range r.cut.Deltas {
		note(d)
	}
	for _, d := range r.cut.Distinct {
		o.hits[d.Key] = true
	}
	r.holding.open[partition] = o
}

// openBefore says that the flush that some states were taken with is none: nothing of
// them is in it.
func (r *Replica) openBefore(snaps []record.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, snap := range snaps {
		if o := r.holding.open[snap.Partition]; o != nil {
			o.flush = min(o.flush, r.encoder.Flush)
		}
	}
}

// see checks a batch that is applied after the state was taken, whether the partition is held or not. The state is
// spoiled if it has own hits that another node's flush counts. Other own batches are in the state as they should be.
func (o *openSnapshot) see(b record.Batch, own bool) {
	if own {
		o.spoiled = o.spoiled || len(b.Less) > 0
		return
	}
	if b.Kind != record.KindHits {
		o.spoiled = o.spoiled || b.Kind == record.KindClear || len(o.removed) > 0
		return
	}
	if !b.Removes && len(o.removed) == 0 {
		return
	}
	for _, d := range b.Deltas() {
		if d.N == 0 && o.hits[d.Key] || d.N > 0 && o.removed[d.Key] {
			o.spoiled = true
		}
	}
}

// Settle reports whether all own hits and removals of a snapshot came back, and whether
// it may be stored. It is asked until it is settled.
func (r *Replica) Settle(snap record.Snapshot) (settled, sound bool) {
	if !r.clustered {
		return true, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.holding.open[snap.Partition]
	if o == nil {
		return true, false
	}
	if settled = r.audit.progressOf(r.audit.Origin).flush >= o.flush; settled {
		delete(r.holding.open, snap.Partition)
	}
	return settled, !o.spoiled
}

// ownAll is ownSince of all keys, in order.
func (r *Replica) ownAll(partition int, seq uint64) (list []replication.Delta) {
	if !r.eachOwn(partition, seq, func(d replication.Delta) { list = append(list, d) }) {
		r.holding.unsure[partition].Store(true)
	}
	return list
}

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
	moved map[replication.RequestID][]run  // by topic, in the order of the journal
	many  int                              // how many runs all topics had when Trimmed last found too many
}

// run is moves of a topic that one life of a node made, and no other node in between. A node makes a move only once it has followed
// its last one. So a move of that life counts if its flush is one from first to last.
type run struct {
	incarnation record.Incarnation
	first, last uint64 // flushes
	to          replication.Position
	upTo        uint64 // the message up to which a reader may come upon them again; 0: not known yet
}

// manyRuns is of how many runs, more than there were, a journal should be trimmed.
const manyRuns = 1000

// move notes a move of a topic, and reports whether it counts. It does not if an earlier flush went beyond its beginning: then it
// comes from a node that read the topic before, and whose flush came late.
func (s *requests) move(r replication.Request, p *record.Part) bool {
	next, runs := run{incarnation: p.Incarnation, first: p.Flush, last: p.Flush, to: r.Move.To}, s.moved[r.ID]
	for i, is := range runs {
		switch last := i == len(runs)-1; {
		case is.incarnation == p.Incarnation && is.first <= p.Flush && p.Flush <= is.last:
			return true // it is read again, or another piece
		case last && r.Move.From.Compare(is.to) < 0:
			return false
		case last && is.incarnation == p.Incarnation:
			next.first = is.first
		}
	}
	s.noteRun(r.ID, next)
	return true
}

func (s *requests) noteRun(topic replication.RequestID, r run) {
	runs := s.moved[topic]
	at := slices.IndexFunc(runs, func(is run) bool { return is.incarnation == r.incarnation && is.first == r.first })
	switch {
	case at >= 0 && r.last > runs[at].last:
		runs[at] = r
	case at < 0:
		if s.moved == nil {
			s.moved = map[replication.RequestID][]run{}
		}
		runs = append(runs, r)
		slices.SortStableFunc(runs, func(a, b run) int { return a.to.Compare(b.to) })
		s.moved[topic] = runs
	}
}

// trimmed forgets runs that nobody reads again, since the journal begins with message first: but the last of each topic, which says how far it
// is counted, and the first, which says who began. The journal was followed up to a message. many tells that the journal should be trimmed
// further.
func (s *requests) trimmed(first, followed uint64) (many bool) {
	all := 0
	for topic, runs := range s.moved {
		kept := runs[:0]
		for i, is := range runs {
			if is.upTo == 0 {
				is.upTo = followed + waitMost // flushes that are asked for again come later than they were written
			}
			if i == 0 || i == len(runs)-1 || is.upTo >= first {
				kept = append(kept, is)
			}
		}
		s.moved[topic] = kept
		all += len(kept)
	}
	s.many = min(s.many, all)
	if many = all > 2*s.many+manyRuns; many {
		s.many = all
	}
	return many
}

// Trimmed says with which message the journal begins. many tells that it should be trimmed further: takeovers of topics are kept with it.
func (r *Replica) Trimmed(first uint64) (many bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.audit.requests.trimmed(first, r.audit.Stream)
}

// BegunByOther returns the node that began to count one of some topics, if another origin than this one did.
func (r *Replica) BegunByOther(moves []replication.Request) (node string, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range moves {
		if runs := r.audit.requests.moved[one.ID]; len(runs) > 0 && runs[0].incarnation.Origin != r.audit.Origin {
			return r.audit.progressOf(runs[0].incarnation.Origin).node, true
		}
	}
	return "", false
}

// Joined is how many nodes, by their names, have ever begun a life in the journal, as far as it was followed.
func (r *Replica) Joined() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[string]bool{}
	for _, l := range r.audit.byOrigin {
		if l.node != "" && !record.IsBackupName(l.node) {
			names[l.node] = true
		}
	}
	return len(names)
}

// Moves says where topics are counted, as moves from their beginning: for a journal that knows nothing of them.
func (a *Auditor) Moves() (list []replication.Request) {
	for topic, runs := range a.requests.moved {
		list = append(list, replication.Request{ID: topic, Move: replication.Move{To: runs[len(runs)-1].to}})
	}
	return list
}

// Position is up to where a topic is counted, as far as the journal was followed; false: nothing is known of it.
func (r *Replica) Position(topic replication.RequestID) (p replication.Position, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := r.audit.requests.moved[topic]
	if len(runs) == 0 {
		return p, false
	}
	return runs[len(runs)-1].to, true
}

// seen is the flush that counts a request.
type seen struct {
	incarnation record.Incarnation
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

	// requestsDistance is how far apart two flushes with one request are at most, but for a node that stands still. History has twice as much
	// of the journal kept.
	requestsDistance = 30 * time.Second
)

// settle notes the requests of a flush. It returns the hits of the flush that must be left out because an earlier
// flush counts them; nil: none.
func (s *requests) settle(parts []record.Part) (less *record.Less) {
	for i := range parts {
		p := &parts[i]
		for _, r := range p.Requests {
			if r.Move != (replication.Move{}) {
				if s.move(r, p) {
					continue
				}
			} else if s.note(r.ID, seen{incarnation: p.Incarnation, Head: record.Head{Epoch: p.Epoch, Flush: p.Flush}, at: p.At}) {
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

// note records that a flush has a request, and reports whether the request counts in this flush.
func (s *requests) note(id replication.RequestID, in seen) bool {
	was := s.by[id]
	for _, w := range was { // first of all, so that a flush that is read again gets the same answer
		if w.incarnation == in.incarnation && w.Head == in.Head {
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
				list = append(list, record.SeenRequest{ID: id, Incarnation: in.incarnation, Flush: in.Flush, At: in.at})
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
	for id, runs := range s.moved {
		for _, one := range runs {
			list = append(list, record.SeenRequest{ID: id, Incarnation: one.incarnation, Flush: one.last, First: one.first, To: one.to})
		}
	}
	return list
}

func (s *requests) resume(list []record.SeenRequest) {
	for _, r := range list {
		if r.First > 0 {
			s.noteRun(r.ID, run{incarnation: r.Incarnation, first: r.First, last: r.Flush, to: r.To})
			continue
		}
		s.note(r.ID, seen{incarnation: r.Incarnation, Head: record.Head{Epoch: r.Epoch, Flush: r.Flush}, at: r.At})
	}
}

// learn notes the requests that the journal had before a reader's position. The newest snapshot lists some of them;
// the messages after it have the rest. Nothing is missing between the two, because the journal is trimmed only behind its
// snapshots. Its first message is first.
//
// A snapshot that is newer than the position lists what was seen within requestsFor, which the reader may be behind. Then the
// messages before the position count that are still there: history has a minute of them kept (package history, settleTime). Where neither
// reaches back by requestsDistance, a request may come that was counted before. The error is a TrimmedError then, unless there is one origin
// only, which knows its own requests.
func (s *requests) learn(ctx context.Context, from TailSource, first, position uint64, origins int) error {
	listed, upTo, err := from.Requests(ctx)
	if err != nil {
		return err
	}
	s.resume(listed)
	begin, behind := max(upTo+1, first), upTo > position
	if behind {
		begin = first
	}
	oldest, newest, err := readParts(ctx, from, begin, position, func(p record.Part) { s.settle([]record.Part{p}) })
	if err != nil || !behind || first <= 1 || origins <= 1 || newest.Sub(oldest) >= requestsDistance {
		return err
	}
	nothing := func(record.Part) {}
	if newest.IsZero() {
		if _, newest, err = readParts(ctx, from, position+1, position+1, nothing); err != nil {
			return err
		}
	}
	_, snapshot, err := readParts(ctx, from, upTo, upTo, nothing)
	if err != nil || !newest.IsZero() && !snapshot.IsZero() && snapshot.Sub(newest) <= requestsFor-requestsDistance {
		return err
	}
	return &TrimmedError{Next: position + 1, First: first}
}

// readParts calls f with the parts from one message to another, and returns the times of the first and the last; zero: there is none.
func readParts(ctx context.Context, from TailSource, first, last uint64, f func(record.Part)) (oldest, newest time.Time, err error) {
	if first > last {
		return oldest, newest, nil
	}
	err = from.Read(ctx, first, last, func(_ uint64, data []byte) error {
		if p, err := record.DecodePart(data); err == nil {
			if newest = time.UnixMilli(p.At); oldest.IsZero() {
				oldest = newest
			}
			f(p)
		}
		return nil
	})
	return oldest, newest, err
}

func (s *requests) clone() requests {
	moved := maps.Clone(s.moved)
	for id, runs := range moved {
		moved[id] = slices.Clone(runs)
	}
	return requests{by: maps.Clone(s.by), order: slices.Clone(s.order), moved: moved}
}
