package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

const (
	parts = 16
	epoch = int64(1_700_000_000) // of the hits of tests
)

var now = time.Unix(epoch+3600, 0)

// fleet is nodes n0, n1... in this process, which hold some partitions each, and a
// model that holds all.
type fleet struct {
	t      testing.TB
	server *natsserver.Server
	nodes  []*node
	model  *engine.Engine
	in     replication.PartitionSet // nil: all nodes hold all, and count * by itself

	mu      sync.Mutex
	holders [parts][]string
}

type node struct {
	id     string
	engine *engine.Engine
	conn   *nats.Conn
	*Router

	mu   sync.Mutex
	asOf time.Time
	late []api.Late
}

// newFleet starts size nodes; partition p is held by copies of them, from p%size on.
// change, if not nil, may change a node's configuration.
func newFleet(t testing.TB, size, copies int, change func(cfg *Config)) *fleet {
	t.Helper()
	server, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	if !server.ReadyForConnections(transporttest.Patience) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() { server.Shutdown(); server.WaitForShutdown() })
	f := &fleet{t: t, server: server, model: newEngine(t)}
	if copies < size {
		f.in = all(parts)
	}
	for p := range parts {
		for c := range copies {
			f.holders[p] = append(f.holders[p], fmt.Sprint("n", (p+c)%size))
		}
	}
	for i := range size {
		n := &node{id: fmt.Sprint("n", i), engine: newEngine(t), asOf: now.Add(time.Duration(i) * time.Second)}
		for p := range parts {
			if !slices.Contains(f.holders[p], n.id) {
				n.engine.Release(p)
			}
		}
		n.conn = f.connect()
		f.open(n, change)
		f.nodes = append(f.nodes, n)
	}
	return f
}

