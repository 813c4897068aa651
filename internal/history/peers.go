package history

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/wire"
)

// In a cluster each node may have a history of its own, a file of SQLite. Each node tells the others how far its history is.
// The node that trims the journal waits for all of them (Needed), and a node whose history lacks hits copies another one's
// file (copy.go).

// Peers carries messages between the nodes of a journal. Package durable has the one over NATS.
type Peers interface {
	// Publish sends a message to all nodes that Serve its subject, this one too.
	Publish(subject string, data []byte) error
	// Serve calls f with each message of a subject, one after the other. Its result is the answer; nil: there is none.
	Serve(subject string, f func(data []byte) (answer []byte)) error
	// Request returns the answer of one node.
	Request(ctx context.Context, subject string, data []byte) (answer []byte, err error)
}

const (
	hurrySubject = "weir.history.hurry" // asks the writer of a shared database to write what the journal has
	stateSubject = "weir.history.state" // what nodes say of their histories
	copySubject  = "weir.history.copy." // and the node's origin: asks for its file

	stateMagic, stateVersion = 'H', 1

	stateEvery = time.Second      // how often a node says how far its history is
	stateFor   = 10 * time.Second // for how long another node takes it to be so
	absentFor  = time.Minute      // a node that was silent, or could not go on, for so long is waited for only if nobody else is further
	forgetFor  = 10 * time.Minute // a node that was silent for so long is not waited for at all

	maxPeers  = 10_000
	maxOrigin = 64 // bytes
)

// missingMore is by how many seconds hits must be missing for longer than elsewhere before a file is copied: nodes note the same
// gap at slightly different times.
const missingMore = 3600

// peerState is how far the history of a node is.
type peerState struct {
	origin   string
	needed   uint64 // the first message that is not written
	kept     uint64 // the first message that a copy which is under way needs; at most needed
	asOf     int64  // Unix ms: all hits that were taken until then are in
	missing  int64  // seconds of which hits may be missing
	journals uint64 // that have rows
	stuck    bool   // it does not go on
	seen     time.Time
}

func (s *peerState) encode() []byte {
	b := wire.AppendText([]byte{stateMagic, stateVersion}, s.origin)
	for _, n := range []uint64{s.needed, s.kept, uint64(s.asOf), uint64(s.missing), s.journals} {
		b = binary.AppendUvarint(b, n)
	}
	return wire.AppendBool(b, s.stuck)
}

func decodeState(data []byte) (s peerState, ok bool) {
	if len(data) < 2 || data[0] != stateMagic || data[1] != stateVersion {
		return s, false
	}
	r := wire.NewReader(data[2:])
	s.origin = r.Text(maxOrigin)
	s.needed, s.kept, s.asOf = r.Uvarint(), r.Uvarint(), int64(r.AtMost(math.MaxInt64))
	s.missing, s.journals, s.stuck = int64(r.AtMost(math.MaxInt64)), r.Uvarint(), r.Bool()
	return s, r.Done()
}

// lacksPast reports whether hits older than the retention that were taken until a time, Unix ms, may not be written.
func (s *peerState) lacksPast(past int64) bool {
	return past > 0 && past+clockMargin.Milliseconds() > s.asOf
}

// clockMargin is by how much clocks of nodes may differ where it is asked whether a history has a hit.
const clockMargin = 5 * time.Second

// neededOf is the first message of the journal that some history needs, of those of all nodes; 0: none does. haste asks for what
// must stay even if the journal gets full: messages with hits older than the retention, which snapshots do not have. A
// history that is absent or stuck is not waited for then if another one is further: its file is copied later.
func neededOf(all []peerState, haste bool, past int64, now time.Time) (first uint64) {
	absent := func(s peerState) bool { return s.stuck || now.Sub(s.seen) > absentFor }
	for _, s := range all {
		needed := min(s.needed, s.kept)
		if haste {
			needed = s.needed
			if !s.lacksPast(past) || absent(s) && slices.ContainsFunc(all, func(o peerState) bool { return !absent(o) && o.needed > s.needed }) {
				continue
			}
		}
		if first == 0 || needed < first {
			first = needed
		}
	}
	return first
}

// peers is what a node knows of the histories of the others, and what it says of its own.
type peers struct {
	Peers
	h      *History
	log    *slog.Logger
	origin string
	donor  donor

	mu       sync.Mutex
	others   map[string]peerState
	missing  int64  // of this node
	measured bool   // missing is of this turn
	journals uint64 // of this node
	fetching uint64 // the first message that the copy needs which this node fetches or waits to adopt; 0: none
	under    bool   // a fetch is under way
	failed   error  // why the last fetch failed
	since    time.Time
	attempts int
	next     time.Time // of a fetch
}

func openPeers(h *History, to Peers, origin string, log *slog.Logger) (*peers, error) {
	p := &peers{Peers: to, h: h, log: log, origin: origin, others: map[string]peerState{}, missing: math.MaxInt64}
	p.donor.p = p
	if err := to.Serve(stateSubject, func(data []byte) []byte {
		p.take(data, time.Now())
		return nil
	}); err != nil {
		return nil, err
	}
	return p, to.Serve(copySubject+origin, p.donor.answer)
}

