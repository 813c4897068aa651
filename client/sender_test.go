package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fleet is nodes in memory, each of which knows its own requests alone: a batch that is counted at two
// of them counts twice.
type fleet struct {
	mu       sync.Mutex
	counted  map[string]uint64            // by key
	seconds  map[int64]uint64             // by second
	receipts map[string]map[string]string // by node and idempotency key
	asked    map[string]int               // by node
	fault    func(host string) fault      // of the next request
}

type fault int

const (
	none fault = iota
	unreachable
	lostBefore // no answer, and nothing counted
	lostAfter  // no answer, and counted
	silent     // no answer until the client gives up, and counted
	overloaded
	partly // the second half is refused
	proxied
	unauthorized
)

func newFleet(t *testing.T, nodes int, o SenderOptions) (*fleet, *Sender) {
	t.Helper()
	f := &fleet{
		counted: map[string]uint64{}, seconds: map[int64]uint64{}, receipts: map[string]map[string]string{}, asked: map[string]int{},
		fault: func(string) fault { return none },
	}
	var addresses []string
	for i := range nodes {
		addresses = append(addresses, fmt.Sprintf("n%d", i))
	}
	c, err := New(strings.Join(addresses, ","), Options{HTTPClient: &http.Client{Transport: f}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSender(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return f, s
}

func (f *fleet) set(by func(host string) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = by
}

func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	host := r.URL.Host
	f.asked[host]++
	problem := http.Header{"Content-Type": {"application/problem+json"}}
	what := f.fault(host)
	switch what {
	case unreachable:
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	case lostBefore:
		return nil, io.ErrUnexpectedEOF
	case overloaded:
		return respond(503, problem, `{"code":"overloaded","detail":"behind"}`), nil
	case proxied:
		return respond(502, http.Header{}, "bad gateway"), nil
	case unauthorized:
		return respond(401, problem, `{"code":"unauthorized","detail":"who?"}`), nil
	}
	answer := f.count(host, r.Header.Get("Idempotency-Key"), string(body), what == partly)
	switch what {
	case lostAfter:
		return nil, io.ErrUnexpectedEOF
	case silent:
		f.mu.Unlock()
		<-r.Context().Done()
		f.mu.Lock()
		return nil, r.Context().Err()
	}
	return respond(200, nil, answer), nil
}

// count counts a body once, and answers.
func (f *fleet) count(host, key, body string, half bool) string {
	if f.receipts[host] == nil {
		f.receipts[host] = map[string]string{}
	}
	if known, ok := f.receipts[host][key]; ok {
		return known
	}
	var answer struct {
		Counted   uint64        `json:"counted"`
		TooLate   uint64        `json:"too_late"`
		Rejected  int           `json:"rejected_lines"`
		Lines     []interface{} `json:"rejected"`
		RetryFrom int           `json:"retry_from,omitempty"`
	}
	answer.Lines = []interface{}{}
	lines := 0
	for text := bufio.NewScanner(strings.NewReader(body)); text.Scan(); {
		if lines++; half && lines > strings.Count(body, "\n")/2 && lines > 1 {
			answer.RetryFrom = lines
			break
		}
		hit := struct {
			Key string
			N   uint64
			At  int64
		}{N: 1}
		if err := json.Unmarshal(text.Bytes(), &hit); err != nil {
			panic(err)
		}
		switch hit.Key {
		case "late":
			answer.TooLate += hit.N
		case "wrong":
			answer.Rejected++
		default:
			answer.Counted += hit.N
			f.counted[hit.Key] += hit.N
			f.seconds[hit.At] += hit.N
		}
	}
	written, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	f.receipts[host][key] = string(written)
	return string(written)
}

func (f *fleet) total() (n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, counted := range f.counted {
		n += counted
	}
	return n
}

func (f *fleet) requests(host string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[host]
}

func (f *fleet) countOf(key string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counted[key]
}

func (f *fleet) at(second int64) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seconds[second]
}

func mustHit(t *testing.T, s *Sender, key string, n uint64) {
	t.Helper()
	if err := s.HitN(key, n); err != nil {
		t.Fatal(err)
	}
}

// Hits add up by key and second, and are sent every interval.
func TestSenderSums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFleet(t, 1, SenderOptions{})
		start := time.Now().Unix()
		for range 1000 {
			mustHit(t, s, "a", 1)
			mustHit(t, s, "é\"", 2)
		}
		if f.total() != 0 {
			t.Error("sent at once")
		}
		time.Sleep(101 * time.Millisecond)
		if f.total() != 3000 || f.requests("n0") != 1 || f.countOf("é\"") != 2000 {
			t.Errorf("%d after %d requests", f.total(), f.requests("n0"))
		}
		time.Sleep(time.Minute)
		if f.requests("n0") != 1 {
			t.Error("asked without hits")
		}
		mustHit(t, s, "a", 1)
		if err := s.HitAt(time.Now().Add(-10*time.Second), "a", 5); err != nil {
			t.Error(err)
		}
		if err := s.Flush(t.Context()); err != nil || f.at(start) != 3000 || f.at(start+60) != 1 || f.at(start+50) != 5 {
			t.Errorf("%v, %d", err, f.total())
		}
		mustHit(t, s, "late", 3)
		mustHit(t, s, "wrong", 4)
		if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "4 were rejected, 3 too late") {
			t.Error(err)
		}
		want := SenderStats{Taken: 3013, Counted: 3006, TooLate: 3, Rejected: 4}
		if got := s.Stats(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if err := s.Hit("a"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := s.Close(t.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// What a server that is away would have counted waits up to the bound, in one request when it is back, and
// what is beyond is refused and counted.
func TestSenderOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, away := range []fault{unreachable, lostBefore, lostAfter, silent, overloaded, proxied, unauthorized} {
			f, s := newFleet(t, 1, SenderOptions{MaxLines: 100})
			f.set(func(string) fault { return away })
			var refused uint64
			for second := range 60 {
				for k := range 5 {
					for range 10 {
						if err := s.Hit(fmt.Sprint("k", k)); errors.Is(err, ErrFull) {
							refused++
						} else if err != nil {
							t.Fatal(err)
						}
					}
				}
				if second == 30 && s.Stats().Lines > 100 {
					t.Error("beyond the bound")
				}
				time.Sleep(time.Second)
			}
			asked := f.requests("n0")
			f.set(func(string) fault { return none })
			if err := s.Close(t.Context()); err != nil {
				t.Errorf("%v: %v", away, err)
			}
			st := s.Stats()
			if refused == 0 || st.Refused != refused || st.Taken+refused != 3000 || st.Counted != st.Taken || f.total() != st.Taken || st.Taken < 950 {
				t.Errorf("%v: %d refused, %d counted, %+v", away, refused, f.total(), st)
			}
			if asked > 40 || f.requests("n0") > asked+3 {
				t.Errorf("%v: asked %d times while it was away, and %d then", away, asked, f.requests("n0")-asked)
			}
		}
	})
}

