package region

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

var (
	fleetCells   = flag.Int("fleet.cells", 3, "cells of TestFleet")
	fleetNodes   = flag.Int("fleet.nodes", 3, "nodes of each cell")
	fleetKeys    = flag.Int("fleet.keys", 50, "active keys of each cell, the same in all")
	fleetHits    = flag.Int("fleet.hits", 100, "hits a second at each node")
	fleetSeconds = flag.Int("fleet.seconds", 3, "seconds that are simulated")
	fleetRTT     = flag.Duration("fleet.rtt", 80*time.Millisecond, "round trip between regions")
	fleetRate    = flag.Float64("fleet.rate", 12.5e6, "bytes a second that a link takes")
	fleetAppend  = flag.Duration("fleet.append", 2*time.Millisecond, "time that a region's log takes to have a message on disk")
	fleetOut     = flag.String("fleet.out", "", "file that TestFleet writes its tables to")
)

// TestFleet runs a tree of two levels in one process: cells of many nodes each, and a region above that has links to all of them, and they to
// it. The code that digests, feeds, appends and counts is the real one; nodes are what they write to their cell's journal, time and links are
// simulated. It measures what travels on each link, the processor's time of whoever adds up, and how old what is known of other cells is; and it
// checks that the region above and a cell have counted every hit of the others.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for f.tick < 10**fleetSeconds {
		f.step()
	}
	for _, c := range f.cells { // what is left of the last second
		f.digest(c)
	}
	f.check()
	page := f.page()
	t.Log("\n" + page)
	if *fleetOut != "" {
		if err := os.WriteFile(*fleetOut, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fleet is a tree of two levels.
type fleet struct {
	t     testing.TB
	rng   *rand.Rand
	tick  int // of 100 ms
	cells []*fleetCell
	top   *fleetCell // the region above
	keys  []fleetKey
	under map[*feed][]byte // on their way
	busy  time.Time        // until when the region above is at work
	early time.Time        // and the first cell

	accepts, feeds, follows time.Duration // processor's time of the region above, and of the first cell
	entries                 uint64        // of digests
	above, beside           []time.Duration
}

// fleetKey is a key and its partition.
type fleetKey struct {
	key       string
	partition int
}

// fleetCell is a region of many nodes.
type fleetCell struct {
	*Region
	journal  *fleetJournal
	number   int
	phase    int             // in which tick of a second it digests
	hits     uint64          // of its nodes
	ticks    []int           // whose hits the next digest has
	up, down uint64          // bytes that its link to the region above took, and the other
	from, to *feed           // of the region above, of this one
	parts    [2]assembler    // of what comes up, and down
	cpu      []time.Duration // of each digest
}

const fleetPartitions = 256

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, rng: newFleetRand(), under: map[*feed][]byte{}}
	f.nameKeys()
	f.top = f.cell(0, 0)
	for i := range *fleetCells {
		f.cells = append(f.cells, f.cell(i+1, *fleetNodes))
	}
	for _, c := range append([]*fleetCell{f.top}, f.cells...) {
		f.must(c.write(context.Background())) // begins the epoch
	}
	for _, c := range f.cells {
		c.to = f.feed(c.Region, f.top.Region)
		c.from = f.feed(f.top.Region, c.Region)
		f.pass(c, f.now())
	}
	for _, c := range f.cells {
		f.drain(c.from)
		f.take(c, f.top, &c.parts[1], f.frames(c.from, &c.down))
		c.up, c.down = 0, 0
	}
	f.accepts, f.feeds, f.follows = 0, 0, 0
	return f
}

func newFleetRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// nameKeys finds the partition of each key.
func (f *fleet) nameKeys() {
	e, err := engine.New(engine.Config{Partitions: fleetPartitions})
	f.must(err)
	for i := range *fleetKeys {
		key := fmt.Sprintf("user:%08d", i)
		f.keys = append(f.keys, fleetKey{key, e.Keyspace().PartitionOf(key)})
	}
	_ = e.Close()
}

