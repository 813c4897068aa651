package admit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// waitingLive is policies on an engine whose clock is that of the bubble that the test is in.
func waitingLive(t *testing.T, text string) *Live {
	t.Helper()
	return liveOn(t, engine.Config{}, text)
}

// arrival is a request that comes at a time, and what became of it.
type arrival struct {
	at, end time.Duration
	allowed bool
}

// Requests wait in the order in which they came, pass as soon as the limit lets them, and are denied at once when that is not within
// the wait: exactly as a queue that is computed by hand. No interval has more than the limit.
func TestWaitIsAQueue(t *testing.T) {
	const per, burst, wait = time.Second, 5, 200 * time.Millisecond
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			l := waitingLive(t, "limits:\n- {name: api, keys: \"api:*\", limit: 5, per: 1s, wait: 200ms}\n")
			random := rand.New(rand.NewPCG(seed, 7))
			began := time.Now()
			all := make([]arrival, 100)
			var asking sync.WaitGroup
			for i := range all {
				all[i].at = time.Since(began)
				asking.Go(func() {
					var d Decision
					if err := l.Take([]Request{{Key: "api:a", N: 1}}, &d); err != nil {
						t.Error(err)
					}
					all[i].allowed, all[i].end = d.Allowed, time.Since(began)
					if waited := all[i].end - all[i].at; d.Waited != waited || !d.Allowed && (waited > 0 || d.RetryAfter <= wait) {
						t.Errorf("seed %d: %+v waited %v, says %v, again in %v", seed, all[i], waited, d.Waited, d.RetryAfter)
					}
				})
				synctest.Wait() // it is in line
				time.Sleep(time.Duration(1+random.IntN(2*int(per/burst/time.Millisecond)/3)) * time.Millisecond)
			}
			asking.Wait()
			var passed []time.Duration
			for _, a := range all {
				when := a.at
				if n := len(passed); n > 0 {
					when = max(when, passed[n-1])
					if n >= burst {
						when = max(when, passed[n-burst]+per)
					}
				}
				if want := when-a.at <= wait; a.allowed != want || want && a.end != when {
					t.Fatalf("seed %d: %+v, want allowed %v at %v", seed, a, want, when)
				}
				if a.allowed {
					passed = append(passed, a.end)
				}
			}
			if denied := len(all) - len(passed); denied == 0 || len(l.lines.byKey) > 0 || l.lines.waiting.Load() != 0 {
				t.Errorf("seed %d: %d denied, %d lines, %d wait", seed, denied, len(l.lines.byKey), l.lines.waiting.Load())
			}
		})
	}
}

// A client that hangs up while it waits gives its turn to those behind it, wherever it stands in the line; nobody passes before one that came
// earlier, and nothing is taken for a client that is gone.
func TestHangUpWhileWaiting(t *testing.T) {
	for hangsUp, want := range [][]time.Duration{{0, time.Second, 2 * time.Second}, {time.Second, 0, 2 * time.Second}, {time.Second, 2 * time.Second, 0}} {
		synctest.Test(t, func(t *testing.T) {
			l := waitingLive(t, "limits:\n- {name: api, keys: \"api:*\", limit: 3, per: 3s, wait: 5s}\n")
			req := []Request{{Key: "api:a", N: 1}}
			for second := range 3 { // so that one passes each second
				var d Decision
				if err := l.Take(req, &d); err != nil || !d.Allowed {
					t.Fatal(err)
				}
				if second < 2 {
					time.Sleep(time.Second)
				}
			}
			began := time.Now()
			var ended [3]time.Duration
			var asking sync.WaitGroup
			ctx, hangUp := context.WithCancel(t.Context())
			for i := range ended {
				asking.Go(func() {
					var d Decision
					if i == hangsUp {
						d.Context = ctx
					}
					switch err := l.Take(req, &d); {
					case i == hangsUp:
						l.lines.mu.Lock()
						lines := len(l.lines.byKey)
						l.lines.mu.Unlock()
						if !errors.Is(err, context.Canceled) || lines != 1 {
							t.Errorf("%v after %v, %d lines", err, time.Since(began), lines)
						}
					case err != nil || !d.Allowed:
						t.Errorf("%+v, %v", d, err)
					default:
						ended[i] = time.Since(began)
					}
				})
				synctest.Wait() // it is in line
			}
			time.Sleep(time.Second / 2)
			hangUp()
			asking.Wait()
			if synctest.Wait(); !slices.Equal(ended[:], want) {
				t.Errorf("number %d hangs up: the others pass at %v, want %v", hangsUp, ended, want)
			}
			if len(l.lines.byKey) > 0 || l.lines.waiting.Load() != 0 {
				t.Errorf("%d lines, %d wait", len(l.lines.byKey), l.lines.waiting.Load())
			}
		})
	}
}

