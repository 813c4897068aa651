package dashboard

import (
	"context"
	"maps"
	"sync"
	"time"
)

const (
	// every is how long an answer is given again at least.
	every = time.Second
	// costShare: an answer is given again for so many times what it took to make, times the number of answers.
	costShare = 20
	// maxRest is how long an answer is given again at most.
	maxRest = time.Minute
	// maxMaking bounds the time that an answer takes: unreachable nodes are waited for within it.
	maxMaking = 10 * time.Second
	// forgetAfter is how long an answer is kept that nobody asks for.
	forgetAfter = 10 * time.Second
	// maxAnswers bounds the answers. A further one takes the place of the one that nobody has asked for longest.
	maxAnswers = 256
)

// Answers are the newest answers to what pages ask again and again. All pages that ask the same share one answer. The zero
// Answers are ready; they are safe for many goroutines.
//
// Invariants. One request makes an answer, while others get the one before; they wait if there is none. All answers
// together take about one part in costShare of a core, as long as they take less than maxRest.
type Answers struct {
	mu   sync.Mutex
	list map[string]*shared
}

// shared is one answer. Its fields are guarded by Answers.mu.
type shared struct {
	answer any
	err    error         // in place of the answer
	known  bool          // there is an answer, or an error
	making chan struct{} // closed when the next answer is made; nil: nobody makes one
	next   time.Time     // when the next one may be made
	asked  time.Time
}

// Shared returns the answer of a name. It calls ask if there is none, or a newer one is due. All asks of one name must
// answer the same.
func Shared[T any](ctx context.Context, answers *Answers, name string, ask func(context.Context) (T, error)) (answer T, err error) {
	for {
		s, now, due := answers.enter(name)
		if due {
			limited, cancel := context.WithTimeout(ctx, maxMaking)
			defer cancel()
			began, returned := time.Now(), false
			defer func() { answers.leave(s, answer, err, time.Since(began), returned && ctx.Err() == nil) }()
			answer, err = ask(limited)
			returned = true
			return answer, err
		}
		if now.known {
			answer, _ = now.answer.(T)
			return answer, now.err
		}
		select {
		case <-now.making: // if the client left that made it, this request may have to
		case <-ctx.Done():
			return answer, context.Cause(ctx)
		}
	}
}

// enter returns an answer, and its state now. If it is due, the caller makes the next one, and calls leave.
func (a *Answers) enter(name string) (s *shared, now shared, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s = a.list[name]; s == nil {
		if a.list == nil {
			a.list = map[string]*shared{}
		}
		if len(a.list) >= maxAnswers {
			a.forgetOldest()
		}
		s = &shared{}
		a.list[name] = s
	}
	asked := s.asked
	s.asked = time.Now()
	if due = s.making == nil && !s.asked.Before(s.next); due {
		s.making = make(chan struct{})
		s.known = s.known && s.asked.Sub(asked) <= forgetAfter // an older one is given to nobody meanwhile
	}
	return s, *s, due
}

// leave ends the making of an answer, and keeps it if it is good.
func (a *Answers) leave(s *shared, answer any, err error, took time.Duration, good bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(s.making)
	s.making = nil
	if !good {
		return
	}
	now := time.Now()
	maps.DeleteFunc(a.list, func(_ string, s *shared) bool { return s.making == nil && now.Sub(s.asked) > forgetAfter })
	s.answer, s.err, s.known = answer, err, true
	s.next = now.Add(min(max(every, took*costShare*time.Duration(len(a.list))), maxRest))
}

// forgetOldest forgets the answer that nobody has asked for longest. The caller holds mu.
func (a *Answers) forgetOldest() {
	oldest := ""
	for name, s := range a.list {
		if oldest == "" || s.asked.Before(a.list[oldest].asked) {
			oldest = name
		}
	}
	delete(a.list, oldest)
}