// While a node has a batch in doubt the others take what is new, and it counts once when that node is back.
func TestSenderFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFleet(t, 3, SenderOptions{})
		f.set(func(host string) fault {
			if host == "n0" {
				return lostAfter
			}
			return none
		})
		mustHit(t, s, "doubtful", 1)
		time.Sleep(200 * time.Millisecond)
		for range 100 {
			mustHit(t, s, "new", 1)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		if f.countOf("new") != 100 || f.requests("n1") < 50 || f.requests("n2") != 0 || s.Stats().Waiting != 1 {
			t.Errorf("%d by %d and %d; %+v", f.total(), f.requests("n0"), f.requests("n1"), s.Stats())
		}
		f.set(func(string) fault { return none })
		if err := s.Close(t.Context()); err != nil || f.countOf("doubtful") != 1 || s.Stats().Counted != 101 {
			t.Errorf("%v, %d, %+v", err, f.total(), s.Stats())
		}
	})
}

// A node that never comes back: its one batch is dropped and said, or sent elsewhere.
func TestSenderGivesUp(t *testing.T) {
	for _, atLeastOnce := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var said []string
			f, s := newFleet(t, 2, SenderOptions{AtLeastOnce: atLeastOnce, GiveUp: time.Minute, Notify: func(err error) { said = append(said, err.Error()) }})
			f.set(func(host string) fault {
				if host == "n0" {
					return lostBefore
				}
				return none
			})
			mustHit(t, s, "a", 7)
			time.Sleep(59 * time.Second)
			if st := s.Stats(); st.Waiting != 7 || st.InDoubt != 0 || f.total() != 0 {
				t.Errorf("before: %+v", st)
			}
			time.Sleep(2 * time.Second)
			err := s.Close(t.Context())
			st, last := s.Stats(), said[len(said)-1]
			switch {
			case atLeastOnce && (err != nil || st.Counted != 7 || f.total() != 7 || !strings.Contains(last, "also to other nodes")):
				t.Errorf("at least once: %v, %+v, %s", err, st, last)
			case !atLeastOnce && (err == nil || st.InDoubt != 7 || f.total() != 0 || st.Lines != 0 || !strings.Contains(last, "7 hits that it did not answer in 1m0s nobody knows whether they count: they are dropped")):
				t.Errorf("at most once: %v, %+v, %s", err, st, last)
			}
		})
	}
}

