package middleware

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir"
)

// Many clients at once, on a clock that stands still while they ask: by brute force, no
// interval has more than the limit, and none of it is lost while they all ask for it.
func TestNeverMoreInAnyWindow(t *testing.T) {
	const n, per = 30, 100 * time.Millisecond
	c := newClock()
	e := newEngine(t, c)
	next, calls := handled()
	h := newMiddleware(t, Config{
		Decider: Limits(e, newLimit(t, e, "client", n, per), newLimit(t, e, "all", 1_000_000, time.Hour)),
		Rules:   []Rule{{Limit: "client", Key: byAddress}, {Limit: "all", Key: byAddress}},
	}).Wrap(next)
	type admissions struct {
		at time.Time
		n  int
	}
	var admitted []admissions
	steps := []time.Duration{0, 7 * time.Millisecond, 1, 50 * time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, 13 * time.Millisecond, 3 * time.Millisecond}
	for round := range 40 {
		c.add(steps[round%len(steps)])
		before := calls()
		var together sync.WaitGroup
		for range 4 {
			together.Go(func() {
				for range 10 {
					ask(h, request())
				}
			})
		}
		together.Wait()
		admitted = append(admitted, admissions{c.Now(), calls() - before})
	}
	total := 0
	for i, last := range admitted {
		within := 0
		for _, a := range admitted[:i+1] {
			if last.at.Sub(a.at) < per {
				within += a.n
			}
		}
		if within > n {
			t.Errorf("%d admissions in the %v up to %v", within, per, last.at)
		}
		total += last.n
	}
	if total < 2*n {
		t.Errorf("only %d admissions", total)
	}
}

// The same through real servers and sockets and on the system's clock. A request was
// admitted between its begin and its end, so those within any interval are too many if
// they are more than the limit.
func TestNeverMoreOverSockets(t *testing.T) {
	const n, per = 20, 50 * time.Millisecond
	e, err := weir.New(weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	next, _ := handled()
	m := newMiddleware(t, Config{Decider: Limits(e, newLimit(t, e, "client", n, per)), Rules: []Rule{{Limit: "client", Key: byAddress}}})
	server := httptest.NewServer(m.Wrap(next))
	defer server.Close()
	type span struct{ begin, end time.Duration }
	start := time.Now()
	perWorker := make([][]span, 8)
	var together sync.WaitGroup
	for i := range perWorker {
		together.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for time.Since(start) < 8*per {
				begin := time.Since(start)
				answer, err := client.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					perWorker[i] = append(perWorker[i], span{begin, time.Since(start)})
				}
			}
		})
	}
	together.Wait()
	spans := slices.Concat(perWorker...)
	if len(spans) < n || uint64(len(spans)) != m.Stats().Allowed {
		t.Errorf("%d admitted, %+v", len(spans), m.Stats())
	}
	for _, first := range spans {
		within := 0
		for _, s := range spans {
			if s.begin >= first.begin && s.end < first.begin+per {
				within++
			}
		}
		if within > n {
			t.Errorf("%d admissions in %v", within, per)
		}
	}
}

func BenchmarkInProcess(b *testing.B) {
	c := newClock()
	e := newEngine(b, c)
	m := newMiddleware(b, Config{
		Decider: Limits(e, newLimit(b, e, "client", 1_000_000_000, time.Hour)),
		Rules:   []Rule{{Limit: "client", Key: byAddress}},
	})
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w := httptest.NewRecorder()
	r := request()
	b.ReportAllocs()
	for b.Loop() {
		clear(w.Header())
		h.ServeHTTP(w, r)
	}
}
