package region

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/internal/parallel"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/tail"
	"github.com/weir-counter/weir/region/ledger"
)

var (
	simSeeds = flag.Int("sim.seeds", 60, "how many simulations TestSimulation runs")
	simFirst = flag.Uint64("sim.first", 0, "seed of the first one")
)

// TestSimulation runs the code that digests, appends, feeds and accepts in a world of one seed each: links that lose what is on its way, repeat, delay and
// are cut; owners that crash between two appends, or believe that they are it while another is, appends whose answer is lost; journals
// that are trimmed, and disks that are lost. Once it is healed, all nodes of all regions have the same windows of each, to the byte: those of
// its journal.
func TestSimulation(t *testing.T) {
	t.Parallel()
	var failed atomic.Int64
	var all simTally
	seeds := slices.Clone(simHard)
	for i := range *simSeeds {
		seeds = append(seeds, *simFirst+uint64(i))
	}
	if err := parallel.Do(len(seeds), func(i int) error {
		if failed.Load() < 3 && !simulate(t, seeds[i], &all) {
			failed.Add(1)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d simulations: %d appends, %d refused, %d answers lost, %d crashes, %d cuts, %d epochs, %d bases, %d disks lost", len(seeds),
		all.appends.Load(), all.refused.Load(), all.lost.Load(), all.crashes.Load(), all.cuts.Load(), all.epochs.Load(), all.bases.Load(), all.disks.Load())
}

// simHard are seeds that failed once: two regions passed half a base of a third to and fro.
var simHard = []uint64{920, 1277, 1323}

type simTally struct{ appends, refused, lost, crashes, cuts, epochs, bases, disks atomic.Int64 }

const (
	simPartitions = 2
	simKeys       = 6
)

var simNow = time.Unix(1_000_000, 0)

// simEngine is the configuration of all engines.
func simEngine() weir.Config {
	return weir.Config{
		Partitions: simPartitions, Memory: simPartitions * 64 << 10, LimitMemory: 64 << 10, OnceMemory: 64 << 10, Retention: time.Hour, Gather: true,
		Now: func() time.Time { return simNow },
	}
}

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
	rng, of := j.w.rng, j.w.rng.IntN(len(j.writers))
	if len(j.pending[of]) == 0 {
		e := j.writers[of]
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
		}
		j.pending[of] = e.End(nil)
	}
	part := j.pending[of][0]
	j.messages = append(j.messages, part)
	if rng.IntN(10) > 0 { // else its answer was lost, and it comes again
		j.pending[of] = j.pending[of][1:]
	}
}

// complete ends all flushes that have begun.
func (j *simJournal) complete() {
	for of := range j.pending {
		j.messages = append(j.messages, j.pending[of]...)
		j.pending[of] = nil
	}
}