// take takes what another node says.
func (p *peers) take(data []byte, now time.Time) {
	s, ok := decodeState(data)
	if !ok || s.origin == p.origin {
		return
	}
	s.seen = now
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.others[s.origin]; known || len(p.others) < maxPeers {
		p.others[s.origin] = s
	}
}

// own is what this node says.
func (p *peers) own(now time.Time) peerState {
	is := p.h.writer.Status()
	s := peerState{origin: p.origin, needed: is.Message + 1, seen: now, stuck: is.Err != nil && now.Sub(is.Since) > absentFor}
	if is.Known && is.AsOf.UnixMilli() > 0 {
		s.asOf = is.AsOf.UnixMilli()
	}
	s.kept = s.needed
	if donated := p.donor.needs(); donated > 0 {
		s.kept = min(s.kept, donated)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fetching > 0 {
		s.kept = min(s.kept, p.fetching)
	}
	s.missing, s.journals = p.missing, p.journals
	return s
}

// all are this node's state and those of the others that were silent for at most forgetFor.
func (p *peers) all(now time.Time) []peerState {
	list := []peerState{p.own(now)}
	p.mu.Lock()
	defer p.mu.Unlock()
	for origin, s := range p.others {
		if now.Sub(s.seen) > forgetFor {
			delete(p.others, origin)
			continue
		}
		list = append(list, s)
	}
	return list
}

// run says how far this node's history is, and copies another one's file if it has more, until ctx ends.
func (p *peers) run(ctx context.Context) {
	var fetches sync.WaitGroup
	defer fetches.Wait()
	defer p.donor.end()
	turn := func() bool {
		p.measure(ctx)
		now := time.Now()
		own := p.own(now)
		if err := p.Publish(stateSubject, own.encode()); err != nil {
			p.log.Debug("history: could not tell the other nodes how far it is; will retry", "error", err)
		}
		p.donor.expire(now)
		if from, ok := p.chooses(own, now); ok {
			fetches.Go(func() { p.fetched(from, p.fetch(ctx, from)) })
		}
		return true
	}
	turn()
	concurrency.Every(ctx, stateEvery, turn)
}

// measure finds out what this node's history lacks.
func (p *peers) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stateEvery)
	defer cancel()
	p.mu.Lock()
	p.measured = false
	p.mu.Unlock()
	missing, journals := int64(math.MaxInt64), uint64(0)
	if p.h.writer.Status().Known {
		if err := p.h.store.View(ctx, func(v *store.View) error {
			missing, journals = v.Missing(p.h.journal.ID()), uint64(len(v.Journals))
			return nil
		}); err != nil {
			return // what was known stays: the writer reports what is wrong
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing, p.journals, p.measured = missing, journals, true
	if missing < missingMore {
		p.failed, p.since, p.attempts = nil, time.Time{}, 0
	}
}

// better are the histories from which this one could be copied: they lack less, the one that lacks least first.
func (p *peers) better(own peerState, now time.Time) (list []peerState) {
	for _, s := range p.all(now)[1:] {
		if s.asOf > 0 && !s.stuck && now.Sub(s.seen) <= stateFor && s.journals >= own.journals && s.missing < own.missing-missingMore {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b peerState) int { return cmp.Compare(a.missing, b.missing) })
	return list
}

// chooses begins a fetch: it says from whom, if there is somebody and none is under way.
func (p *peers) chooses(own peerState, now time.Time) (from peerState, ok bool) {
	is := p.h.writer.Status()
	if !is.Known || !is.Writes {
		return from, false
	}
	list := p.better(own, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(list) == 0 {
		p.failed = nil // nobody has more
	}
	if len(list) == 0 || !p.measured || p.under || now.Before(p.next) {
		return from, false
	}
	p.under = true
	return list[p.attempts%len(list)], true
}

// Pauses after a fetch, which grow until nothing is missing. Between them come up to as much again, at random: nodes that lack the
// same do not ask at the same time. What a copy would lose it would lose again: it is made again after an hour.
const (
	fetchRetryFirst = time.Second
	fetchRetryMost  = 5 * time.Minute
	fetchRetryLoses = time.Hour
)

// fetched ends a fetch.
func (p *peers) fetched(from peerState, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under, p.fetching = false, 0
	wait := min(fetchRetryFirst<<min(p.attempts, 9), fetchRetryMost)
	if errors.Is(err, store.ErrLoses) {
		wait = fetchRetryLoses
	}
	p.attempts++
	p.next = time.Now().Add(wait + rand.N(wait))
	if err == nil {
		p.failed, p.since, p.missing, p.measured = nil, time.Time{}, math.MaxInt64, false
		return
	}
	if p.failed == nil {
		p.since = time.Now()
	}
	p.failed = err
	p.log.Warn("history: could not copy the history of another node, which has hits that this one lacks; will retry", "from", from.origin, "error", err)
}

// incomplete is why this node lacks hits that another node's history has, and since when; nil: it does not.
func (p *peers) incomplete() (why error, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed, p.since
}