func (f *fleet) cell(number, nodes int) *fleetCell {
	c := &fleetCell{number: number, phase: f.rng.IntN(10), journal: &fleetJournal{f: f, id: f.rng.Uint64()}}
	for i := range nodes {
		e := record.NewEncoder(record.Incarnation{Origin: f.rng.Uint64(), Epoch: 1}, fleetPartitions)
		e.Node = fmt.Sprint("n", i)
		c.journal.writers = append(c.journal.writers, e)
	}
	cfg := Config{Name: cellName(number), Links: []Link{{Region: cellName(0)}}}.WithDefaults()
	if number == 0 {
		cfg.Links = nil
		for i := range *fleetCells {
			cfg.Links = append(cfg.Links, Link{Region: cellName(i + 1)})
		}
	}
	log := &fleetLog{}
	c.Region = newRegion(cfg, c.journal, log, engine.Config{Partitions: fleetPartitions, Memory: 64 << 20, Retention: time.Hour, Gather: true, Now: f.now})
	c.now = f.now
	f.must(c.load(context.Background()))
	return c
}

// cellName is that of a cell, from 1 on, or of the region above.
func cellName(number int) string {
	if number == 0 {
		return "all"
	}
	return fmt.Sprintf("cell-%02d", number)
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) now() time.Time { return simNow.Add(time.Duration(f.tick) * 100 * time.Millisecond) }

// feed is what one region sends another, from now on.
func (f *fleet) feed(from, to *Region) *feed {
	have := to.ledger.Have()
	made := &feed{r: from, as: to.cfg.Name, sent: have, own: have[to.cfg.Name], begun: to.ledger.Begun()}
	made.send = func(frames []byte) error {
		f.under[made] = append(f.under[made], frames...)
		return nil
	}
	made.begin()
	return made
}

// step is 100 ms: each node writes a flush, and the cells whose turn it is write digests.
func (f *fleet) step() {
	for _, c := range f.cells {
		c.journal.write(c)
		c.ticks = append(c.ticks, f.tick)
	}
	f.tick++
	for _, c := range f.cells {
		if f.tick%10 == c.phase {
			f.digest(c)
		}
	}
}

// digest has a cell write its digest, which goes up, and down to the others.
func (f *fleet) digest(c *fleetCell) {
	var took time.Duration
	f.entries += uint64(c.journal.waiting)
	c.journal.waiting = 0
	cpu(&took, func() { f.must(c.write(context.Background())) })
	c.cpu = append(c.cpu, took)
	f.pass(c, f.now().Add(took+*fleetAppend))
	c.journal.messages, c.journal.first = nil, c.journal.last+1
	c.ticks = nil
}

// pass has a digest that was written at a time go to the region above, and from there to the cells.
func (f *fleet) pass(c *fleetCell, at time.Time) {
	var sent, took time.Duration
	cpu(&sent, func() { f.drain(c.to) })
	bytes := f.frames(c.to, &c.up)
	arrived := later(at.Add(sent+*fleetRTT/2+f.time(len(bytes))), f.busy)
	cpu(&took, func() { f.take(f.top, c, &c.parts[0], bytes) })
	f.accepts += took
	f.busy = arrived.Add(took + *fleetAppend)
	f.lag(&f.above, c, f.busy)
	for _, other := range f.cells {
		if other.from == nil {
			continue
		}
		sent = 0
		cpu(&sent, func() { f.drain(other.from) })
		f.feeds += sent
		bytes := f.frames(other.from, &other.down)
		if other != f.cells[0] || other == c {
			continue // each takes the same: one does
		}
		took = 0
		cpu(&took, func() { f.take(other, f.top, &other.parts[1], bytes) })
		f.follows += took
		f.early = later(f.busy.Add(sent+*fleetRTT/2+f.time(len(bytes))), f.early).Add(took + *fleetAppend)
		f.lag(&f.beside, c, f.early)
	}
}

// lag notes how old each hit of a digest is that is known at a time.
func (f *fleet) lag(to *[]time.Duration, c *fleetCell, known time.Time) {
	for _, tick := range c.ticks {
		for part := range time.Duration(5) {
			*to = append(*to, known.Sub(simNow)-time.Duration(tick)*100*time.Millisecond-part*20*time.Millisecond-10*time.Millisecond)
		}
	}
}

