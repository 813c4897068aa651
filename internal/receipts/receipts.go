// Package receipts remembers the answers of requests that may come again, so that a repeat
// applies nothing: for ten minutes, within a budget of memory.
//
// A request is applied between two cuts, never across one, and its receipt is in the same cut
// as what it counted.
package receipts

import (
	"errors"
	"slices"
	"sync"

	"github.com/weir-counter/weir/internal/clock"
)

// Seconds is how long a receipt is kept.
const Seconds = 600

// ErrReused is the error for a key that came with another content before.
var ErrReused = errors.New("the key came with another content before")

// FullError is the error for a key that there is no room for.
type FullError struct {
	Bytes     int64 // what may be used
	OneClient bool  // by one client; else by all
}

func (e *FullError) Error() string { return "no room for more receipts" }

// receiptBytes is the memory of a receipt beside its key and its answer.
const receiptBytes = 160

// othersReceipts is how much of OnceMemory the receipts of other nodes may take, and of
// earlier lives of this one: as many times as much.
const othersReceipts = 2

// Table is the receipts of an engine. Those that it gave itself have a bound of their own, so
// that a cluster takes more of them with each node.
type Table struct {
	clock  *clock.Limits
	gather bool // new ones are kept for Cut

	// gate keeps cuts out while a request is applied: its hits and its receipt
	// are in one cut, or a crash between two would count half of them twice.
	gate sync.RWMutex

	mu      sync.Mutex // guards all below
	budget  int64      // of own, bytes
	byKey   map[string]*receipt
	newest  int64 // the latest second of all that came
	own     receiptQueue
	others  receiptQueue
	clients map[string]*client // that have own receipts
	fresh   [][]byte           // encoded, since the last cut
	refused uint64             // requests that found no room
	dropped uint64             // of others, before their time
	until   int64              // Unix second when the youngest of these had gone anyhow
}

// receiptQueue is receipts by age, the oldest first.
type receiptQueue struct {
	list  []*receipt
	bytes int64
}

// client is who sent requests with keys, and what their receipts take.
type client struct {
	name  string
	bytes int64
}

// receipt is one answered request, or one that is being applied.
type receipt struct {
	key         string
	fingerprint uint64
	at          int64         // Unix second when it began, by the clock of limits: no step of the wall clock ends it
	done        chan struct{} // closed when answer is there; nil: it is
	answer      []byte
	from        *client // nil: it is another node's
}

func (r *receipt) bytes() int64 { return int64(receiptBytes + len(r.key) + len(r.answer)) }

// enter finds the receipt of a key, or makes one and says that the caller is the
// first.
func (t *Table) enter(name, key string, fingerprint uint64) (r *receipt, first bool, err error) {
	now := t.clock.Second()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	if have := t.byKey[key]; have != nil {
		if have.fingerprint != fingerprint {
			return nil, false, ErrReused
		}
		seen := *have // answer and done are read without the lock
		return &seen, false, nil
	}
	from := t.clients[name]
	if from == nil {
		from = &client{name: name}
	}
	r = &receipt{key: key, fingerprint: fingerprint, at: now, done: make(chan struct{}), from: from}
	if err := t.room(r); err != nil {
		t.refused++
		return nil, false, err
	}
	t.put(r)
	return r, true, nil
}

// room refuses a receipt beyond the budget, or beyond three quarters of it for one client: the
// last quarter is for the others.
func (t *Table) room(r *receipt) error {
	switch most := t.budget - t.budget/4; {
	case r.from.bytes+r.bytes() > most:
		return &FullError{Bytes: most, OneClient: true}
	case t.own.bytes+r.bytes() > t.budget:
		return &FullError{Bytes: t.budget}
	}
	return nil
}

// put takes in a receipt whose key is not there. A full queue of other nodes lets its
// oldest go.
func (t *Table) put(r *receipt) {
	if t.byKey == nil {
		t.byKey, t.clients = map[string]*receipt{}, map[string]*client{}
	}
	t.byKey[r.key] = r
	t.newest = max(t.newest, r.at)
	if r.from != nil {
		t.clients[r.from.name] = r.from
		t.own.list = append(t.own.list, r)
		t.grow(r, r.bytes())
		return
	}
	t.others.list = append(t.others.list, r)
	t.grow(r, r.bytes())
	for t.others.bytes > othersReceipts*t.budget {
		t.until = max(t.until, t.others.list[0].at+Seconds)
		t.drop(t.others.list[0])
		t.others.list = t.others.list[1:]
		t.dropped++
	}
}

func (t *Table) grow(r *receipt, bytes int64) {
	if r.from == nil {
		t.others.bytes += bytes
		return
	}
	t.own.bytes += bytes
	if r.from.bytes += bytes; r.from.bytes == 0 {
		delete(t.clients, r.from.name)
	}
}

// leave ends a request: its receipt is kept, or forgotten if there is no answer.
func (t *Table) leave(r *receipt, answer []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(r.done)
	r.done = nil
	if answer == nil {
		t.drop(r)
		i := slices.Index(t.own.list, r) // near the end
		t.own.list = slices.Delete(t.own.list, i, i+1)
		return
	}
	r.answer = answer
	t.grow(r, int64(len(answer)))
	if t.gather {
		t.fresh = append(t.fresh, r.encode(t.clock.AheadSeconds()))
	}
}

func (t *Table) expire(now int64) {
	if t.newest > now { // the clock has run back: what came before it did came now at the latest
		for _, r := range t.byKey {
			r.at = min(r.at, now)
		}
		t.newest = now
	}
	for _, queue := range []*receiptQueue{&t.own, &t.others} {
		for len(queue.list) > 0 && queue.list[0].at <= now-Seconds && queue.list[0].done == nil {
			t.drop(queue.list[0])
			queue.list = queue.list[1:]
		}
	}
}

// drop forgets a receipt; the caller takes it out of its queue.
func (t *Table) drop(r *receipt) {
	delete(t.byKey, r.key)
	t.grow(r, -r.bytes())
}

// Stats are a Table's figures.
type Stats struct {
	Keys        int   // receipts, of all nodes
	Own, Budget int64 // bytes of those that this engine gave, and how many they may be
	Others      int64 // bytes of the others
	Refused     uint64
	Dropped     uint64 // of others, before their time
	Dropping    bool   // some of these would still be there
}

// Stats returns the figures.
func (t *Table) Stats() Stats {
	now := t.clock.Second()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	return Stats{
		Keys: len(t.own.list) + len(t.others.list), Own: t.own.bytes, Budget: t.budget, Others: t.others.bytes,
		Refused: t.refused, Dropped: t.dropped, Dropping: now < t.until,
	}
}
