package replica_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

const partitions = 4

// log is a journal in memory: message i has sequence i+1, nil is one that is lost.
type log struct {
	messages [][]byte
	first    uint64
	listed   []record.SeenRequest // by a snapshot, up to the message before first, or upTo
	upTo     uint64
}

func (l *log) Bounds(context.Context) (first, last, bytes uint64, err error) {
	return max(l.first, 1), uint64(len(l.messages)), 0, nil
}

func (l *log) Requests(context.Context) (list []record.SeenRequest, upTo uint64, err error) {
	return l.listed, max(l.first-min(l.first, 1), l.upTo), nil
}

func (l *log) Read(_ context.Context, from, last uint64, f func(uint64, []byte) error) error {
	for sequence := from; sequence <= last; sequence++ {
		if data := l.messages[sequence-1]; data != nil {
			if err := f(sequence, data); err != nil {
				return err
			}
		}
	}
	return nil
}

var errLost = errors.New("lost")

func (l *log) Get(_ context.Context, sequence uint64) ([]byte, error) {
	if data := l.messages[sequence-1]; data != nil {
		return data, nil
	}
	return nil, errLost
}

// writers make a journal of several origins, whose flushes have parts, repeats and new lives.
type writers struct {
	log
	rand     *rand.Rand
	encoders []*record.Encoder
	now      time.Time
	want     map[string]uint64
}

func newWriters(seed uint64, origins int) *writers {
	w := &writers{rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_000_000, 0), want: map[string]uint64{}}
	for i := range origins {
		e := record.NewEncoder(record.Incarnation{Origin: uint64(i + 1), Epoch: 1}, partitions)
		e.Node, e.PartBytes, e.BatchBytes = fmt.Sprintf("n%d", i), 60, 40
		w.encoders = append(w.encoders, e)
	}
	return w
}

// flush writes a flush of one origin.
func (w *writers) flush() {
	e := w.encoders[w.rand.IntN(len(w.encoders))]
	w.now = w.now.Add(time.Second)
	e.Begin(w.now)
	for partition := range partitions {
		var deltas []replication.Delta
		for range w.rand.IntN(3) {
			d := replication.Delta{Key: fmt.Sprintf("k%d-%d", partition, w.rand.IntN(3)), At: w.now.Unix() - w.rand.Int64N(1000), N: 1 + w.rand.Uint64N(5)}
			deltas = append(deltas, d)
			w.want[d.Key] += d.N
		}
		if len(deltas) > 0 {
			e.Add(partition, deltas)
		}
	}
	parts := e.End(nil)
	for _, part := range parts {
		w.messages = append(w.messages, part)
		if w.rand.IntN(4) == 0 { // an acknowledgement was lost, and the part was sent again
			w.messages = append(w.messages, part)
		}
	}
}

// crash writes the first parts of a flush whose origin dies, and begins its next life.
func (w *writers) crash() {
	i := w.rand.IntN(len(w.encoders))
	e := w.encoders[i]
	seqs, totals := append([]uint64(nil), e.Seqs...), append([]uint64(nil), e.Totals...)
	e.Begin(w.now)
	for partition := range partitions {
		e.Add(partition, []replication.Delta{{Key: "never", At: 1, N: 1}})
	}
	parts := e.End(nil)
	w.messages = append(w.messages, parts[:len(parts)-1]...)
	next := record.NewEncoder(record.Incarnation{Origin: e.Origin, Epoch: e.Epoch + 1}, partitions)
	next.Node, next.PartBytes, next.BatchBytes, next.Seqs, next.Totals = e.Node, 60, 40, seqs, totals
	w.encoders[i] = next
}

func (w *writers) fill(flushes int) {
	for range flushes {
		if w.rand.IntN(12) == 0 {
			w.crash()
		}
		w.flush()
	}
}

type counts map[string]uint64

func (c counts) add(b record.Batch) error {
	for _, d := range b.Deltas() {
		c[d.Key] += d.N
	}
	return nil
}

func (c counts) clone() counts {
	other := counts{}
	for key, n := range c {
		other[key] = n
	}
	return other
}

func (c counts) mustBe(t *testing.T, want map[string]uint64) {
	t.Helper()
	for key, n := range want {
		if c[key] != n {
			t.Fatalf("%s: %d hits, want %d", key, c[key], n)
		}
	}
	if len(c) != len(want) {
		t.Fatalf("%d keys, want %d", len(c), len(want))
	}
}

