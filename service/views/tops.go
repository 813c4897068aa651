package views

import (
	"context"
	"sync"
	"time"
)

const (
	// patience is how long a view waits for a list that takes long: it shows the one before.
	patience = 50 * time.Millisecond
	// topShare: a list rests for so many times what it took, times the number of lists.
	topShare = 20
	// maxRest is how long a list rests at most.
	maxRest = time.Minute
	// maxMaking bounds the time that a list takes.
	maxMaking = 10 * time.Second
	// maxLists bounds the lists; one that nobody has asked for longest makes room.
	maxLists = 256
)

// Tops are the lists of the keys that have most hits, by what was asked. To find them takes as long as there are keys:
// 0.6 s for a million. A view that is made each second does not wait for that: it counts the keys of the newest list
// there is, while the next is made aside. All lists together take a twentieth of a core. The zero Tops is ready.
type Tops struct {
	mu      sync.Mutex
	lists   map[string]*topList
	ctx     context.Context // of all that runs; ended by Close
	end     context.CancelFunc
	running sync.WaitGroup
	one     sync.Mutex // held by the list that is being made
}

// topList is one list.
type topList struct {
	keys  []string
	err   error         // in place of them
	known bool          // there are keys, or an error
	made  chan struct{} // closed when the next list is made; nil: none is being made
	next  time.Time     // when it may be made again
	asked time.Time
}

// Close ends what runs, and returns when it has ended.
func (t *Tops) Close() {
	t.mu.Lock()
	t.begin()
	t.end()
	t.mu.Unlock()
	t.running.Wait()
}

func (t *Tops) begin() {
	if t.lists == nil {
		t.lists = map[string]*topList{}
		t.ctx, t.end = context.WithCancel(context.Background())
	}
}

// keys are the newest list of a name; known tells whether there is one yet. ask makes it: asks of one name must make the same.
func (t *Tops) keys(ctx context.Context, name string, ask func(context.Context) ([]string, error)) (keys []string, known bool, err error) {
	t.mu.Lock()
	t.begin()
	l := t.lists[name]
	if l == nil {
		t.makeRoom()
		l = &topList{}
		t.lists[name] = l
	}
	now := time.Now()
	l.asked = now
	if l.made == nil && !now.Before(l.next) && t.ctx.Err() == nil {
		l.made = make(chan struct{})
		t.running.Go(func() { t.make(l, ask) })
	}
	made := l.made
	t.mu.Unlock()
	if made != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-made:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.keys, l.known, l.err
}

// make makes a list anew.
func (t *Tops) make(l *topList, ask func(context.Context) ([]string, error)) {
	t.one.Lock()
	defer t.one.Unlock()
	ctx, cancel := context.WithTimeout(t.ctx, maxMaking)
	defer cancel()
	began := time.Now()
	keys, err := ask(ctx)
	took := time.Since(began)
	t.mu.Lock()
	defer t.mu.Unlock()
	l.keys, l.err, l.known = keys, err, true
	l.next = time.Now().Add(min(maxRest, topShare*took*time.Duration(len(t.lists))))
	close(l.made)
	l.made = nil
}

// makeRoom forgets the list that nobody has asked for longest, if there are too many.
func (t *Tops) makeRoom() {
	if len(t.lists) < maxLists {
		return
	}
	oldest := ""
	for name, l := range t.lists {
		if oldest == "" || l.asked.Before(t.lists[oldest].asked) {
			oldest = name
		}
	}
	delete(t.lists, oldest)
}
