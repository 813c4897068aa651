package replica

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
)

// soundLog is a log that loses nothing.
type soundLog struct {
	mu       sync.Mutex
	messages [][]byte
}

func (l *soundLog) add(parts [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, parts...)
}

func (l *soundLog) Message(sequence uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence > uint64(len(l.messages)) {
		return nil, ErrNoMessage
	}
	return l.messages[sequence-1], nil
}

func (l *soundLog) len() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.messages))
}

func (l *soundLog) Resend(record.Incarnation, uint64, uint64) ([]byte, error) {
	return nil, ErrUnreachable
}

// What TestSimulation can't see, in its one goroutine: nodes cut while they follow, and
// delete keys that others hit. All count what is in the log after a key's last removal.
func TestCutBesideRemovals(t *testing.T) {
	const nodes, cuts = 2, 200
	log := &soundLog{}
	now := time.Unix(1_700_000_000, 0)
	var engines []*engine.Engine
	var cutting, following sync.WaitGroup
	done := make(chan struct{})
	for i := range nodes {
		e, err := engine.New(engine.Config{Partitions: 2, Clock: engine.EventClock, Gather: true, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		engines = append(engines, e)
		r := New(e, uint64(i+1), fmt.Sprint("n", i+1), true)
		r.Begin(record.Incarnation{Origin: uint64(i + 1), Epoch: 1})
		log.add(r.Hello(now))
		r.Ready()
		cutting.Go(func() {
			for at := range cuts {
				for k := range nodes * cuts {
					if _, err := e.HitAt(now, fmt.Sprint("k", k), 1); err != nil {
						t.Error(err)
					}
				}
				if _, err := e.Delete(fmt.Sprint("k", nodes*at+i)); err != nil {
					t.Error(err)
				}
				log.add(r.Cut(now, CutOptions{}).Parts)
				for log.len() > r.Next()+4 { // who is far behind meets no cut
					runtime.Gosched()
				}
			}
		})
		following.Go(func() {
			for ended := false; ; {
				if data, err := log.Message(r.Next()); err == nil {
					if _, err := r.Follow(now, r.Next(), data, log); err != nil {
						t.Error(err)
						return
					}
				} else if ended {
					return
				}
				select {
				case <-done:
					ended = true
				default:
				}
			}
		})
	}
	cutting.Wait()
	close(done)
	following.Wait()
	want := map[string]uint64{}
	for _, data := range log.messages {
		p, err := record.DecodePart(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range p.Batches {
			for _, d := range b.Deltas() {
				if want[d.Key] += d.N; d.N == 0 {
					want[d.Key] = 0
				}
			}
		}
	}
	for i, e := range engines {
		for key, n := range want {
			if got, err := e.CountAt(now, key, time.Minute); err != nil || got.Lower != n || got.Upper != n {
				t.Errorf("node %d counts %+v of %s, want %d, %v", i+1, got, key, n, err)
			}
		}
	}
}