func (f *fleet) time(bytes int) time.Duration {
	return time.Duration(float64(bytes) / *fleetRate * float64(time.Second))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// drain has a feed send what its log has.
func (f *fleet) drain(from *feed) {
	for from.at < from.r.ledger.Next() {
		f.must(from.one(context.Background()))
	}
}

// frames are what a feed has sent.
func (f *fleet) frames(from *feed, bytes *uint64) []byte {
	f.must(from.flush())
	sent := f.under[from]
	delete(f.under, from)
	*bytes += uint64(len(sent))
	return sent
}

// take has a region take what a link brought.
func (f *fleet) take(to, from *fleetCell, parts *assembler, sent []byte) {
	for _, data := range frames(f.t, sent) {
		o, whole, err := parts.add(data)
		f.must(err)
		if whole {
			o.link = max(0, from.number-1)
			if region := o.messages[0].Region; to == f.top && region != from.cfg.Name {
				f.t.Errorf("%s sends digests of %s back to where it has them from", from.cfg.Name, region)
			}
			if err := to.accept(context.Background(), o); err != nil {
				m := o.messages[0]
				f.t.Fatalf("%s takes of %s: digest %d of %s, has %d: %v", to.cfg.Name, from.cfg.Name, m.Seq, m.Region, to.ledger.Region(m.Region).Seq, err)
			}
		}
	}
}

// cpu adds the processor's time that f takes.
func cpu(to *time.Duration, f func()) {
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before) // of this process it never fails
	f()
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	*to += time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
}

// check counts what the region above, and the first cell, have of each other.
func (f *fleet) check() {
	for _, at := range []*fleetCell{f.top, f.cells[0]} {
		got := map[string]uint64{}
		f.must(at.Read(func(region string, e *engine.Engine) error {
			c, err := e.CountAt(f.now(), "*", time.Hour)
			got[region] = c.Lower
			return err
		}))
		for _, c := range f.cells {
			if c != at && got[c.cfg.Name] != c.hits {
				f.t.Errorf("%s counts %d hits of %s, want %d", at.cfg.Name, got[c.cfg.Name], c.cfg.Name, c.hits)
			}
		}
	}
}

// page is the figures.
func (f *fleet) page() string {
	b, seconds := new(strings.Builder), float64(*fleetSeconds)
	share := func(d time.Duration) string { return fmt.Sprintf("%.1f %%", 100*d.Seconds()/seconds) }
	fmt.Fprintf(b, "%d cells of %d nodes, %d hits/s on each, over %d keys; round trip %v, %.0f MB/s a link; %d s\n\n", *fleetCells, *fleetNodes, *fleetHits, *fleetKeys, *fleetRTT, *fleetRate/1e6, *fleetSeconds)
	fmt.Fprintln(b, "| link | bytes/s up, from the cell | bytes/s down, to it |\n|---|---|---|")
	var ups, downs []uint64
	var digests []time.Duration
	for _, c := range f.cells {
		fmt.Fprintf(b, "| %s | %.0f | %.0f |\n", c.cfg.Name, float64(c.up)/seconds, float64(c.down)/seconds)
		ups, downs, digests = append(ups, c.up), append(downs, c.down), append(digests, c.cpu...)
	}
	fmt.Fprintf(b, "| all | %.0f | %.0f |\n\n", float64(sum(ups))/seconds, float64(sum(downs))/seconds)
	var all time.Duration
	for _, d := range digests {
		all += d
	}
	flushed := seconds * float64(*fleetCells**fleetNodes**fleetHits)
	fmt.Fprintln(b, "| processor's time, of one core | |\n|---|---|")
	fmt.Fprintf(b, "| the digests of a cell | %s, %.0f ns per entry of its nodes |\n", share(all/time.Duration(*fleetCells)), float64(all.Nanoseconds())/float64(f.entries))
	fmt.Fprintf(b, "| the region above: takes and counts all digests | %s |\n", share(f.accepts))
	fmt.Fprintf(b, "| the region above: sends them to %d cells | %s |\n", *fleetCells, share(f.feeds))
	fmt.Fprintf(b, "| a node of a cell: takes and counts all others' | %s |\n\n", share(f.follows))
	fmt.Fprintln(b, "| age of a hit of another cell, when it counts | p50 | p99 | longest |\n|---|---|---|---|")
	for _, row := range []struct {
		name string
		lags []time.Duration
	}{{"in the region above", f.above}, {"in a cell", f.beside}} {
		slices.Sort(row.lags)
		n := len(row.lags)
		fmt.Fprintf(b, "| %s | %v | %v | %v |\n", row.name, row.lags[n/2].Round(time.Millisecond), row.lags[n*99/100].Round(time.Millisecond), row.lags[n-1].Round(time.Millisecond))
	}
	var memory int64
	f.must(f.top.Read(func(_ string, e *engine.Engine) error {
		memory += e.Stats().Bytes
		return nil
	}))
	fmt.Fprintf(b, "\nmemory of all cells' windows in the region above: %d MB; %.0f hits, %.0f entries of nodes a second\n", memory>>20, flushed/seconds, float64(f.entries)/seconds)
	return b.String()
}