// Whatever happens to requests, in any order and at any node: every hit counts once, in its second.
func TestSenderCountsOnce(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r, network := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)) // network is guarded by f.mu
			nodes := r.IntN(3) + 1
			f, s := newFleet(t, nodes, SenderOptions{MaxLines: 500})
			modes := make([]fault, nodes)
			f.set(func(host string) fault {
				if network.IntN(3) == 0 {
					return fault(network.IntN(int(unauthorized) + 1))
				}
				return modes[host[1]-'0']
			})
			want, seconds := map[string]uint64{}, map[int64]uint64{}
			for range 600 {
				key, n := fmt.Sprint("k", r.IntN(8)), r.Uint64N(3)+1
				if err := s.HitN(key, n); err == nil {
					want[key] += n
					seconds[time.Now().Unix()] += n
				} else if !errors.Is(err, ErrFull) {
					t.Fatal(err)
				}
				if r.IntN(20) == 0 {
					f.mu.Lock()
					modes[r.IntN(nodes)] = fault(r.IntN(int(unauthorized) + 1))
					f.mu.Unlock()
				}
				time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			}
			f.set(func(string) fault { return none })
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			for key := range want {
				if f.countOf(key) != want[key] {
					t.Errorf("seed %d: %s has %d, want %d", seed, key, f.countOf(key), want[key])
				}
			}
			for second := range seconds {
				if f.at(second) != seconds[second] {
					t.Errorf("seed %d: second %d has %d, want %d", seed, second, f.at(second), seconds[second])
				}
			}
			if st := s.Stats(); st.Waiting != 0 || st.Lines != 0 || st.Bytes != 0 || st.Counted != f.total() {
				t.Errorf("seed %d: %+v", seed, st)
			}
		})
	}
}

// Close ends when its time does, with all goroutines, and says what is left.
func TestSenderCloseInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, what := range []fault{unreachable, lostAfter, silent} {
			f, s := newFleet(t, 2, SenderOptions{})
			f.set(func(string) fault { return what })
			mustHit(t, s, "a", 3)
			time.Sleep(time.Second)
			mustHit(t, s, "b", 2)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := s.Close(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "5 hits are not sent or not answered") {
				t.Errorf("%v: %v", what, err)
			}
		}
	})
}

// A burst that would fill the bound before its time is sent at once.
func TestSenderBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFleet(t, 1, SenderOptions{MaxLines: 100, Every: time.Hour})
		for i := range 1000 {
			mustHit(t, s, fmt.Sprint("k", i), 1)
			synctest.Wait()
		}
		if n := f.total(); n < 950 || n == 1000 || f.requests("n0") > 20 {
			t.Errorf("%d counted after %d requests", n, f.requests("n0"))
		}
		if err := s.Close(t.Context()); err != nil || f.total() != 1000 {
			t.Errorf("%v, %d counted", err, f.total())
		}
	})
}

// A server that takes smaller batches gets them.
func TestSenderSplits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		c, _ := newTest(t, func(_ int, r *http.Request) (*http.Response, error) {
			requests++
			body, err := io.ReadAll(r.Body)
			if lines := strings.Count(string(body), "\n"); lines > 30 {
				return respond(413, http.Header{"Content-Type": {"application/problem+json"}}, `{"code":"too_many_lines","detail":"many"}`), err
			} else {
				return respond(200, nil, fmt.Sprintf(`{"counted":%d,"rejected":[]}`, lines)), err
			}
		}, Options{})
		s, err := NewSender(c, SenderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			mustHit(t, s, fmt.Sprint(i), 1)
		}
		if err := s.Close(t.Context()); err != nil || s.Stats().Counted != 100 || requests != 6 {
			t.Errorf("%v, %+v, %d requests", err, s.Stats(), requests)
		}
	})
}

func TestSenderOptions(t *testing.T) {
	c, err := New("n0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []SenderOptions{{Every: time.Microsecond}, {Every: 2 * time.Hour}, {MaxLines: -1}, {MaxBytes: 100}, {Timeout: -1}, {GiveUp: -1}, {GiveUp: 10 * time.Minute}} {
		if _, err := NewSender(c, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if _, err := NewSender(nil, SenderOptions{}); err == nil {
		t.Error("no client, no error")
	}
}

// Close without a time of its own ends: at once where every node refuses who sends, after a bound where none answers. It says why.
func TestSenderCloseWithoutTime(t *testing.T) {
	for _, c := range []struct {
		what   fault
		within time.Duration
		why    string
	}{
		{unauthorized, 100 * time.Millisecond, "n1: who? (unauthorized)"},
		{unreachable, closeTimeout, "not within 10s"},
		{silent, closeTimeout, "not within 10s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, s := newFleet(t, 2, SenderOptions{})
			f.set(func(string) fault { return c.what })
			for range 3 {
				mustHit(t, s, "a", 1)
				time.Sleep(time.Second)
			}
			start := time.Now()
			err := s.Close(context.Background())
			if err == nil || !strings.Contains(err.Error(), "3 hits are not sent or not answered") || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v: %v", c.what, err)
			}
			if took := time.Since(start); took > c.within {
				t.Errorf("%v: it took %v", c.what, took)
			}
		})
	}
}

// A token that was corrected before Close is good for it.
func TestSenderCloseAfterDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFleet(t, 1, SenderOptions{})
		f.set(func(string) fault { return unauthorized })
		mustHit(t, s, "a", 3)
		time.Sleep(time.Minute)
		f.set(func(string) fault { return none })
		if err := s.Close(context.Background()); err != nil || f.total() != 3 {
			t.Errorf("%v, %d counted", err, f.total())
		}
	})
}