// Whoever reads in pieces, forgets what it read since its last position, and goes on from
// there, counts each hit once.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		w := newWriters(seed, 1+int(seed%3))
		w.fill(80)
		reader, got := replica.NewTail(w, partitions), counts{}
		position, saved := reader.Position(), counts{}
		for reader.Next() <= uint64(len(w.messages)) {
			upTo := reader.Next() + w.rand.Uint64N(100)
			if err := reader.Read(t.Context(), min(upTo, uint64(len(w.messages))), got.add, never); err != nil {
				t.Fatal(err)
			}
			if w.rand.IntN(2) == 0 {
				position, saved = reader.Position(), got.clone()
				continue
			}
			var err error
			if reader, err = replica.ResumeTail(w, partitions, position, nil); err != nil {
				t.Fatal(err)
			}
			got = saved.clone()
			if w.rand.IntN(3) == 0 { // or it would not come to an end
				if err := reader.Read(t.Context(), uint64(len(w.messages)), got.add, never); err != nil {
					t.Fatal(err)
				}
			}
		}
		got.mustBe(t, w.want)
		if lost := reader.Lost(); len(lost) > 0 {
			t.Fatal("findings of a sound journal:", lost)
		}
	}
}

func never() bool { return false }

// A read ends after the message with which there is enough, however many it may read, and the next goes
// on after it.
func TestReadsUntilThereIsEnough(t *testing.T) {
	t.Parallel()
	w := newWriters(7, 2)
	w.fill(200)
	reader, got := replica.NewTail(w, partitions), counts{}
	for reader.Next() <= uint64(len(w.messages)) {
		next, batches := reader.Next(), 0
		err := reader.Read(t.Context(), uint64(len(w.messages)), func(b record.Batch) error {
			batches++
			return got.add(b)
		}, func() bool { return batches > 0 })
		if err != nil {
			t.Fatal(err)
		}
		if batches > partitions {
			t.Fatalf("messages %d to %d have %d batches, and one was enough", next, reader.Next()-1, batches)
		}
	}
	got.mustBe(t, w.want)
}

func TestWhatIsMissingIsReported(t *testing.T) {
	t.Parallel()
	w := newWriters(7, 2)
	w.fill(20)
	w.messages[len(w.messages)/2] = nil
	reader, got := replica.NewTail(w, partitions), counts{}
	if err := reader.Read(t.Context(), uint64(len(w.messages)), got.add, never); err != nil {
		t.Fatal(err)
	}
	if len(reader.Lost()) == 0 {
		t.Fatal("a lost message is not reported")
	}
	if reader.Lost() != nil {
		t.Fatal("it is reported again")
	}
}

func TestTrimmed(t *testing.T) {
	t.Parallel()
	w := newWriters(7, 1)
	w.fill(5)
	w.first = 3
	err := replica.NewTail(w, partitions).Read(t.Context(), uint64(len(w.messages)), counts{}.add, never)
	if trimmed := (*replica.TrimmedError)(nil); !errors.As(err, &trimmed) || trimmed.First != 3 || trimmed.Next != 1 {
		t.Fatal(err)
	}
}

func TestReached(t *testing.T) {
	t.Parallel()
	w := newWriters(7, 1)
	w.fill(5)
	reader := replica.NewTail(w, partitions)
	if err := reader.Read(t.Context(), uint64(len(w.messages)), counts{}.add, never); err != nil {
		t.Fatal(err)
	}
	message, at, err := replica.Reached(reader.Position())
	if err != nil || message != uint64(len(w.messages)) || !at.Equal(w.now) {
		t.Fatal(message, at, err)
	}
}

func FuzzPosition(f *testing.F) {
	w := newWriters(7, 2)
	w.fill(5)
	reader := replica.NewTail(w, partitions)
	if err := reader.Read(context.Background(), 3, counts{}.add, never); err != nil {
		f.Fatal(err)
	}
	f.Add(reader.Position())
	f.Add([]byte("T\x01"))
	f.Fuzz(func(t *testing.T, position []byte) {
		resumed, err := replica.ResumeTail(&log{}, partitions, position, nil)
		if err != nil {
			return
		}
		if _, err := replica.ResumeTail(&log{}, partitions, resumed.Position(), nil); err != nil {
			t.Fatal(err)
		}
	})
}
