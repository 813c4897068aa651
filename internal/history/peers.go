package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/history/store"
)

// peers publishes the state of this node's history and compares it with the others'. A node whose SQLite file lacks hits copies the
// file of another node (copy.go).
type peers struct {
	*Others
	h      *History
	log    *slog.Logger
	origin string
	donor  donor // idle if the database is not a SQLite file

	mu       sync.Mutex
	file     peerState            // gaps, known, journals and bytes of this node's file, as last measured
	changed  uint64               // known when gaps changed: a file that is not as far may have fewer gaps only for that reason
	measured bool                 // since the last copy was adopted
	fetching uint64               // the first message that the copy needs which this node fetches or adopts; 0: none
	under    bool                 // a fetch is under way
	failed   error                // why the last fetch failed
	since    time.Time            // of failed
	attempts int                  // since no node had more
	next     time.Time            // of a fetch
	loses    map[string]time.Time // until when a node is not asked whose copy lacked hits, by origin
	other    peerState            // the history of another node that differs from this one; without an origin: none does
	differs  time.Time            // since when one does
}

func openPeers(h *History, to Peers, origin string, log *slog.Logger) (*peers, error) {
	others, err := Watch(to)
	if err != nil {
		return nil, err
	}
	p := &peers{Others: others, h: h, log: log, origin: origin, donor: donor{h: h}, file: peerState{gaps: []span{always}}, loses: map[string]time.Time{}}
	if h.store.File() == "" {
		return p, nil
	}
	for _, suffix := range []string{copySuffix, fetchSuffix} { // of a process that was killed
		if err := remove(h.store.File() + suffix); err != nil {
			return nil, err
		}
	}
	return p, to.Serve(copySubject+origin, p.donor.answer)
}

func (p *peers) own(now time.Time) peerState {
	s := p.h.state(now)
	s.kept = min(s.needed, p.h.Status().Settled+1)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, copied := range []uint64{p.donor.needs(), p.fetching} {
		if copied > 0 {
			s.kept = min(s.kept, copied)
		}
	}
	s.origin, s.gaps, s.known, s.journals, s.bytes = p.origin, p.file.gaps, p.file.known, p.file.journals, p.file.bytes
	return s
}

// run publishes the state, and copies another node's file if it has more, until ctx ends.
func (p *peers) run(ctx context.Context) {
	var fetches sync.WaitGroup
	defer fetches.Wait()
	defer p.donor.end()
	turn := func() bool {
		p.measure(ctx)
		now := time.Now()
		own := p.own(now)
		if err := p.Publish(stateSubject, own.encode()); err != nil {
			p.log.Debug("history: could not publish its state to the other nodes; will retry", "error", err)
		}
		p.donor.expire(now)
		p.compare(own, now)
		if from, ok := p.chooses(own, now); ok {
			fetches.Go(func() { p.fetched(from, p.fetch(ctx, from)) })
		}
		return true
	}
	turn()
	concurrency.Every(ctx, stateEvery, turn)
}

// measure finds out what this node's file lacks. After an error the last result stays: the writer reports what is wrong.
func (p *peers) measure(ctx context.Context) {
	if p.h.store.File() == "" || !p.h.writer.Status().Known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stateEvery)
	defer cancel()
	var file peerState
	if err := p.h.store.View(ctx, func(v *store.View) (err error) {
		file.gaps, file.known, file.journals = spansOf(v, p.h.journal.ID()), v.Of(p.h.journal.ID()).Message, uint64(len(v.Journals))
		file.bytes, err = v.Bytes(ctx)
		return err
	}); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.measured || !slices.Equal(file.gaps, p.file.gaps) {
		p.changed = file.known
	}
	p.file, p.measured = file, true
}

// better are the histories from which this one could be copied, the one that lacks least first. They lack less, and nothing that
// this one has, as of a message at which both know all gaps of this one. A history that began with snapshots has the retention
// before them within bounds only: that counts as lacking, or it would never get what is older.
func (p *peers) better(own peerState, changed uint64, now time.Time) (list []peerState) {
	missing, vague := seconds(own.gaps), slices.Clone(own.gaps)
	if len(vague) > 0 && vague[0].first == 0 {
		vague[0].last += int64(p.h.writer.cfg.Retention / time.Second)
	}
	vague = union(vague)
	for _, s := range p.all(now) {
		if s.origin != p.origin && s.asOf > 0 && !s.stuck && now.Sub(s.seen) <= stateFor && s.journals >= max(own.journals, 1) && s.known >= changed &&
			seconds(s.gaps) < missing-missingMore && seconds(union(slices.Concat(vague, s.gaps))) <= seconds(vague)+missingMore {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b peerState) int { return cmp.Compare(seconds(a.gaps), seconds(b.gaps)) })
	return list
}

// compare looks for a history that lacks hits which this one has, and has hits which this one lacks: neither can be copied. Times of
// which all lack hits count for none.
func (p *peers) compare(own peerState, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.other
	p.other = peerState{}
	if !p.measured {
		return
	}
	for _, s := range p.all(now) {
		missing := seconds(union(slices.Concat(own.gaps, s.gaps))) - missingMore
		if s.origin != p.origin && s.asOf > 0 && now.Sub(s.seen) <= stateFor && min(s.journals, own.journals) > 0 && s.known >= p.changed &&
			missing > seconds(own.gaps) && missing > seconds(s.gaps) && (p.other.origin == "" || s.origin < p.other.origin) {
			p.other = s
		}
	}
	if was.origin == "" {
		p.differs = now
	}
}

