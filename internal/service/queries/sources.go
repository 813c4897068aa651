package queries

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// This file decides who answers a question about keys: this node's engine, the nodes of its cluster, or all regions. It
// also decides what an answer waits for, and up to which time it is complete.

// Cluster is the nodes that count together: a durable.Journal of many. No method waits longer than its context.
type Cluster interface {
	// Freshness says until when the hits of all nodes are counted here, and of which nodes newer hits may be missing.
	Freshness() api.Freshness
	// Fresh returns when all hits are counted here that any node took before the call. The result upTo is the message
	// of the journal with the last of them; now is the latest of the nodes' clocks. If ctx ends before, the error is an
	// *api.Error of CodeNotFresh.
	Fresh(ctx context.Context) (upTo uint64, now time.Time, err error)
	// Nodes are the nodes that count together, this one included, by name. It asks the others for their clocks, within a second.
	Nodes(ctx context.Context) []api.ClusterNode
	// Unheld is how many partitions no running node holds.
	Unheld() int
	// Remove permanently removes a dead node.
	Remove(ctx context.Context, node string) (api.RemovedAnswer, error)
}

// Regions are the other regions whose hits are added to this region's: a region.Region.
type Regions interface {
	// Region is the name of this one.
	Region() string
	// Read calls f with the engine of each other region that has one here, by name, until f fails. f keeps no engine.
	Read(f func(region string, e *engine.Engine) error) error
	// Regions are all that are known, this one included, by name, and Status is what is known of them, their links and
	// this node's part. Both wait for nobody.
	Regions() []api.Region
	Status() api.RegionsAnswer
	// Feed sends the region named as everything that it lacks, and then what is new, until ctx is done. It sends frames
	// of package internal/region. The region has the digests in have; begun is the bases of which it has the first
	// pieces.
	Feed(ctx context.Context, as, have, begun string, send func(frames []byte) error, flush func() error) error
	// Forget drops all hits of a region.
	Forget(ctx context.Context, region string) error
	// Alarms are what is wrong now.
	Alarms() []api.Alarm
}

// History is the totals that are kept for years: a history.History.
type History interface {
	// Totals are the hits of a key in the spans between bounds, Unix seconds in order, of all
	// hits that were taken until asOf.
	Totals(ctx context.Context, key string, bounds []int64) (totals []engine.Count, asOf time.Time, err error)
	// Unions returns how many different ids a key had in the spans between bounds, of all that were seen until asOf.
	Unions(ctx context.Context, key string, bounds []int64) (ids []api.Distinct, asOf time.Time, err error)
	// Top returns the n keys with the most hits in [from, to), in Unix seconds, most hits first. The keys begin with
	// prefix. The hits include everything taken until asOf.
	Top(ctx context.Context, prefix string, from, to int64, n int) (keys []engine.KeyCount, asOf time.Time, err error)
	// Await returns when all hits that were counted before the call are in.
	Await(ctx context.Context) error
	// Forget deletes what is kept of keys, and reports whether there was any.
	Forget(ctx context.Context, keys ...string) (bool, error)
	// Keys are the first keys that begin with prefix, which is not empty, and sort after another.
	Keys(ctx context.Context, prefix, after string, limit int) ([]string, error)
	// Export calls f with the hits of keys, from n to n+doubt, in each UTC day or slot. The day or slot begins at
	// start. The times from and to are rounded to whole days. An error of f ends the export.
	Export(ctx context.Context, prefix string, from, to time.Time, days bool, f func(key string, start int64, n, doubt uint64) error) error
	// Missing says which times between from and to may lack hits, for people; "": none.
	Missing(ctx context.Context, from, to time.Time) (text string, err error)
	// Alarms are what is wrong now. It waits for nobody.
	Alarms() []api.Alarm
}

// HistoryTimeout bounds a question to history.
const HistoryTimeout = 5 * time.Second

// Sources are all who answer. They may be used by many goroutines.
type Sources struct {
	engine  *engine.Engine
	own     Answers
	cluster Cluster // nil: this node counts alone
	last    concurrency.Value[api.Freshness]
	regions Regions // nil: the server counts for none
	pools   *access.Pools
}