func newEngine(t testing.TB) *engine.Engine {
	e, err := engine.New(engine.Config{Partitions: parts, Gather: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func (f *fleet) connect() *nats.Conn {
	conn, err := nats.Connect("", nats.InProcessServer(f.server))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(conn.Close)
	return conn
}

func (f *fleet) open(n *node, change func(cfg *Config)) {
	cfg := Config{
		Engine: n.engine, Conn: n.conn, Self: n.id,
		Holders: func(partition int) []string {
			f.mu.Lock()
			defer f.mu.Unlock()
			return slices.DeleteFunc(slices.Clone(f.holders[partition]), func(id string) bool { return id == n.id })
		},
		Freshness: func() api.Freshness {
			n.mu.Lock()
			defer n.mu.Unlock()
			return api.Freshness{AsOf: api.Time{Time: n.asOf}, Late: n.late}
		},
		Deadline:   transporttest.Patience, // of a test that waits for none
		FlushEvery: time.Hour,
		Logger:     transporttest.Logger(f.t, slog.LevelError),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if n.Router, err = Open(cfg); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(n.Close)
}

// hit counts hits at all holders and the model.
func (f *fleet) hit(key string, at int64, n uint64) {
	partition, deltas := f.model.Keyspace().PartitionOf(key), []replication.Delta{{Key: key, At: at, N: n}}
	f.model.Apply(partition, deltas, nil)
	for _, n := range f.nodes {
		if n.engine.Keyspace().Holds(partition) {
			n.engine.Apply(partition, deltas, nil)
		}
	}
}

// fill makes keys k0... with random hits of an hour.
func (f *fleet) fill(keys int) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range keys {
		for range 1 + r.IntN(5) {
			f.hit(fmt.Sprint("k", i), epoch+r.Int64N(3600), 1+r.Uint64N(9))
		}
	}
}

// keyOf is a key of a partition, another for each i.
func (f *fleet) keyOf(partition, i int) string {
	for n := 0; ; n++ {
		if key := fmt.Sprint("p", n); f.model.Keyspace().PartitionOf(key) == partition {
			if i--; i < 0 {
				return key
			}
		}
	}
}

func (n *node) count(t testing.TB, key string) engine.Count {
	t.Helper()
	c, _, err := n.Counts(t.Context(), 0, []api.CountQuestion{{Key: key, At: now, Window: time.Hour}}, nil)
	if err != nil {
		t.Fatalf("%s: %s: %v", n.id, key, err)
	}
	return c[0]
}

// wantModel checks every kind of question at one node against the model.
func (f *fleet) wantModel(n *node, keys int) {
	f.t.Helper()
	ctx := f.t.Context()
	var questions []api.CountQuestion
	for i := range keys + 3 { // some that were never hit
		questions = append(questions, api.CountQuestion{Key: fmt.Sprint("k", i), At: now, Window: time.Hour}, api.CountQuestion{Key: fmt.Sprint("k", i), At: now.Add(-time.Second / 2), Window: 10 * time.Minute})
	}
	questions = append(questions, api.CountQuestion{Key: engine.AllKeys, At: now, Window: time.Hour}, questions[0], api.CountQuestion{Key: engine.AllKeys, At: now, Window: time.Minute})
	counts, _, err := n.Counts(ctx, 0, questions, nil)
	if err != nil {
		f.t.Fatalf("%s: %v", n.id, err)
	}
	for i, q := range questions {
		if want, _ := f.model.CountIn(f.in, q.At, q.Key, q.Window); counts[i] != want {
			f.t.Errorf("%s: %v is %v, want %v", n.id, q, counts[i], want)
		}
	}
	for _, key := range []string{"k0", "k1", "k2", engine.AllKeys} {
		got, _, err := n.Series(ctx, 0, key, now.Add(-time.Hour), now, 5*time.Minute)
		want, _ := f.model.SeriesIn(f.in, key, now.Add(-time.Hour), now, 5*time.Minute)
		if err != nil || !slices.Equal(got, want) {
			f.t.Errorf("%s: series of %s: %v, %v, want %v", n.id, key, got, err, want)
		}
	}
	for _, length := range []int{1, 7, keys, engine.MaxList} {
		for _, prefix := range []string{"", "k1", "none"} {
			top, _, err := n.Top(ctx, 0, now, time.Hour, length, prefix)
			want, _ := f.model.Top(now, time.Hour, length, prefix)
			if err != nil || !slices.Equal(top, want) {
				f.t.Errorf("%s: top %d of %q: %d keys, %v, want %d", n.id, length, prefix, len(top), err, len(want))
			}
			after, limit := "", length
			for range 4 {
				list, _, err := n.Keys(ctx, 0, prefix, after, limit)
				want, _ := f.model.Keys(prefix, after, limit)
				if err != nil || !slices.Equal(list, want) {
					f.t.Errorf("%s: %d keys of %q after %q: %d, %v, want %d", n.id, limit, prefix, after, len(list), err, len(want))
				}
				if len(list) > 0 {
					after = list[len(list)-1]
				}
			}
		}
	}
}

func TestEveryNodeAnswersAsTheModel(t *testing.T) {
	for _, copies := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(copies, " copies"), func(t *testing.T) {
			f := newFleet(t, 3, copies, nil)
			f.fill(200)
			for _, n := range f.nodes {
				f.wantModel(n, 200)
				s := n.Stats()
				if (copies == 3) != (s.Requests == 0) || s.Failed+s.Unanswered+s.Refused != 0 {
					t.Errorf("%s: %+v", n.id, s)
				}
			}
		})
	}
}

// Questions about all keys go to as few nodes as hold them together.
func TestFewNodesAreAsked(t *testing.T) {
	for _, c := range []struct{ size, copies, want int }{{3, 1, 2}, {3, 2, 1}, {5, 3, 1}, {5, 2, 2}, {4, 1, 3}} {
		f := newFleet(t, c.size, c.copies, nil)
		for _, n := range f.nodes {
			if _, _, err := n.Top(t.Context(), 0, now, time.Hour, 10, ""); err != nil {
				t.Fatal(err)
			}
			if got := n.Stats().Requests; got != uint64(c.want) {
				t.Errorf("%d nodes, %d copies: %s asks %d others, want %d", c.size, c.copies, n.id, got, c.want)
			}
		}
	}
}

// What an engine refuses is refused with its words, and nothing is sent.
func TestWrongQuestionsAreNotSent(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n, ctx := f.nodes[0], t.Context()
	far := f.keyOf(1, 0)
	for name, ask := range map[string]func() (route, model error){
		"window": func() (error, error) {
			_, _, err := n.Counts(ctx, 0, []api.CountQuestion{{Key: far, At: now, Window: time.Minute}, {Key: far, At: now, Window: 1500 * time.Millisecond}}, nil)
			_, want := f.model.CountAt(now, far, 1500*time.Millisecond)
			return err, want
		},
		"window of all": func() (error, error) {
			_, _, err := n.Counts(ctx, 0, []api.CountQuestion{{Key: engine.AllKeys, At: now, Window: 0}}, nil)
			_, want := f.model.CountAt(now, engine.AllKeys, 0)
			return err, want
		},
		"empty key": func() (error, error) {
			_, _, err := n.Counts(ctx, 0, []api.CountQuestion{{Key: "", At: now, Window: time.Minute}}, nil)
			_, want := f.model.CountAt(now, "", time.Minute)
			return err, want
		},
		"series": func() (error, error) {
			_, _, err := n.Series(ctx, 0, far, now, now, time.Second)
			_, want := f.model.Series(far, now, now, time.Second)
			return err, want
		},
		"long series of all": func() (error, error) {
			_, _, err := n.Series(ctx, 0, engine.AllKeys, now.Add(-24*time.Hour), now, time.Second)
			_, want := f.model.Series(engine.AllKeys, now.Add(-24*time.Hour), now, time.Second)
			return err, want
		},
		"top": func() (error, error) {
			_, _, err := n.Top(ctx, 0, now, time.Minute, 0, "")
			_, want := f.model.Top(now, time.Minute, 0, "")
			return err, want
		},
		"keys": func() (error, error) {
			_, _, err := n.Keys(ctx, 0, "", "", engine.MaxList+1)
			_, want := f.model.Keys("", "", engine.MaxList+1)
			return err, want
		},
		"delete *": func() (error, error) {
			_, err := n.Delete(ctx, engine.AllKeys)
			_, want := f.model.Delete(engine.AllKeys)
			return err, want
		},
	} {
		if got, want := ask(); want == nil || got == nil || got.Error() != want.Error() {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	f.hit(far, epoch+1, 4)
	if c := n.count(t, far); c.Lower != 4 {
		t.Errorf("%v hits", c)
	}
	// Filters that are longer than any key are cut.
	long := string(make([]byte, 100_000))
	for _, q := range [][2]string{{long, ""}, {"", long}, {"", "p" + long}} {
		list, _, err := n.Keys(ctx, 0, q[0], q[1], 10)
		want, _ := f.model.Keys(q[0], q[1], 10)
		if err != nil || !slices.Equal(list, want) {
			t.Errorf("%v, %v, want %v", list, err, want)
		}
	}
}

// Answers that are longer than a message may be come in parts.
func TestLongAnswers(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	pad := string(make([]byte, engine.MaxKeyBytes-10))
	for i := range 8000 {
		f.hit(fmt.Sprintf("%010d", i)+pad, epoch, uint64(1+i))
	}
	for _, n := range f.nodes {
		top, _, err := n.Top(t.Context(), 0, now, 2*time.Hour, engine.MaxList, "")
		want, _ := f.model.Top(now, 2*time.Hour, engine.MaxList, "")
		if err != nil || len(want) != 8000 || !slices.Equal(top, want) {
			t.Errorf("%d keys, %v", len(top), err)
		}
		var questions []api.CountQuestion
		for _, kc := range top {
			questions = append(questions, api.CountQuestion{Key: kc.Key, At: now, Window: 2 * time.Hour})
		}
		questions = append(questions, slices.Repeat(questions, 3)...) // more than are put at once
		before := n.Stats().Requests
		counts, _, err := n.Counts(t.Context(), 0, questions, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range counts {
			if c != want[i%8000].Count {
				t.Fatalf("number %d: %v, want %v", i, c, want[i%8000].Count)
			}
		}
		if sent := n.Stats().Requests - before; sent < 4 || sent > 10 {
			t.Errorf("2 MiB of questions were %d requests", sent)
		}
	}
}

func TestAnswersSayHowFreshTheyAre(t *testing.T) {
	f := newFleet(t, 3, 1, nil)
	f.nodes[0].late = []api.Late{{Node: "b", Since: api.Time{Time: now}}, {Node: "c", Since: api.Time{Time: now}}}
	f.nodes[1].late = []api.Late{{Node: "a", Since: api.Time{Time: now}}, {Node: "b", Since: api.Time{Time: now.Add(-time.Minute)}}}
	f.nodes[1].asOf = now.Add(-time.Hour)
	ask := func(keys ...string) api.Freshness {
		var questions []api.CountQuestion
		for _, key := range keys {
			questions = append(questions, api.CountQuestion{Key: key, At: now, Window: time.Minute})
		}
		_, fresh, err := f.nodes[0].Counts(t.Context(), 0, questions, nil)
		if err != nil {
			t.Fatal(err)
		}
		return fresh
	}
	own, second, third := f.keyOf(0, 0), f.keyOf(1, 0), f.keyOf(2, 0)
	both := api.Freshness{AsOf: api.Time{Time: now.Add(-time.Hour)}, Late: []api.Late{{Node: "a", Since: api.Time{Time: now}}, {Node: "b", Since: api.Time{Time: now.Add(-time.Minute)}}, {Node: "c", Since: api.Time{Time: now}}}}
	for _, c := range []struct {
		keys []string
		want api.Freshness
	}{
		{nil, api.Freshness{AsOf: api.Time{Time: now}, Late: f.nodes[0].late}},
		{[]string{own}, api.Freshness{AsOf: api.Time{Time: now}, Late: f.nodes[0].late}},
		{[]string{third}, api.Freshness{AsOf: api.Time{Time: now.Add(2 * time.Second)}, Late: nil}},
		{[]string{second}, api.Freshness{AsOf: api.Time{Time: now.Add(-time.Hour)}, Late: f.nodes[1].late}},
		{[]string{own, second}, both},
		{[]string{engine.AllKeys}, both},
	} {
		got := ask(c.keys...)
		if !got.AsOf.Equal(c.want.AsOf.Time) || !slices.EqualFunc(got.Late, c.want.Late, func(a, b api.Late) bool { return a.Node == b.Node && a.Since.Equal(b.Since.Time) }) {
			t.Errorf("%v: %v, want %v", c.keys, got, c.want)
		}
	}
}

func TestDeleteAtAHolder(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	n, key := f.nodes[0], f.keyOf(1, 0)
	f.hit(key, epoch+3600, 3)
	if c := n.count(t, key); c.Lower != 3 {
		t.Fatal(c)
	}
	if top, _, err := n.Top(t.Context(), 0, now, time.Minute, 9, ""); err != nil || len(top) != 1 {
		t.Fatal(top, err)
	}
	if list, _, err := n.Keys(t.Context(), 0, "", "", 9); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if was, err := n.Delete(t.Context(), key); err != nil || !was {
		t.Fatalf("%v, %v", was, err)
	}
	// None of these is an answer from before, though answers are kept for an hour.
	if c := n.count(t, key); c.Upper != 0 {
		t.Errorf("%v after the deletion", c)
	}
	if top, _, err := n.Top(t.Context(), 0, now, time.Minute, 9, ""); err != nil || len(top) != 0 {
		t.Error(top, err)
	}
	if list, _, err := n.Keys(t.Context(), 0, "", "", 9); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	if c := n.count(t, engine.AllKeys); c.Lower != 3 {
		t.Errorf("* counts %v", c)
	}
	if was, err := n.Delete(t.Context(), key); err != nil || was {
		t.Errorf("%v, %v", was, err)
	}
	if s := n.Stats(); s.Requests != 9 { // each was asked for again
		t.Errorf("%+v", s)
	}
}

// Hits on their way from here are journaled before a deletion elsewhere.
func TestDeletionComesAfterOwnHits(t *testing.T) {
	var failure error
	flushes := 0
	f := newFleet(t, 2, 1, func(cfg *Config) {
		cfg.Flush = func(context.Context) error { flushes++; return failure }
	})
	n, near, far := f.nodes[0], f.keyOf(0, 0), f.keyOf(1, 0)
	f.hit(near, epoch+1, 1)
	f.hit(far, epoch+1, 1)
	failure = errors.New("no quorum")
	var refused *engine.Error
	if was, err := n.Delete(t.Context(), far); was || !errors.As(err, &refused) || refused.Code != api.CodeOverloaded || !strings.Contains(refused.Message, "no quorum") {
		t.Errorf("%v, %v", was, err)
	}
	if c := n.count(t, far); c.Lower != 1 {
		t.Errorf("%v is left", c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Delete(ctx, far); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	failure = nil
	for _, key := range []string{near, far} { // of an own key the engine knows the order
		if was, err := n.Delete(t.Context(), key); err != nil || !was {
			t.Errorf("%v, %v", was, err)
		}
	}
	if flushes != 3 {
		t.Errorf("%d flushes", flushes)
	}
}

// A deletion that comes too late is not done: what was hit since must stay.
func TestLateDeletionIsRefused(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	key := f.keyOf(1, 0)
	f.hit(key, epoch+1, 1)
	each := f.nodes[0].askNode(t.Context(), "n1", []*question{{kind: deletion, key: key, until: time.Now().UnixMilli() - 1}})
	if each == nil || each[0].err != nil || each[0].answer.err == nil || each[0].answer.err.Code != api.CodeOverloaded {
		t.Fatalf("%+v", each)
	}
	if c := f.nodes[1].count(t, key); c.Lower != 1 {
		t.Errorf("%v hits are left", c)
	}
}

func TestClosed(t *testing.T) {
	f := newFleet(t, 2, 1, nil)
	f.nodes[0].Close()
	_, _, err := f.nodes[0].Counts(t.Context(), 0, []api.CountQuestion{{Key: f.keyOf(1, 0), At: now, Window: time.Minute}}, nil)
	var refused *engine.Error
	if !errors.As(err, &refused) || refused.Code != api.CodeClosed {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c := f.nodes[0].count(t, f.keyOf(0, 0)); c.Upper != 0 {
		t.Error(c)
	}
	if _, _, err := f.nodes[1].Counts(ctx, 0, []api.CountQuestion{{Key: f.keyOf(0, 0), At: now, Window: time.Minute}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Any node answers with the ids of a key that another one holds.
func TestDistinctOfAnyNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, 1, nil)
	hit := func(e *engine.Engine, key string, id int) {
		if _, err := e.HitDistinct(now, e.Keyspace().Expect(nil, []string{key})[0], 1, engine.HashID(fmt.Sprint(id))); err != nil {
			t.Fatal(err)
		}
	}
	for partition := range parts {
		for i := range 1 + partition*100 {
			key := f.keyOf(partition, 0)
			hit(f.model, key, i)
			for _, n := range f.nodes {
				if n.engine.Keyspace().Holds(partition) {
					hit(n.engine, key, i)
				}
			}
		}
	}
	for partition := range parts {
		q := api.CountQuestion{Key: f.keyOf(partition, 0), At: now, Window: time.Hour}
		want, _, _ := f.model.Distinct(now, q.Key, q.Window)
		for _, n := range f.nodes {
			got, gone, fresh, err := n.Distinct(t.Context(), 0, q)
			if err != nil || gone != 0 || fresh.AsOf.IsZero() || got == nil || string(got.Append(nil)) != string(want.Append(nil)) {
				t.Errorf("%s: partition %d: %v", n.id, partition, err)
			}
			if none, _, _, err := n.Distinct(t.Context(), 0, api.CountQuestion{Key: f.keyOf(partition, 1), At: now, Window: time.Hour}); none != nil || err != nil {
				t.Errorf("%s: ids of a key without any: %v", n.id, err)
			}
		}
	}
}