// A request waits only as long as all that deny it let it, and whoever asks; peeks and reservations do not wait.
func TestWhoDoesNotWait(t *testing.T) {
	for name, c := range map[string]struct {
		limits string
		ask    func(l *Live, d *Decision) error
		waits  bool
	}{
		"waits":              {"- {name: a, keys: \"k\", limit: 1, per: 1s, wait: 1s}\n", nil, true},
		"too long":           {"- {name: a, keys: \"k\", limit: 1, per: 1s, wait: 999ms}\n", nil, false},
		"another does not":   {"- {name: a, keys: \"k\", limit: 1, per: 1s, wait: 1s}\n- {name: b, keys: \"k\", limit: 1, per: 1s}\n", nil, false},
		"another waits less": {"- {name: a, keys: \"k\", limit: 1, per: 1s, wait: 1s}\n- {name: b, keys: \"k\", limit: 1, per: 1s, wait: 500ms}\n", nil, false},
		"another shadows":    {"- {name: a, keys: \"k\", limit: 1, per: 1s, wait: 1s}\n- {name: b, keys: \"k\", limit: 1, per: 1m, mode: shadow}\n", nil, true},
		"nobody stays": {"- {name: a, keys: \"k\", limit: 1, per: 1s, wait: 1s}\n", func(l *Live, d *Decision) error {
			d.Until = time.Now().Add(time.Second - 1)
			return l.Take([]Request{{Key: "k", N: 1}}, d)
		}, false},
		"a peek": {"- {name: a, keys: \"k\", limit: 1, per: 1s, wait: 1s}\n", func(l *Live, d *Decision) error { return l.Peek([]Request{{Key: "k", N: 1}}, d) }, false},
		"a reservation": {"- {name: a, keys: \"k\", limit: 1, per: 1s, wait: 1s}\n", func(l *Live, d *Decision) error {
			return l.Reserve([]Request{{Key: "k", N: 1}}, engine.Reservation{ID: "r", Until: time.Now().Add(time.Minute)}, d)
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := waitingLive(t, "limits:\n"+c.limits)
			ask := c.ask
			if ask == nil {
				ask = func(l *Live, d *Decision) error { return l.Take([]Request{{Key: "k", N: 1}}, d) }
			}
			var first, second Decision
			if err := l.Take([]Request{{Key: "k", N: 1}}, &first); err != nil || !first.Allowed || first.Waited != 0 {
				t.Fatalf("%s: %+v, %v", name, first, err)
			}
			began := time.Now()
			if err := ask(l, &second); err != nil || second.Allowed != c.waits || time.Since(began) != second.Waited || (second.Waited == time.Second) != c.waits {
				t.Errorf("%s: allowed %v after %v, %v", name, second.Allowed, time.Since(began), err)
			}
		})
	}
}

// Who finds no space in line is denied, for as long as all before need.
func TestNoSpaceToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := waitingLive(t, "limits:\n- {name: a, keys: \"k\", limit: 2, per: 1s, wait: 1s}\n")
		var d Decision
		reqs := []Request{{Key: "k", N: 2}}
		if err := l.Take(reqs, &d); err != nil || !d.Allowed {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			var d Decision
			err := l.Take([]Request{{Key: "k", N: 2}}, &d)
			if !d.Allowed {
				err = fmt.Errorf("denied: %w", err)
			}
			done <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second - 1)
		if wait, err := l.TakeOrWait([]Request{{Key: "k", N: 1}}, &d); !wait || err != nil {
			t.Fatal(wait, err)
		}
		if err := l.Refuse([]Request{{Key: "k", N: 1}}, &d); err != nil || d.Allowed || d.RetryAfter <= 0 || d.Denied == nil {
			t.Errorf("%+v, %v", d, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWaitOfAFile(t *testing.T) {
	for value, fault := range map[string]string{
		"200ms": "", "10s": "", "0.5ms": "must be 1ms to 10s", "11s": "must be 1ms to 10s", "soon": "is not a duration",
	} {
		_, err := policy.Parse("p.yaml", []byte("limits:\n- {name: a, keys: \"k\", limit: 1, per: 1s, wait: "+value+"}\n"))
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