// NewSources returns Sources that answer from own, which asks other nodes, or from the engine if own is nil. cluster
// and regions are nil if there are none.
func NewSources(e *engine.Engine, own Answers, cluster Cluster, regions Regions, places *access.Pools) *Sources {
	s := &Sources{engine: e, own: own, cluster: cluster, regions: regions, pools: places}
	if s.own == nil {
		s.own = held{s}
	}
	return s
}

// Own answers for this region, with what it knows now.
func (s *Sources) Own() Answers { return s.own }

// Held answers from this node's engine alone.
func (s *Sources) Held() Answers { return held{s} }

// Now is the second that questions without a time are asked at. It is the engine's second as a whole, hits of its
// remaining fraction included: a window that ended within a second could not be exact. An engine on event time that has
// seen no hit has no time yet; any answers zero then.
func (s *Sources) Now() time.Time {
	now := s.engine.Now()
	if now.IsZero() {
		now = time.Now()
	}
	return now.Truncate(time.Second)
}

// Wall is the engine's time of day, also where it counts by event time.
func (s *Sources) Wall() time.Time { return s.engine.Wall().Time() }

// MaxBatch bounds the questions of one Batch.
const MaxBatch = 50_000

// Batch answers the questions of a client, MaxBatch at most, in their order.
func (s *Sources) Batch(ctx context.Context, questions []api.CountQuestion) ([]api.Bounds, api.Freshness, error) {
	if len(questions) > MaxBatch {
		return nil, api.Freshness{}, &api.Error{Code: api.CodeTooManyAnswers, Message: fmt.Sprintf("%d questions: ask for at most %d at once", len(questions), MaxBatch)}
	}
	counts, fresh, err := s.own.Counts(ctx, 0, questions, make([]engine.Count, 0, len(questions)))
	if err != nil {
		return nil, fresh, err
	}
	bounds := make([]api.Bounds, len(counts))
	for i := range counts {
		bounds[i] = SourceBounds(&counts[i], &fresh)
	}
	return bounds, fresh, nil
}

// Answers answers questions about keys. It is an engine, or, if each node holds a share of the keys, the router of a
// cluster, which asks other nodes too. Errors are *engine.Error, or the error of ctx. Answers are complete and are not
// changed later.
//
// upTo is a message of the journal (Cluster.Fresh) that this node has applied; answers must include everything up to
// it. If no node that is asked has it in time, the error is api.CodeNotFresh.
type Answers interface {
	// Counts appends to counts an answer for each question. Keys of questions are the caller's, who may change
	// them afterwards: an implementation copies what it keeps longer.
	Counts(ctx context.Context, upTo uint64, questions []api.CountQuestion, counts []engine.Count) ([]engine.Count, api.Freshness, error)
	Series(ctx context.Context, upTo uint64, key string, from, to time.Time, step time.Duration) ([]engine.Point, api.Freshness, error)
	Top(ctx context.Context, upTo uint64, at time.Time, w time.Duration, n int, prefix string) ([]engine.KeyCount, api.Freshness, error)
	Keys(ctx context.Context, upTo uint64, prefix, after string, limit int) ([]string, api.Freshness, error)
	// Distinct returns a copy of the ids of a key, nil if it has none: see engine.Engine.Distinct.
	Distinct(ctx context.Context, upTo uint64, q api.CountQuestion) (set *distinct.Set, gone uint64, fresh api.Freshness, err error)
	Delete(ctx context.Context, key string) (bool, error)
}

// held answers from the engine, which holds all keys and has applied all that is asked for.
type held struct{ s *Sources }

func (h held) Counts(_ context.Context, _ uint64, questions []api.CountQuestion, counts []engine.Count) ([]engine.Count, api.Freshness, error) {
	fresh := h.s.Freshness()
	for i := range questions {
		q := &questions[i]
		c, err := h.s.engine.CountAt(q.At, q.Key, q.Window)
		if err != nil {
			return counts, api.Freshness{}, err
		}
		counts = append(counts, c)
	}
	return counts, fresh, nil
}

func (h held) Series(_ context.Context, _ uint64, key string, from, to time.Time, step time.Duration) ([]engine.Point, api.Freshness, error) {
	fresh := h.s.Freshness()
	points, err := h.s.engine.Series(key, from, to, step)
	return points, fresh, err
}