// alarms tell that hits are missing which the history of another node has, and that two histories lack different hits.
func (p *peers) alarms() (list []api.Alarm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil && time.Since(p.since) > lateAfter {
		list = append(list, api.Alarm{Code: "history_incomplete", Message: fmt.Sprintf(
			"history lacks hits that another node has, and copying its file fails since %s: %v: answers about these times have no upper bound until it succeeds", p.since.UTC().Format(time.RFC3339), p.failed)})
	}
	if p.other.origin != "" && time.Since(p.differs) > lateAfter {
		list = append(list, api.Alarm{Code: "history_differs", Message: fmt.Sprintf(
			"the histories of %s and %s lack different hits, so that neither is copied: of %s the first lacks some, of %s the second. Answers about these times have no upper bound there: ask the other node",
			p.nodeOf(p.origin), p.nodeOf(p.other.origin), timesOf(p.file.gaps), timesOf(p.other.gaps))})
	}
	return list
}

func (p *peers) nodeOf(origin string) string {
	if p.h.cfg.NodeOf == nil {
		return origin
	}
	return cmp.Or(p.h.cfg.NodeOf(origin), origin)
}

// timesOf are the first and the last of some times, to be read.
func timesOf(spans []span) string {
	at := func(second int64) string { return time.Unix(second, 0).UTC().Format(time.RFC3339) }
	return at(spans[0].first) + " to " + at(spans[len(spans)-1].last)
}

// chooses begins a fetch: it returns the donor, if there is one that fits and no fetch is under way.
func (p *peers) chooses(own peerState, now time.Time) (from peerState, ok bool) {
	is := p.h.writer.Status()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.h.store.File() == "" || !is.Known || !is.Writes || !p.measured || p.under {
		return from, false
	}
	list := p.better(own, p.changed, now)
	if len(list) == 0 { // no node has more
		p.failed = nil
		if now.Sub(p.next) > fetchRetryMost {
			p.attempts = 0
		}
	}
	list = slices.DeleteFunc(list, func(s peerState) bool { return now.Before(p.loses[s.origin]) })
	if len(list) == 0 || now.Before(p.next) {
		return from, false
	}
	from = list[p.attempts%len(list)]
	if err := p.h.fits(from.bytes); err != nil { // the donor need not write a copy to find that out
		p.fails(from, err)
		return from, false
	}
	p.under = true
	return from, true
}

// Pauses after a fetch, which double until no node had more for a while. A random part of up to the same length is added: nodes that
// lack the same do not ask at the same time. A copy that lacks hits of this node would lack them again: its node is asked after an hour.
const (
	fetchRetryFirst = time.Second
	fetchRetryMost  = 5 * time.Minute
	fetchRetryLoses = time.Hour
)

func (p *peers) fetched(from peerState, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under, p.fetching = false, 0
	if err != nil {
		p.fails(from, err)
		return
	}
	p.pause()
	clear(p.loses)
	p.failed, p.file.gaps, p.measured = nil, []span{always}, false
}

// fails notes why no copy was made. The caller holds mu.
func (p *peers) fails(from peerState, err error) {
	p.pause()
	if p.failed == nil {
		p.since = time.Now()
	}
	if p.failed = err; errors.Is(err, store.ErrLoses) {
		maps.DeleteFunc(p.loses, func(_ string, until time.Time) bool { return until.Before(time.Now()) })
		p.loses[from.origin] = time.Now().Add(fetchRetryLoses)
	}
	p.log.Warn("history: could not copy the history of another node, which has hits that this one lacks; will retry", "from", from.origin, "error", err)
}

// pause sets when the next fetch may begin. The caller holds mu.
func (p *peers) pause() {
	wait := min(fetchRetryFirst<<min(p.attempts, 9), fetchRetryMost)
	p.attempts++
	p.next = time.Now().Add(wait + rand.N(wait))
}

// span is a time of which hits may be missing, Unix seconds.
type span struct{ first, last int64 }

// always is the gap of a history that has nothing yet.
var always = span{0, maxSecond}

// missingMore is by how many seconds gaps may differ and count as the same: nodes note a gap at slightly different times.
const missingMore = 3600

// spansOf are the gaps of a file: everything, before it has hits of the journal. More than maxSpans count as one gap from
// the first to the last.
func spansOf(v *store.View, journal string) (spans []span) {
	if !v.Begun(journal) {
		return []span{always}
	}
	for _, g := range v.Gaps {
		spans = append(spans, span{max(g.First.Unix(), 0), max(g.Last.Unix(), 0)})
	}
	if spans = union(spans); len(spans) > maxSpans {
		spans = []span{{spans[0].first, spans[len(spans)-1].last}}
	}
	return spans
}

// union are the same times in order, without overlaps.
func union(spans []span) (merged []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for _, s := range spans {
		if last := len(merged) - 1; last >= 0 && s.first <= merged[last].last {
			merged[last].last = max(merged[last].last, s.last)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

func seconds(spans []span) (n int64) {
	for _, s := range spans {
		n += s.last - s.first
	}
	return n
}
