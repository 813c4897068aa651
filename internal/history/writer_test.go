package history_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

const retention = 4 * 365 * 24 * time.Hour

// journal is one in memory, of a real engine and replica.
type journal struct {
	id      string // "": journal
	grown   bool
	engine  *engine.Engine
	replica *replica.Replica
	now     time.Time

	mu       sync.Mutex
	messages [][]byte // the first has sequence 1
	first    uint64
	snaps    []*record.Snapshot
	asOf     time.Time
	truth    map[string]map[int64]uint64 // by key and hour
}

func newJournal(t *testing.T) *journal {
	t.Helper()
	e, err := engine.New(engine.Config{Gather: true, Clock: engine.EventClock, Retention: retention, Memory: 64 << 20, Partitions: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	j := &journal{engine: e, replica: replica.New(e, 1, "", false), first: 1, now: time.Now(), snaps: make([]*record.Snapshot, 16), truth: map[string]map[int64]uint64{}}
	j.replica.Begin(record.Incarnation{Origin: 1, Epoch: 1})
	return j
}

func (j *journal) ID() string      { return cmp.Or(j.id, "journal") }
func (j *journal) Partitions() int { return len(j.snaps) }

func (j *journal) Written() (uint64, time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return uint64(len(j.messages)), j.asOf
}

func (j *journal) Bounds(context.Context) (first, last, bytes uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.first, uint64(len(j.messages)), 0, nil
}

func (j *journal) Requests(context.Context) (list []record.SeenRequest, upTo uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if snap := j.snaps[0]; snap != nil {
		return snap.Requests, snap.From, nil
	}
	return nil, 0, nil
}

func (j *journal) Read(ctx context.Context, from, last uint64, f func(uint64, []byte) error) error {
	for sequence := from; sequence <= last; sequence++ {
		data, err := j.Get(ctx, sequence)
		if err != nil {
			return err
		}
		if err := f(sequence, data); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) Get(_ context.Context, sequence uint64) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if sequence < j.first {
		return nil, errors.New("trimmed")
	}
	return j.messages[sequence-1], nil
}

func (j *journal) Grown(context.Context) (bool, error) { return j.grown, nil }

func (j *journal) NewestSnapshots(_ context.Context, f func(int, *record.Snapshot) error) error {
	for partition, snap := range j.snaps {
		j.mu.Lock()
		is := snap
		if snap != nil {
			one := *snap
			is = &one
		}
		j.mu.Unlock()
		if err := f(partition, is); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) hit(t *testing.T, key string, at int64, n uint64) {
	t.Helper()
	if _, err := j.engine.HitAt(time.Unix(at, 0), key, n); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{key, engine.AllKeys} {
		if j.truth[key] == nil {
			j.truth[key] = map[int64]uint64{}
		}
		j.truth[key][at-at%3600] += n
	}
}

func (j *journal) remove(t *testing.T, key string) {
	t.Helper()
	if _, err := j.engine.Delete(key); err != nil {
		t.Fatal(err)
	}
	delete(j.truth, key)
}

// flush writes what was counted; with snapshots it takes those of all partitions.
func (j *journal) flush(snapshots bool) {
	states := map[int]bool{}
	for partition := range j.snaps {
		states[partition] = snapshots
	}
	j.now = j.now.Add(time.Second)
	f := j.replica.Cut(j.now, replica.CutOptions{States: states})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.messages = append(j.messages, f.Parts...)
	for i := range f.Snaps {
		snap := f.Snaps[i]
		snap.From = uint64(len(j.messages)) // this flush is in the states
		j.snaps[snap.Partition] = &snap
	}
	j.asOf = j.now
}

// trim removes all messages that snapshots have.
func (j *journal) trim() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.first = uint64(len(j.messages)) + 1
}

func openStore(t *testing.T, file string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Config{URL: "sqlite:" + file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// run runs a writer until the test ends or stop is called.
func run(t *testing.T, s *store.Store, j *journal, holder string, closing time.Duration) (w *history.Writer, stop func()) {
	t.Helper()
	w = history.NewWriter(history.WriterConfig{Store: s, Journal: j, Holder: holder, Every: 2 * time.Millisecond, Retention: retention, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, closing)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return w, stop
}

func await(t *testing.T, w *history.Writer, j *journal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	message, _ := j.Written()
	if err := w.Await(ctx, message); err != nil {
		t.Error(err) // not always on the test's own goroutine
	}
}

// gaps is how many are noted.
func gaps(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	if err := s.View(t.Context(), func(v *store.View) error {
		n = len(v.Gaps)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// check compares all spans of all keys with the truth, and tells how many are not exact.
func (j *journal) check(t *testing.T, s *store.Store, from, to int64) (spans, doubtful int) {
	t.Helper()
	for _, name := range []string{"UTC", "Europe/Berlin", "Asia/Kolkata"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []calendar.Unit{calendar.Hour, calendar.Day, calendar.Month} {
			if unit == calendar.Hour && name != "UTC" {
				continue
			}
			bounds, err := calendar.Bounds(unit, time.Unix(from, 0), time.Unix(to, 0), zone, 100_000)
			if err != nil {
				t.Fatal(err)
			}
			for key := range j.truth {
				n, d := j.checkKey(t, s, key, bounds, name)
				if spans += n; name != "Asia/Kolkata" { // half hours are not known
					doubtful += d
				}
			}
		}
	}
	return spans, doubtful
}

func (j *journal) checkKey(t *testing.T, s *store.Store, key string, bounds []int64, zone string) (spans, doubtful int) {
	t.Helper()
	var totals []engine.Count
	if err := s.View(t.Context(), func(v *store.View) (err error) {
		totals, err = history.Totals(t.Context(), v, key, bounds, nil, time.Now())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := make([]uint64, len(totals))
	split := make([]uint64, len(totals)) // of hours that are in two spans
	i := 0
	for hour := bounds[0] - bounds[0]%3600; hour < bounds[len(bounds)-1]; hour += 3600 {
		for i < len(want)-1 && bounds[i+1] <= hour {
			i++
		}
		n := j.truth[key][hour]
		switch {
		case hour >= bounds[i] && hour+3600 <= bounds[i+1]:
			want[i] += n
		case n > 0:
			split[i] += n
			if i+1 < len(want) {
				split[i+1] += n
			}
		}
	}
	for i, got := range totals {
		if split[i] > 0 {
			if got.Exact() || got.Lower > want[i]+split[i] || got.Upper < want[i] {
				t.Fatalf("%s, %s, span at %d: %d to %d, want %d and some of %d", key, zone, bounds[i], got.Lower, got.Upper, want[i], split[i])
			}
			continue
		}
		if got.Lower > want[i] || got.Upper < want[i] {
			t.Fatalf("%s, %s, span at %d: %d to %d, want %d", key, zone, bounds[i], got.Lower, got.Upper, want[i])
		}
		if !got.Exact() {
			doubtful++
		}
	}
	return len(totals), doubtful
}

const begin = 1_600_000_000 - 1_600_000_000%86400

// Years of hits in and out of order, deletions, writers that are cut off in the middle and begin
// again, and two at once: every hour, day and month is what it was.
func TestEveryHourIsExact(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	j := newJournal(t)
	file := filepath.Join(t.TempDir(), "history.db")
	s := openStore(t, file)
	const years = 2 * 365 * 86400
	w, stop := run(t, s, j, "a", 0)
	for round := range int64(60) {
		at := begin + round*(years/60)
		for range 150 {
			key := fmt.Sprint("k", rnd.IntN(6))
			j.hit(t, key, at+rnd.Int64N(years/60), 1+rnd.Uint64N(9))
			if rnd.IntN(20) == 0 { // late
				j.hit(t, key, begin+rnd.Int64N(at-begin+1), 1+rnd.Uint64N(9))
			}
		}
		if rnd.IntN(8) == 0 {
			j.remove(t, fmt.Sprint("k", rnd.IntN(6)))
		}
		j.flush(false)
		switch rnd.IntN(3) {
		case 0: // as if it were killed, or it is stopped: whatever it does is cut off
			stop()
			w, stop = run(t, openStore(t, file), j, "a", time.Duration(rnd.IntN(2))*time.Second)
		case 1:
			await(t, w, j)
		}
	}
	_, stopOther := run(t, openStore(t, file), j, "b", 0)
	await(t, w, j)
	if spans, doubtful := j.check(t, s, begin, begin+years); doubtful > 0 {
		t.Fatalf("%d of %d spans are not exact", doubtful, spans)
	}
	stopOther()
}

// What sampling added is in doubt for years, and nothing else is.
func TestSampledHitsStayInDoubt(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	s := openStore(t, filepath.Join(t.TempDir(), "history.db"))
	w, _ := run(t, s, j, "a", 0)
	if _, err := j.engine.HitSampled(time.Unix(begin+60, 0), "a", 10, 9); err != nil {
		t.Fatal(err)
	}
	j.hit(t, "a", begin+120, 2)
	j.hit(t, "b", begin+120, 3)
	j.hit(t, "a", begin+86400, 4)
	j.flush(false)
	await(t, w, j)
	for key, want := range map[string]string{"a": "[12 (3 or more) 4]", "b": "[3 0]", engine.AllKeys: "[15 (6 or more) 4]"} {
		if err := s.View(t.Context(), func(v *store.View) error {
			totals, err := history.Totals(t.Context(), v, key, []int64{begin, begin + 86400, begin + 2*86400}, nil, time.Now())
			if got := fmt.Sprint(totals); got != want {
				t.Errorf("%s: %s, want %s", key, got, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// Exports say the same of sampled hits as answers: what was seen, and no upper bound.
// It is not parallel, because another test ends the databases.
func TestExportOfSampledHits(t *testing.T) {
	for name, url := range map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "history.db"), "postgres": postgres.URL(t), "mariadb": mariadb.URL(t)} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			s, err := store.Open(store.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			w, _ := run(t, s, j, "a", 0)
			for _, key := range []string{"a", "\xff"} {
				if _, err := j.engine.HitSampled(time.Unix(begin+60, 0), key, 10, 9); err != nil {
					t.Fatal(err)
				}
				j.hit(t, key, begin+4000, 2)
				j.hit(t, key, begin+86400, 4)
			}
			j.hit(t, "b", begin+120, 3)
			j.flush(false)
			await(t, w, j)
			for days, want := range map[bool]string{
				true:  `"*" 0h 9 or more, "*" 24h 8, "\xff" 0h 3 or more, "\xff" 24h 4, "a" 0h 3 or more, "a" 24h 4, "b" 0h 3`,
				false: `"*" 0h 5 or more, "*" 1h 4, "*" 24h 8, "\xff" 0h 1 or more, "\xff" 1h 2, "\xff" 24h 4, "a" 0h 1 or more, "a" 1h 2, "a" 24h 4, "b" 0h 3`,
			} {
				var got []string
				selection := store.Selection{From: begin / 86400, To: begin/86400 + 2, Days: days, Sampled: engine.SampledPrefix, All: engine.AllKeys}
				if err := s.View(t.Context(), func(v *store.View) error {
					return v.Export(t.Context(), selection, func(r store.Row) error {
						text := fmt.Sprintf("%q %dh %d", r.Key, (r.Slot-begin)/3600, r.N)
						if r.Doubt == math.MaxUint64 {
							text += " or more"
						}
						if !strings.HasPrefix(r.Key, engine.SampledPrefix) {
							got = append(got, text)
						}
						return nil
					})
				}); err != nil {
					t.Fatal(err)
				}
				slices.Sort(got)
				if got := strings.Join(got, ", "); got != want {
					t.Errorf("days %v:\n%s\nwant\n%s", days, got, want)
				}
			}
		})
	}
}

// A history that begins late has what snapshots know: exactly for few hits, within bounds for many.
func TestBeginsWithSnapshots(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	j := newJournal(t)
	const days = 300
	for range 60 {
		j.hit(t, "few", begin+rnd.Int64N(days*86400), 1+rnd.Uint64N(9))
	}
	for range 4000 {
		j.hit(t, "many", begin+rnd.Int64N(days*86400), 1+rnd.Uint64N(9))
	}
	j.flush(true)
	j.trim()
	s := openStore(t, filepath.Join(t.TempDir(), "history.db"))
	w, _ := run(t, s, j, "a", 0)
	await(t, w, j)
	j.check(t, s, begin, begin+days*86400)
	for range 500 {
		j.hit(t, "many", begin+(days+rnd.Int64N(20))*86400, 1)
	}
	j.flush(false)
	await(t, w, j)
	j.check(t, s, begin, begin+(days+20)*86400)
}

// What was trimmed before it was read is filled in, and what can't be known is said.
func TestFillsWhatWasTrimmed(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 8))
	j := newJournal(t)
	file := filepath.Join(t.TempDir(), "history.db")
	first := time.Now().Unix() - 40*86400
	first -= first % 86400
	made := func(from, to int64, hits int) {
		for range hits {
			j.hit(t, fmt.Sprint("k", rnd.IntN(3)), first+from*86400+rnd.Int64N((to-from)*86400), 1)
		}
		j.hit(t, "rare", first+from*86400+rnd.Int64N((to-from)*86400), 3)
	}
	for gap := range int64(3) {
		w, stop := run(t, openStore(t, file), j, "a", 0)
		made(gap*12, gap*12+6, 900)
		j.now = time.Unix(first+(gap*12+6)*86400, 0)
		j.flush(false)
		await(t, w, j)
		stop()
		made(gap*12+6, gap*12+12, 900)
		j.now = time.Unix(first+(gap*12+12)*86400, 0)
		j.flush(true)
		j.trim()
	}
	s := openStore(t, file)
	w, _ := run(t, s, j, "a", 0)
	await(t, w, j)
	if is, noted := w.Status(), gaps(t, s); noted == 0 || is.Gaps != noted || is.Rows == 0 || s.FileSize() == 0 {
		t.Errorf("%+v, and %d gaps are noted", is, noted)
	}
	_, doubtful := j.check(t, s, first, first+37*86400)
	if doubtful == 0 {
		t.Fatal("what was trimmed passes for exact")
	}
	sums := map[string]uint64{}
	if err := s.View(t.Context(), func(v *store.View) error {
		return v.Slots(t.Context(), "rare", first, first+40*86400, func(r store.Row) { sums["rare"] += r.N })
	}); err != nil || sums["rare"] != 18 {
		t.Fatalf("%d hits of a key with few of them are known, of 18: %v", sums["rare"], err)
	}
}

// A database that is away makes history late, and nothing else.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	s, err := store.Open(store.Config{URL: "postgres://nobody@127.0.0.1:1/none?connect_timeout=1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, _ := run(t, s, j, "a", 0)
	j.hit(t, "k", begin, 1)
	j.flush(false)
	transporttest.Eventually(t, "the writer says that the database is away", func() bool { return w.Status().Err != nil })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := w.Await(ctx, 1); err == nil {
		t.Fatal("hits are in a database that is not there")
	}
	if is := w.Status(); is.Err == nil || is.Failures == 0 || is.Rows > 0 || s.FileSize() != 0 || is.Message != 0 {
		t.Fatalf("%+v", is)
	}
}

// Of hits older than the retention snapshots know nothing: where some may have been trimmed before
// they were read, no day passes for exact any more, and only there.
func TestTrimmedHitsOfThePast(t *testing.T) {
	t.Parallel()
	for _, past := range []bool{false, true} {
		j := newJournal(t)
		j.engine.TakePast(func(string, int64) bool { return true })
		file := filepath.Join(t.TempDir(), "history.db")
		now := time.Now()
		old := now.Add(-retention).AddDate(0, 0, -1)
		takeOld := func() {
			if outcome, err := j.engine.HitAt(old, "k", 1); err != nil || outcome != engine.ForHistory {
				t.Fatal(outcome, err)
			}
		}
		w, stop := run(t, openStore(t, file), j, "a", 0)
		j.hit(t, "k", now.Unix(), 1)
		takeOld()
		j.now = time.Now().Add(time.Second)
		j.flush(false)
		await(t, w, j)
		stop()
		j.hit(t, "k", now.Unix(), 1)
		if past {
			j.engine.Keyspace().NotePast(j.now.Add(time.Minute).UnixMilli()) // as one that is taken a minute later
			takeOld()
		}
		j.now = j.now.Add(time.Hour)
		j.flush(true)
		j.trim()
		s := openStore(t, file)
		w, _ = run(t, s, j, "a", 0)
		await(t, w, j)
		if err := s.View(t.Context(), func(v *store.View) error {
			g := v.Gaps
			if len(g) != 1 || g[0].First.After(old) != !past {
				t.Errorf("with such hits %v: gaps %v", past, g)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A database that is away for an hour of hits has all of them once it is there.
func TestDatabaseAwayForAnHour(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(11, 12))
	j := newJournal(t)
	dir := filepath.Join(t.TempDir(), "away") // which is not there yet
	s := openStore(t, filepath.Join(dir, "history.db"))
	w, _ := run(t, s, j, "a", 0)
	j.now = time.Now().Add(-time.Hour)
	first := j.now.Unix()
	for second := range int64(3600) {
		for range 3 {
			j.hit(t, fmt.Sprint("k", rnd.IntN(6)), first+second, 1+rnd.Uint64N(9))
		}
		j.flush(second%600 == 0)
	}
	transporttest.Eventually(t, "the writer says that the database is away", func() bool { return w.Status().Err != nil })
	if is := w.Status(); is.Rows > 0 || w.Status().Message+1 != 1 {
		t.Fatalf("%+v, and the journal is needed from message %d on", is, w.Status().Message+1)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	await(t, w, j)
	day := first - first%86400
	if spans, doubtful := j.check(t, s, day, day+2*86400); doubtful > 0 {
		t.Fatalf("%d of %d spans are not exact", doubtful, spans)
	}
	if is := w.Status(); is.Gaps != 0 || is.Err != nil {
		t.Fatalf("%+v", is)
	}
}