func (h held) Top(_ context.Context, _ uint64, at time.Time, w time.Duration, n int, prefix string) ([]engine.KeyCount, api.Freshness, error) {
	fresh := h.s.Freshness()
	keys, err := h.s.engine.Top(at, w, n, prefix)
	return keys, fresh, err
}

func (h held) Keys(_ context.Context, _ uint64, prefix, after string, limit int) ([]string, api.Freshness, error) {
	fresh := h.s.Freshness()
	keys, err := h.s.engine.Keys(prefix, after, limit)
	return keys, fresh, err
}

func (h held) Delete(_ context.Context, key string) (bool, error) { return h.s.engine.Delete(key) }

// SourceBounds returns the bounds of a count. While a node is late, there is no upper bound, because nobody knows how
// many of its hits are missing.
//
// The upper bound points into c, which must not change.
func SourceBounds(c *engine.Count, fresh *api.Freshness) api.Bounds {
	b := api.Bounds{Lower: c.Lower, Estimate: c.Estimate}
	if len(fresh.Late) == 0 && c.HasUpper() {
		b.Upper, b.Exact = &c.Upper, c.Exact()
	}
	return b
}

// Within returns what answers a question of a scope, once the hits that it waits for are there.
func (s *Sources) Within(ctx context.Context, scope request.Scope, fresh time.Duration) (Asked, error) {
	regions := s.regions
	switch {
	case scope == request.Node:
		return Asked{sources: s, Answers: held{s}}, nil
	case scope == request.Region || scope == "" && regions == nil:
		return s.Await(ctx, fresh)
	case regions == nil:
		return Asked{}, &api.Error{Code: api.CodeInvalidParameter, Field: "scope", Message: "this server has no region: start it with --region, or use scope=region"}
	}
	since, began := s.Wall(), time.Now()
	a, err := s.Await(ctx, fresh)
	if err != nil {
		return a, err
	}
	if fresh != 0 {
		if err := s.awaitRegions(ctx, since, min(fresh, request.LongestFresh)-time.Since(began)); err != nil {
			return a, err
		}
	}
	a.Answers, a.asOf = &Worldwide{s: s, Answers: a.Answers, asOf: a.asOf}, time.Time{}
	return a, nil
}

// regionsPoll is how often a question that waits for regions looks.
const regionsPoll = 20 * time.Millisecond

// awaitRegions waits until all that other regions took before a time is here, by their clocks.
func (s *Sources) awaitRegions(ctx context.Context, since time.Time, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(within, 0))
	defer cancel()
	poll := time.NewTicker(regionsPoll)
	defer poll.Stop()
	for {
		var missing []string
		for _, r := range s.regions.Regions() {
			if !r.Self && !r.Gone && (!r.Known || r.AsOf.Before(since)) {
				missing = append(missing, r.Region)
			}
		}
		if missing == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return &api.Error{Code: api.CodeNotFresh, Field: "fresh", Missing: missing,
				Message: "hits of other regions are missing: " + strings.Join(missing, ", ") + ". Wait longer, or query without fresh"}
		}
	}
}

// Asked is when a question is asked, and of what.
type Asked struct {
	sources *Sources
	Answers Answers
	present time.Time // zero: of.Now, if a question is about it
	upTo    uint64    // message of the journal that the answers must have; 0: any
	asOf    time.Time // all hits until then are in; zero: as the answer says
	until   time.Time // of fresh; zero: nothing is waited for
}

// Await waits for what a question wants to be in its answer: for within, all hits that any node took before. What is wrong
// with the question itself should be found before.
func (s *Sources) Await(ctx context.Context, within time.Duration) (Asked, error) {
	asked := Asked{sources: s, Answers: s.own}
	if within == 0 {
		return asked, nil
	}
	asked.asOf = s.Wall()
	if s.cluster == nil {
		asked.present = s.Now()
		return asked, nil
	}
	if err := s.pools.Fresh.Enter(access.Caller{}, 1); err != nil {
		return Asked{}, err
	}
	defer s.pools.Fresh.Leave(access.Caller{}, 1)
	asked.until = time.Now().Add(min(within, request.LongestFresh))
	ctx, cancel := context.WithDeadline(ctx, asked.until)
	defer cancel()
	upTo, theirs, err := s.cluster.Fresh(ctx)
	if err != nil {
		return Asked{}, notFresh(err)
	}
	asked.present, asked.upTo = s.latest(theirs), upTo
	return asked, nil
}

