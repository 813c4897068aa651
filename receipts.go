package weir

import (
	"fmt"
	"slices"
	"sync"
)

// receiptBytes is the memory of a receipt beside its key and its answer.
const receiptBytes = 160

// othersReceipts is how much of OnceMemory the receipts of other nodes may take, and of
// earlier lives of this one: as many times as much.
const othersReceipts = 2

// receipts are the answers to requests that may come again. Those that this engine gave
// have a bound of their own, so that a cluster takes more of them with each node.
type receipts struct {
	// gate keeps cuts out while a request is applied: its hits and its receipt
	// are in one cut, or a crash between two would count half of them twice.
	gate sync.RWMutex

	mu      sync.Mutex // guards all below
	budget  int64      // of own
	byKey   map[string]*receipt
	newest  int64 // the latest second of all that came
	own     receiptQueue
	others  receiptQueue
	clients map[string]*onceClient // that have own receipts
	fresh   [][]byte               // encoded, since the last cut
	refused uint64                 // requests that found no room
	dropped uint64                 // of others, before their time
	until   int64                  // Unix second when the youngest of these had gone anyhow
}

// receiptQueue is receipts by age, the oldest first.
type receiptQueue struct {
	list  []*receipt
	bytes int64
}

// onceClient is who sent requests with keys, and what their receipts take.
type onceClient struct {
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
	from        *onceClient // nil: it is another node's
}

func (r *receipt) bytes() int64 { return int64(receiptBytes + len(r.key) + len(r.answer)) }

// enter finds the receipt of a key, or makes one and says that the caller is the
// first.
func (rs *receipts) enter(client, key string, fingerprint uint64, now int64) (r *receipt, first bool, err error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expire(now)
	if have := rs.byKey[key]; have != nil {
		if have.fingerprint != fingerprint {
			return nil, false, &Error{CodeKeyReused, "idempotency key", "this idempotency key came with another content before: use a new key for each request"}
		}
		seen := *have // answer and done are read without the lock
		return &seen, false, nil
	}
	from := rs.clients[client]
	if from == nil {
		from = &onceClient{name: client}
	}
	r = &receipt{key: key, fingerprint: fingerprint, at: now, done: make(chan struct{}), from: from}
	if err := rs.room(r); err != nil {
		rs.refused++
		return nil, false, err
	}
	rs.put(r)
	return r, true, nil
}

// room refuses a receipt beyond the budget, or beyond three quarters of it for one client: the
// last quarter is for the others.
func (rs *receipts) room(r *receipt) error {
	most, who := rs.budget, "all clients"
	if r.from.bytes+r.bytes() > rs.budget-rs.budget/4 {
		most, who = rs.budget-rs.budget/4, "this client address"
	} else if rs.own.bytes+r.bytes() <= rs.budget {
		return nil
	}
	return &Error{CodeOnceFull, "idempotency key", fmt.Sprintf("the idempotency keys of %s in the last ten minutes take %d MiB here, and more are not remembered: nothing was counted; send larger batches, use other nodes too, or raise OnceMemory (weir serve --idempotency-memory)", who, most>>20)}
}

// put takes in a receipt whose key is not there. A full queue of other nodes lets its
// oldest go.
func (rs *receipts) put(r *receipt) {
	if rs.byKey == nil {
		rs.byKey, rs.clients = map[string]*receipt{}, map[string]*onceClient{}
	}
	rs.byKey[r.key] = r
	rs.newest = max(rs.newest, r.at)
	if r.from != nil {
		rs.clients[r.from.name] = r.from
		rs.own.list = append(rs.own.list, r)
		rs.grow(r, r.bytes())
		return
	}
	rs.others.list = append(rs.others.list, r)
	rs.grow(r, r.bytes())
	for rs.others.bytes > othersReceipts*rs.budget {
		rs.until = max(rs.until, rs.others.list[0].at+OnceSeconds)
		rs.drop(rs.others.list[0])
		rs.others.list = rs.others.list[1:]
		rs.dropped++
	}
}

func (rs *receipts) grow(r *receipt, bytes int64) {
	if r.from == nil {
		rs.others.bytes += bytes
		return
	}
	rs.own.bytes += bytes
	if r.from.bytes += bytes; r.from.bytes == 0 {
		delete(rs.clients, r.from.name)
	}
}

// leave ends a request: its receipt is kept, or forgotten if there is no answer.
func (rs *receipts) leave(r *receipt, answer []byte, gather bool, ahead int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	close(r.done)
	r.done = nil
	if answer == nil {
		rs.drop(r)
		i := slices.Index(rs.own.list, r) // near the end
		rs.own.list = slices.Delete(rs.own.list, i, i+1)
		return
	}
	r.answer = answer
	rs.grow(r, int64(len(answer)))
	if gather {
		rs.fresh = append(rs.fresh, r.encode(ahead))
	}
}

func (rs *receipts) expire(now int64) {
	if rs.newest > now { // the clock has run back: what came before it did came now at the latest
		for _, r := range rs.byKey {
			r.at = min(r.at, now)
		}
		rs.newest = now
	}
	for _, queue := range []*receiptQueue{&rs.own, &rs.others} {
		for len(queue.list) > 0 && queue.list[0].at <= now-OnceSeconds && queue.list[0].done == nil {
			rs.drop(queue.list[0])
			queue.list = queue.list[1:]
		}
	}
}

// drop forgets a receipt; the caller takes it out of its queue.
func (rs *receipts) drop(r *receipt) {
	delete(rs.byKey, r.key)
	rs.grow(r, -r.bytes())
}

// stats adds the figures.
func (rs *receipts) stats(s *Stats, now int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expire(now)
	s.OnceDropping = now < rs.until
	s.OnceKeys, s.OnceBytes, s.OnceBudget = len(rs.own.list)+len(rs.others.list), rs.own.bytes, rs.budget
	s.OnceOthersBytes, s.OnceRefused, s.OnceDropped = rs.others.bytes, rs.refused, rs.dropped
}