// engine has what the journal has up to a message, of a partition or of all (below 0), and how far each origin is in it.
func (j *simJournal) engine(upTo uint64, only int) (*weir.Engine, map[uint64]record.OriginPosition, tail.FlushPosition) {
	e, err := weir.New(simEngine())
	if err != nil {
		j.w.t.Fatal(err)
	}
	to, t, at := replica.NewHolding(e), tail.NewFlushes(tail.FlushPosition{}), map[uint64]record.OriginPosition{}
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
				of := at[p.Origin]
				of.Origin, of.Position = p.Origin, record.Position{Epoch: p.Epoch, Seq: b.Seq, Total: b.Total}
				at[p.Origin] = of
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
		replication.Of(e).Cut(partition, &cut, true)
		snap := record.Snapshot{Incarnation: record.Incarnation{Origin: 1, Epoch: 1}, Partition: partition, From: where.After, State: slices.Clone(cut.State)}
		for origin, head := range where.Heads { // flushes after a place where one is not whole are in the state, and their heads are told of From
			of := at[origin]
			of.Origin = origin
			if whole := j.heads(where.After)[origin]; whole != (record.Head{}) {
				of.Head = whole
			}
			_ = head
			snap.Positions = append(snap.Positions, of)
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
	t := tail.NewFlushes(tail.FlushPosition{})
	for i := range upTo {
		p, _ := record.DecodePart(j.messages[i])
		t.Take(i+1, p)
	}
	return t.Position().Heads
}

func (j *simJournal) ID() uint64         { return j.id }
func (j *simJournal) Joined() *join.Node { return nil }

func (j *simJournal) Bounds(context.Context) (first, last uint64, err error) {
	return j.first, j.last(), nil
}

func (j *simJournal) Moment(context.Context) (uint64, time.Time, []replica.OriginStatus, error) {
	return j.last(), simNow, nil, nil
}

func (j *simJournal) ReadFlushes(_ context.Context, t *tail.Flushes, upTo uint64, f func([]record.Part) error) error {
	if t.Next() <= upTo && t.Next() < j.first {
		return journal.ErrTrimmed
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

// simStore is the log of a region.
type simStore struct {
	w        *simWorld
	region   int
	first    uint64
	messages [][]byte
	acting   *Region // who writes
	inside   bool    // another one does, meanwhile
}

var (
	errSimLost  = errors.New("the answer was lost")
	errSimCrash = errors.New("the process crashed")
)

func (s *simStore) bounds(context.Context) (first, last, bytes uint64, err error) {
	return s.first, uint64(len(s.messages)), 0, nil
}

func (s *simStore) append(ctx context.Context, after uint64, data []byte) (uint64, error) {
	rng := s.w.rng
	if other := s.w.regions[s.region].nodes[rng.IntN(2)]; s.w.harm && !s.inside && other != nil && other != s.acting && rng.IntN(30) == 0 { // another node believes that it is the owner
		s.inside = true
		if other.follow(ctx) == nil {
			_ = other.write(ctx)
		}
		s.inside = false
	}
	if s.w.harm && rng.IntN(60) == 0 {
		return 0, errSimCrash
	}
	if after != uint64(len(s.messages)) {
		s.w.tally.refused.Add(1)
		return 0, errBehind
	}
	s.w.tally.appends.Add(1)
	s.messages = append(s.messages, data)
	if s.w.harm && rng.IntN(30) == 0 {
		s.w.tally.lost.Add(1)
		return 0, errSimLost
	}
	return uint64(len(s.messages)), nil
}

func (s *simStore) get(_ context.Context, sequence uint64, _ bool) ([]byte, error) {
	if sequence < s.first || sequence > uint64(len(s.messages)) {
		return nil, errNoMessage
	}
	return s.messages[sequence-1], nil
}

func (s *simStore) trim(_ context.Context, upTo uint64) error {
	s.first = max(s.first, upTo+1)
	return nil
}

// simRegion is a region of two nodes.
type simRegion struct {
	name    string
	journal *simJournal
	log     *simStore
	nodes   [2]*Region
	links   []*simLink
}

// simLink is what one region pulls from another.
type simLink struct {
	number   int
	from     int
	feed     *feed // nil: it is down
	parts    assembler
	underWay [][]byte
}

type simWorld struct {
	t       *testing.T
	rng     *rand.Rand
	harm    bool
	tally   *simTally
	regions []*simRegion
	keys    [simPartitions][]string
	clock   time.Time
}

func simulate(t *testing.T, seed uint64, tally *simTally) bool {
	w := &simWorld{t: t, rng: rand.New(rand.NewPCG(seed, 3)), harm: true, tally: tally, clock: simNow}
	w.nameKeys()
	w.build(2+w.rng.IntN(3), w.rng.IntN(simMesh+1))
	for range 150 + w.rng.IntN(150) {
		w.step()
	}
	w.harm = false
	for _, r := range w.regions {
		r.journal.complete()
	}
	for range 12 { // rounds that reach from one end of the links to the other
		w.clock = w.clock.Add(time.Minute)
		for i := range w.regions {
			w.act(i)
			w.drain(i)
		}
	}
	return w.check(seed)
}

// nameKeys finds keys of each partition.
func (w *simWorld) nameKeys() {
	e, err := weir.New(simEngine())
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	for i := 0; len(w.keys[0]) < simKeys || len(w.keys[1]) < simKeys; i++ {
		key := fmt.Sprint("k", i)
		partition := replication.Of(e).PartitionOf(key)
		w.keys[partition] = append(w.keys[partition], key)
	}
}

// Shapes of links.
const (
	simRing = iota
	simStar
	simMesh
)

func (w *simWorld) build(n, shape int) {
	for i := range n {
		r := &simRegion{name: string(rune('a' + i)), journal: newSimJournal(w)}
		r.log = &simStore{w: w, region: i, first: 1}
		for j := range n {
			ring, star, mesh := j == (i+1)%n, i == 0 || j == 0, true
			if i != j && []bool{simRing: ring, simStar: star, simMesh: mesh}[shape] {
				r.links = append(r.links, &simLink{number: len(r.links), from: j})
			}
		}
		w.regions = append(w.regions, r)
	}
	for i := range n {
		w.restart(i, 0)
		w.restart(i, 1)
	}
}

// restart begins the life of a node.
func (w *simWorld) restart(region, node int) {
	r := w.regions[region]
	cfg := Config{Name: r.name, Memory: simPartitions * 64 << 10, LogBytes: 1}.WithDefaults()
	for _, l := range r.links {
		cfg.Links = append(cfg.Links, Link{Region: string(rune('a' + l.from))})
	}
	n := newRegion(cfg, r.journal, r.log, simEngine())
	n.cfg.LogBytes = 8 * 1500 // a base is due soon
	n.now = func() time.Time { return w.clock }
	n.owner.begin(time.Now(), true)
	if err := n.load(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if was := r.nodes[node]; was != nil {
		_ = was.views.Close()
	}
	r.nodes[node] = n
	for _, l := range r.links {
		l.feed = nil
	}
	for _, other := range w.regions { // who pulled from it does so no more
		for _, l := range other.links {
			if l.from == region {
				l.feed, l.underWay = nil, nil
			}
		}
	}
}

func (w *simWorld) step() {
	w.clock = w.clock.Add(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
	i := w.rng.IntN(len(w.regions))
	r := w.regions[i]
	switch w.rng.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		for range 1 + w.rng.IntN(4) {
			r.journal.write()
		}
	case 6, 7, 8, 9:
		w.act(i)
	case 10, 11, 12, 13, 14:
		w.pull(i)
	case 15:
		if w.rng.IntN(3) == 0 {
			r.journal.snapshot()
		}
	case 16:
		w.tally.crashes.Add(1)
		w.restart(i, w.rng.IntN(2))
	case 17:
		if l := r.links[w.rng.IntN(len(r.links))]; l.feed != nil {
			w.tally.cuts.Add(1)
			l.feed, l.underWay, l.parts = nil, nil, assembler{}
		}
	case 18: // the same comes again by a link that was opened anew
		if l := r.links[w.rng.IntN(len(r.links))]; l.feed != nil && len(l.underWay) > 0 {
			w.take(i, l, l.underWay[0])
		}
	case 19:
		if w.rng.IntN(25) == 0 { // all disks of the region are lost
			w.tally.disks.Add(1)
			r.journal = newSimJournal(w)
			*r.log = simStore{w: w, region: i, first: 1}
			for node := range r.nodes {
				r.nodes[node] = nil
				w.restart(i, node)
			}
		}
	}
}

// act has a node of a region write.
func (w *simWorld) act(region int) {
	r := w.regions[region]
	node := w.rng.IntN(2)
	n := r.nodes[node]
	epoch := n.ledger.Region(r.name)
	r.log.acting = n
	err := n.follow(context.Background())
	if err == nil {
		err = n.write(context.Background())
	}
	if now := n.ledger.Region(r.name); now != nil && (epoch == nil || epoch.Epoch != now.Epoch) {
		w.tally.epochs.Add(1)
	}
	if errors.Is(err, errSimCrash) {
		w.tally.crashes.Add(1)
		w.restart(region, node)
	} else if err != nil && !errors.Is(err, errSimLost) && !errors.Is(err, errBehind) && !errors.Is(err, errBegun) && !errors.Is(err, errRound) {
		w.t.Errorf("region %s: %v", r.name, err)
	}
}

// pull has a link of a region bring something.
func (w *simWorld) pull(region int) {
	r := w.regions[region]
	l := r.links[w.rng.IntN(len(r.links))]
	w.fill(region, l)
	for range 1 + w.rng.IntN(8) {
		if l.feed == nil || len(l.underWay) == 0 {
			return
		}
		data := l.underWay[0]
		l.underWay = l.underWay[1:]
		w.take(region, l, data)
	}
}

// fill has what the other region's log has on its way.
func (w *simWorld) fill(region int, l *simLink) {
	r, from := w.regions[region], w.regions[l.from].nodes[w.rng.IntN(2)]
	if l.feed == nil {
		have := r.nodes[0].ledger.Have()
		l.feed = &feed{r: from, as: r.name, sent: maps.Clone(have), own: have[r.name]}
		l.feed.send = func(frames []byte) error { return nil }
		l.underWay, l.parts = nil, assembler{}
		if err := from.follow(context.Background()); err != nil {
			w.t.Fatal(err)
		}
		l.feed.begin()
	}
	if err := l.feed.r.follow(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	for l.feed.at < l.feed.r.ledger.Next() {
		if err := l.feed.one(context.Background()); err != nil { // trimmed meanwhile
			l.feed = nil
			return
		}
		l.underWay = append(l.underWay, frames(w.t, l.feed.frames)...)
		l.feed.frames = nil
	}
}

// frames takes frames apart.
func frames(t *testing.T, b []byte) (list [][]byte) {
	for len(b) > 0 {
		size, n := uint64(0), 0
		for shift := 0; ; shift += 7 {
			c := b[n]
			n++
			size |= uint64(c&0x7f) << shift
			if c < 0x80 {
				break
			}
		}
		list = append(list, b[n:n+int(size)])
		b = b[n+int(size):]
	}
	return list
}

// take has the region's owner take what a link brought.
func (w *simWorld) take(region int, l *simLink, data []byte) {
	o, whole, err := l.parts.add(data)
	if err == nil && whole {
		o.link = l.number
		n := w.regions[region].nodes[0]
		w.regions[region].log.acting = n
		n.links[l.number].running.Store(true)
		if err = n.follow(context.Background()); err == nil {
			err = n.accept(context.Background(), o)
		}
	}
	if errors.Is(err, errSimCrash) {
		w.restart(region, 0)
	}
	if err != nil { // the link is opened anew
		l.feed, l.underWay, l.parts = nil, nil, assembler{}
		w.regions[region].nodes[0].links[l.number].running.Store(false)
	}
}

// drain takes all that links have.
func (w *simWorld) drain(region int) {
	for _, l := range w.regions[region].links {
		for range 3 {
			w.fill(region, l)
			for l.feed != nil && len(l.underWay) > 0 {
				data := l.underWay[0]
				l.underWay = l.underWay[1:]
				w.take(region, l, data)
			}
		}
	}
}

// check compares the windows of all nodes with the journals.
func (w *simWorld) check(seed uint64) bool {
	good := true
	fail := func(format string, args ...any) {
		w.t.Errorf("seed %d: %s", seed, fmt.Sprintf(format, args...))
		good = false
	}
	for _, of := range w.regions {
		want, _, _ := of.journal.engine(of.journal.last(), -1)
		for _, r := range w.regions {
			for i, n := range r.nodes {
				if err := n.follow(context.Background()); err != nil {
					fail("%v", err)
				}
				known := n.ledger.Region(of.name)
				if known == nil {
					fail("node %d of %s knows nothing of %s", i, r.name, of.name)
					continue
				}
				if known.Audit.Wrong > 0 {
					fail("node %d of %s: %d batches of %s do not go on", i, r.name, known.Audit.Wrong, of.name)
				}
				if of == r {
					continue
				}
				var got *weir.Engine
				if err := n.views.Read(func(name string, e *weir.Engine) error {
					if name == of.name {
						got = e
					}
					return nil
				}); err != nil || got == nil {
					fail("node %d of %s has no windows of %s, %v", i, r.name, of.name, err)
					continue
				}
				if a, b := contentOf(w, want), contentOf(w, got); a != b {
					fail("node %d of %s counts for %s\n got %s\nwant %s", i, r.name, of.name, b, a)
				}
			}
		}
		_ = want.Close()
	}
	for _, r := range w.regions {
		for _, n := range r.nodes {
			w.tally.bases.Add(int64(countBases(n.ledger)))
			if err := n.views.Close(); err != nil {
				fail("%v", err)
			}
		}
	}
	return good
}

func countBases(l *ledger.Ledger) (n int) {
	for _, name := range l.Regions() {
		n += l.Region(name).Bases()
	}
	return n
}

// contentOf is all that an engine has, key by key, by the bytes of its windows.
func contentOf(w *simWorld, e *weir.Engine) string {
	text := ""
	for partition := range simPartitions {
		var cut replication.Cut
		replication.Of(e).Cut(partition, &cut, true)
		s, err := replication.ReadState(cut.State)
		if err != nil {
			w.t.Fatal(err)
		}
		total, _ := s.Total.MarshalBinary()
		text += fmt.Sprintf("partition %d: %x", partition, total)
		slices.SortFunc(s.Keys, func(a, b replication.KeyWindow) int {
			if a.Key < b.Key {
				return -1
			}
			return 1
		})
		for i := range s.Keys {
			window, _ := s.Keys[i].Window.MarshalBinary()
			text += fmt.Sprintf(" %s=%x", s.Keys[i].Key, window)
		}
	}
	return text
}

var _ Journal = (*simJournal)(nil)