// At is the time that a question is about, which field names; zero means now. A time that no hit may have yet is an
// error: its count would still change, so no answer about it is exact.
func (a Asked) At(field string, t time.Time) (time.Time, error) {
	if t.IsZero() {
		return a.now(), nil
	}
	return t, a.sources.notAhead(field, t)
}

// counts asks for counts that include everything that was waited for. Other nodes may take what is left of fresh to have it,
// and answerLeast at least.
func (a *Asked) counts(ctx context.Context, questions []api.CountQuestion, into []engine.Count) ([]engine.Count, api.Freshness, error) {
	if a.upTo > 0 {
		var cancel context.CancelFunc
		ctx, cancel = a.bound(ctx, answerLeast)
		defer cancel()
	}
	return a.Answers.Counts(ctx, a.upTo, questions, into)
}

// bound is ctx for as long as other nodes may take: what is left of fresh, and least at least.
func (a *Asked) bound(ctx context.Context, least time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(least)
	if a.until.After(until) {
		until = a.until
	}
	return context.WithDeadline(ctx, until)
}

// answerLeast is how long other nodes have for an answer in any case.
const answerLeast = time.Second

// now is the time of a question that names none.
func (a Asked) now() time.Time {
	if a.present.IsZero() {
		return a.sources.Now()
	}
	return a.present
}

// notAhead refuses a time after the latest that a hit may have.
func (s *Sources) notAhead(field string, t time.Time) error {
	latest := s.Now()
	if wall := s.Wall(); wall.After(latest) { // the newest hit may be older, where it is what now means
		latest = wall
	}
	if !t.After(latest.Add(s.engine.Config().MaxAhead + time.Second)) {
		return nil
	}
	return &api.Error{Code: api.CodeInvalidParameter, Field: field,
		Message: fmt.Sprintf("%s is in the future, where hits can still come: ask for a time up to now, or leave %s out", t.UTC().Format(time.RFC3339), field)}
}

// latest returns now, or the clock of a node that is ahead, so that the window has that node's hits of this second. It
// is at most MaxAhead after now.
func (s *Sources) latest(theirs time.Time) time.Time {
	now := s.Now()
	if most := now.Add(s.engine.Config().MaxAhead); theirs.After(most) {
		theirs = most
	}
	if theirs.After(now) {
		return theirs.Truncate(time.Second)
	}
	return now
}

// Fresh returns the freshness of an answer, which includes everything that was waited for.
func (a Asked) Fresh(fresh api.Freshness) api.Freshness {
	if a.asOf.IsZero() {
		return fresh
	}
	return api.Freshness{AsOf: api.Millis(a.asOf)}
}

func notFresh(err error) error {
	if _, ok := errors.AsType[*api.Error](err); ok {
		return err
	}
	return &api.Error{Code: api.CodeClosed, Message: "this node is stopping: ask another node"}
}

// freshnessEvery is how old a Freshness may be: it only says too little. The journal may
// be busy with what it missed: then one question waits for it, and not all.
const freshnessEvery = 50 * time.Millisecond

// Freshness says how new the hits are that are counted here. Call it before the counts that it is to describe.
func (s *Sources) Freshness() api.Freshness {
	if s.cluster == nil {
		return api.Freshness{AsOf: api.Millis(s.Wall())}
	}
	return s.last.Get(freshnessEvery, s.cluster.Freshness)
}

// AboutDenial is what a denial of just now knew of other nodes: nothing is allocated where no node is late.
func (s *Sources) AboutDenial(now time.Time) api.DenialKnowledge {
	if s.cluster == nil {
		return api.DenialKnowledge{AsOf: api.Millis(now)}
	}
	fresh := s.Freshness()
	about := api.DenialKnowledge{AsOf: fresh.AsOf}
	for _, late := range fresh.Late {
		about.Late = append(about.Late, late.Node)
	}
	return about
}

// AddReady adds what is to say of other nodes on whether this one is ready.
func (s *Sources) AddReady(a *api.Ready) {
	if s.cluster != nil {
		fresh := s.Freshness()
		a.Freshness = &fresh
	}
}
