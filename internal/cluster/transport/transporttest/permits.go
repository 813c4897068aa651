package transporttest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Permits asks some node of a cluster for permits of how many at once.
type Permits interface {
	// Take takes a permit of a key; ok is false where it was denied, or there was no answer.
	Take(key string) (id string, ok bool)

	// Renew is a heartbeat.
	Renew(id string) (held, answered bool)

	// Release gives a permit back; that there was no answer is no matter.
	Release(id string)
}

// Holds records when workers held permits, as the workers see it. A permit is held from the answer until the worker
// gives it back. If the worker does not give it back, it is held until a ttl after sending the last heartbeat that was
// answered in time. The zero Holds is ready for use; it may be used by many goroutines.
type Holds struct {
	mu      sync.Mutex
	held    map[string][]hold // by key
	refused int
	lost    int
}

type hold struct{ from, until time.Time }

// Work has a worker take permits of keys, keep them for a while, and give them back or die, until over is closed. A
// heartbeat that is sent in time and answered "lost" fails the test.
func (h *Holds) Work(t testing.TB, ask Permits, keys []string, ttl time.Duration, seed uint64, over <-chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 7))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for {
		select {
		case <-over:
			return
		case <-time.After(upTo(20 * time.Millisecond)):
		}
		key, sent := keys[random.IntN(len(keys))], time.Now()
		id, ok := ask.Take(key)
		at := hold{time.Now(), sent.Add(ttl)}
		if !ok || !at.from.Before(at.until) {
			h.count(&h.refused)
			continue
		}
		h.keep(t, ask, id, &at, ttl, random.IntN(4), upTo)
		if dies := random.IntN(3) == 0; !dies && time.Now().Before(at.until) {
			at.until = time.Now()
			ask.Release(id)
		}
		h.note(key, at)
	}
}

func (h *Holds) keep(t testing.TB, ask Permits, id string, at *hold, ttl time.Duration, beats int, upTo func(time.Duration) time.Duration) {
	for range beats {
		<-time.After(upTo(ttl * 2 / 5))
		sent := time.Now()
		if !sent.Before(at.until) {
			h.count(&h.lost)
			return
		}
		held, answered := ask.Renew(id)
		switch now := time.Now(); {
		case !answered:
		case !now.Before(at.until): // the answer comes too late
		case !held:
			t.Errorf("a permit was lost %v before its time was over", at.until.Sub(now))
			at.until = now
			return
		default:
			at.until = sent.Add(ttl)
		}
	}
}

func (h *Holds) count(what *int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*what++
}

func (h *Holds) note(key string, at hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[string][]hold{}
	}
	h.held[key] = append(h.held[key], at)
}

// Most is the most that ever held a permit of a key at once, and how many did in all. By brute force: it looks at each moment at which one was
// given.
func (h *Holds) Most(key string) (most, all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.held[key] {
		n := 0
		for _, other := range h.held[key] {
			if !other.from.After(one.from) && one.from.Before(other.until) {
				n++
			}
		}
		most = max(most, n)
	}
	return most, len(h.held[key])
}

func (h *Holds) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%d refused, %d lost for want of an answer", h.refused, h.lost)
}
