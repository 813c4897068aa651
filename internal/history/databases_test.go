package history_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/history/store/dbtest"
)

var (
	postgres = dbtest.NewPostgres()
	mariadb  = dbtest.NewMariaDB()
)

func TestMain(m *testing.M) { dbtest.Main(m, postgres, mariadb) }

func TestPostgresIsKilled(t *testing.T) {
	t.Parallel()
	testKilled(t, postgres)
}

func TestMariaDBIsKilled(t *testing.T) {
	t.Parallel()
	testKilled(t, mariadb)
}

// A database that is killed in the middle of batches, and away for a while, has every hour when it
// is back and the writer has caught up; there are two writers, of which one writes.
func testKilled(t *testing.T, server *dbtest.Server) {
	rnd := rand.New(rand.NewPCG(9, 10))
	url := server.URL(t)
	open := func() *store.Store {
		s, err := store.Open(store.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	j := newJournal(t)
	w, _ := run(t, open(), j, "a", 0)
	other, stopOther := run(t, open(), j, "b", 0)
	const days, rounds = 400, 8
	for round := range int64(rounds) {
		awaitBoth(t, w, other, j)
		killed, after := make(chan struct{}), time.Duration(rnd.IntN(30))*time.Millisecond // somewhere in the middle
		go func() {
			defer close(killed)
			time.Sleep(after)
			server.Kill(t)
		}()
		for range 40 {
			for range 100 {
				j.hit(t, fmt.Sprint("k", rnd.IntN(200)), begin+(round*days/rounds)*86400+rnd.Int64N(days/rounds*86400), 1+rnd.Uint64N(9))
			}
			j.flush(false)
		}
		<-killed
		server.Restart(t)
	}
	awaitBoth(t, w, other, j)
	stopOther()
	for key := range j.truth { // some keys are enough: each has hits in each round
		if len(j.truth) > 12 && key != "*" {
			delete(j.truth, key)
		}
	}
	if spans, doubtful := j.check(t, open(), begin, begin+days*86400); doubtful > 0 {
		t.Fatalf("%d of %d spans are not exact", doubtful, spans)
	}
}

// awaitBoth waits for two writers, of which one writes: it is woken whichever it is.
func awaitBoth(t *testing.T, a, b *history.Writer, j *journal) {
	t.Helper()
	var waiting sync.WaitGroup
	waiting.Go(func() { await(t, a, j) })
	await(t, b, j)
	waiting.Wait()
}
