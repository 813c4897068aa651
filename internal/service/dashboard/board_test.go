package dashboard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func anybody() error { return nil }

// counting is an Asker whose documents are the numbers from 1.
func counting(asked *atomic.Int64, takes time.Duration) Asker {
	return Asker{May: anybody, Ask: func(context.Context) ([]byte, error) {
		time.Sleep(takes)
		return fmt.Append(nil, asked.Add(1)), nil
	}}
}

func next(t *testing.T, w *Watch) string {
	t.Helper()
	document, last, err := w.Next(t.Context())
	if last || err != nil {
		t.Fatalf("last %v: %v", last, err)
	}
	return string(document)
}

// All that look at the same share a computation, also one who comes between two; it ends with the last.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		var asked atomic.Int64
		var all []*Watch
		for range 200 {
			w, err := b.Watch("a", counting(&asked, 0))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, w)
		}
		for round := 1; round <= 3; round++ {
			for _, w := range all {
				if got := next(t, w); got != fmt.Sprint(round) {
					t.Fatalf("round %d: %s", round, got)
				}
			}
		}
		late, _ := b.Watch("a", counting(&asked, 0))
		if got := next(t, late); got != "3" || asked.Load() != 3 {
			t.Errorf("a late one got %s, asked %d times", got, asked.Load())
		}
		time.Sleep(10*every + every/2) // nobody takes documents meanwhile
		if got := next(t, all[0]); got != "13" {
			t.Errorf("a slow one got %s: not the newest", got)
		}
		for _, w := range append(all, late) {
			w.Close()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if asked.Load() != 13 || b.Topics() != 0 {
			t.Errorf("asked %d times, %d topics: it goes on for nobody", asked.Load(), b.Topics())
		}
	})
}

// What takes long is asked less often: together topics take a twentieth of the time.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		var asked atomic.Int64
		for i := range 3 {
			if _, err := b.Watch(fmt.Sprint(i), counting(&asked, 100*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(61 * time.Second)
		if n := asked.Load(); n < 27 || n > 33 { // 100 ms of each 6.1 s, three times
			t.Errorf("asked %d times", n)
		}
		b.Close()
	})
	if got := rest(time.Hour, 5); got != maxWait {
		t.Errorf("rests for %v", got)
	}
}

// Who may look no longer is told, and the others go on.
func TestMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		defer b.Close()
		var asked atomic.Int64
		revoked := errors.New("revoked")
		var gone atomic.Bool
		stays := counting(&asked, 0)
		leaves := stays
		leaves.May = func() error {
			if gone.Load() {
				return revoked
			}
			return nil
		}
		one, _ := b.Watch("a", leaves)
		other, _ := b.Watch("a", stays)
		next(t, one)
		next(t, other)
		gone.Store(true)
		if _, last, err := one.Next(t.Context()); !last || !errors.Is(err, revoked) {
			t.Errorf("%v %v", last, err)
		}
		if got := next(t, other); got != "2" {
			t.Errorf("the other got %s", got)
		}
	})
}

// An error takes the place of one document; the end of the Board, or of the context, is the last.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		var asked atomic.Int64
		fails := errors.New("one node is away")
		w, _ := b.Watch("a", Asker{May: anybody, Ask: func(context.Context) ([]byte, error) {
			if asked.Add(1) == 2 {
				return nil, fails
			}
			return []byte("well"), nil
		}})
		next(t, w)
		if _, last, err := w.Next(t.Context()); last || !errors.Is(err, fails) {
			t.Errorf("%v %v", last, err)
		}
		next(t, w)
		ctx, cancel := context.WithTimeout(t.Context(), every/2)
		defer cancel()
		if _, last, err := w.Next(ctx); !last || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v %v", last, err)
		}
		b.Close()
		if _, last, err := w.Next(t.Context()); !last || !errors.Is(err, ErrClosed) {
			t.Errorf("%v %v", last, err)
		}
		w.Close()
		if _, err := b.Watch("a", Asker{}); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// One client has its share of the topics, however often it watches each, and others have the rest.
func TestShare(t *testing.T) {
	var b Board
	defer b.Close()
	var asked atomic.Int64
	watch := func(client string, topic int) (*Watch, error) {
		as := counting(&asked, 0)
		as.Client = client
		return b.Watch(fmt.Sprint(topic), as)
	}
	var own []*Watch
	for i := range MaxOwn {
		for range 2 {
			w, err := watch("greedy", i)
			if err != nil {
				t.Fatal(err)
			}
			own = append(own, w)
		}
	}
	if _, err := watch("greedy", MaxOwn); !errors.Is(err, ErrShare) {
		t.Errorf("one more: %v", err)
	}
	for i := MaxOwn; i < MaxTopics; i++ {
		if _, err := watch("other", i); err != nil {
			t.Fatalf("topic %d of another client: %v", i, err)
		}
	}
	if _, err := watch("greedy", MaxOwn); !errors.Is(err, ErrShare) {
		t.Errorf("one of another client's topics: %v", err)
	}
	own[0].Close()
	if _, err := watch("greedy", MaxOwn); !errors.Is(err, ErrShare) {
		t.Errorf("after one of two watches of a topic was closed: %v", err)
	}
	own[1].Close()
	if _, err := watch("greedy", MaxOwn); err != nil {
		t.Errorf("after both were closed: %v", err)
	}
	for _, w := range own[2:] {
		w.Close()
	}
	if got := len(b.own["greedy"]); got != 1 {
		t.Errorf("%d topics are counted for a client that watches one", got)
	}
}

func TestFull(t *testing.T) {
	var b Board
	defer b.Close()
	var asked atomic.Int64
	for i := range MaxTopics {
		as := counting(&asked, 0)
		as.Client = fmt.Sprint("client ", i%2)
		if _, err := b.Watch(fmt.Sprint(i), as); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Watch("more", counting(&asked, 0)); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if _, err := b.Watch("0", counting(&asked, 0)); err != nil {
		t.Errorf("one more of a topic that is there: %v", err)
	}
}

// The first document of a topic is made for somebody: it is not an empty one of a moment in which
// nobody watched yet.
func TestTheFirstDocument(t *testing.T) {
	var b Board
	defer b.Close()
	var asked atomic.Int64
	for i := range 2_000 {
		w, err := b.Watch(fmt.Sprint(i%5), counting(&asked, 0))
		if err != nil {
			t.Fatal(err)
		}
		if next(t, w) == "" {
			t.Fatalf("round %d: an empty document", i)
		}
		w.Close()
	}
}