func sum(list []uint64) (n uint64) {
	for _, one := range list {
		n += one
	}
	return n
}

// fleetJournal is the journal of a cell.
type fleetJournal struct {
	f        *fleet
	id       uint64
	writers  []*record.Encoder
	messages [][]byte // from first on
	first    uint64
	last     uint64
	waiting  int // entries that no digest has
}

// write has each node write a flush of 100 ms.
func (j *fleetJournal) write(c *fleetCell) {
	rng, at := j.f.rng, j.f.now().Unix()
	if j.first == 0 {
		j.first = 1
	}
	for _, e := range j.writers {
		e.Begin(j.f.now())
		lists := make([][]replication.Delta, fleetPartitions)
		for range *fleetHits / 10 {
			key := j.f.keys[rng.IntN(len(j.f.keys))]
			lists[key.partition] = append(lists[key.partition], replication.Delta{Key: key.key, At: at, N: 1})
			c.hits++
		}
		for partition, list := range lists {
			if len(list) > 0 {
				e.Add(partition, list)
				j.waiting += len(list)
			}
		}
		for _, part := range e.End(nil) {
			j.messages = append(j.messages, slices.Clone(part))
			j.last++
		}
	}
}

func (j *fleetJournal) ID() uint64              { return j.id }
func (j *fleetJournal) Joined() *transport.Node { return nil }

func (j *fleetJournal) Bounds(context.Context) (first, last uint64, err error) {
	return max(j.first, 1), j.last, nil
}

func (j *fleetJournal) Moment(context.Context) (uint64, time.Time, []replica.OriginStatus, error) {
	return j.last, j.f.now(), nil, nil
}

func (j *fleetJournal) ReadFlushes(_ context.Context, t *replica.TailFlushes, upTo uint64, f func([]record.Part) error) error {
	for t.Next() <= upTo {
		message := t.Next()
		p, err := record.DecodePart(j.messages[message-j.first])
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

func (j *fleetJournal) StoredSnapshots(context.Context, int) ([]record.StoredSnapshot, error) {
	return nil, nil
}

func (j *fleetJournal) ReadSnapshot(context.Context, record.StoredSnapshot) (record.Snapshot, error) {
	return record.Snapshot{}, record.ErrDamaged
}

// fleetLog is a region's log, in memory.
type fleetLog struct{ messages []entry }

func (l *fleetLog) bounds(context.Context) (first, last uint64, err error) {
	return 1, uint64(len(l.messages)), nil
}

func (l *fleetLog) append(_ context.Context, _ uint64, m entry) (uint64, error) {
	l.messages = append(l.messages, m)
	return uint64(len(l.messages)), nil
}

func (l *fleetLog) get(_ context.Context, sequence uint64, _ bool) (entry, error) {
	if sequence > uint64(len(l.messages)) {
		return entry{}, errNoMessage
	}
	return l.messages[sequence-1], nil
}

func (l *fleetLog) trim(context.Context, uint64) error { return nil }

var (
	_ Journal = (*fleetJournal)(nil)
	_ store   = (*fleetLog)(nil)
)
