package keyspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// This file remembers the answers of requests that may come again, so that a repeat
// applies nothing: for ten minutes, within a budget of memory.
//
// A request is applied between two cuts, never across one, and its receipt is in the same cut as what it counted.

// ReceiptSeconds is how long a receipt is kept.
const ReceiptSeconds = 600

// errReceiptReused is the error for a key that came with another content before.
var errReceiptReused = &Error{Code: api.CodeKeyReused, Field: "idempotency key", Message: "this idempotency key was used with other content before: use a new key for each request"}

// receiptsFull is the error for a key if there is no memory for its receipt. The receipts of who take bytes.
func receiptsFull(who string, bytes int64) error {
	return &Error{Code: api.CodeOnceFull, Field: "idempotency key", Message: fmt.Sprintf("the idempotency keys of %s in the last ten minutes take %d MiB here, and more are not remembered: nothing was counted; send larger batches, use other nodes too, or raise OnceMemory (weir serve --idempotency-memory)", who, bytes>>20)}
}

// receiptBytes is the memory of a receipt without its key and its answer.
const receiptBytes = 160

// othersReceipts is how much of OnceMemory the receipts of other nodes may take, and of
// earlier lives of this one: as many times as much.
const othersReceipts = 2

// Receipts is the receipts of an engine. Those that it gave itself have a bound of their own, so
// that a cluster takes more of them with each node.
type Receipts struct {
	clock  *ClockLimits
	gather bool // new ones are kept for Cut

	// gate keeps cuts out while a request is applied, so that its hits and its receipt are in one cut. A crash between
	// two cuts would otherwise count half of the hits twice.
	gate sync.RWMutex

	mu      sync.Mutex // guards all below
	budget  int64      // of own, bytes
	byKey   map[string]*receipt
	newest  int64 // the latest second of all that came
	own     receiptQueue
	others  receiptQueue
	clients map[string]*client // that have own receipts
	fresh   [][]byte           // encoded, since the last cut

	shared       atomic.Bool           // other nodes count too: requests are recorded
	requests     []replication.Request // since the last cut
	requestBytes int64                 // of requests; they count as own receipts do

	refused uint64 // requests that found no memory
	dropped uint64 // of others, before their time
	until   int64  // Unix second when the youngest of these had gone anyhow
}

// receiptQueue is receipts by age, the oldest first.
type receiptQueue struct {
	list  []*receipt
	bytes int64
}

// client is a sender of requests with keys, and the memory of their receipts.
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

// enter finds the receipt of a key, or makes one and says that the caller is the first.
func (t *Receipts) enter(name, key string, fingerprint uint64) (r *receipt, first bool, err error) {
	now := t.clock.Second()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	if have := t.byKey[key]; have != nil {
		if have.fingerprint != fingerprint {
			return nil, false, errReceiptReused
		}
		seen := *have // answer and done are read without the lock
		return &seen, false, nil
	}
	from := t.clients[name]
	if from == nil {
		from = &client{name: name}
	}
	r = &receipt{key: key, fingerprint: fingerprint, at: now, done: make(chan struct{}), from: from}
	if err := t.fits(r); err != nil {
		t.refused++
		return nil, false, err
	}
	t.put(r)
	return r, true, nil
}

// fits refuses a receipt beyond the budget. It also refuses a receipt beyond three quarters of the budget for one
// client: the last quarter is for the others.
func (t *Receipts) fits(r *receipt) error {
	switch most := t.budget - t.budget/4; {
	case r.from.bytes+r.bytes() > most:
		return receiptsFull("this client address", most)
	case t.own.bytes+t.requestBytes+r.bytes() > t.budget:
		return receiptsFull("all clients", t.budget)
	}
	return nil
}

// put takes in a receipt whose key is not there. A full queue of other nodes lets its oldest go.
func (t *Receipts) put(r *receipt) {
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
		t.until = max(t.until, t.others.list[0].at+ReceiptSeconds)
		t.drop(t.others.list[0])
		t.others.list = t.others.list[1:]
		t.dropped++
	}
}

func (t *Receipts) grow(r *receipt, bytes int64) {
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
func (t *Receipts) leave(r *receipt, answer []byte, recorded *replication.RequestRecorder) {
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
		if request, ok := recorded.Request(r.key, r.fingerprint); ok {
			t.requests = append(t.requests, request)
			t.requestBytes += requestHitBytes * int64(len(request.Hits))
		}
	}
}

// requestHitBytes is the memory of a replication.RequestHit.
const requestHitBytes = 24

func (t *Receipts) expire(now int64) {
	if t.newest > now { // the clock has run back: what came before that came now at the latest
		for _, r := range t.byKey {
			r.at = min(r.at, now)
		}
		t.newest = now
	}
	for _, queue := range []*receiptQueue{&t.own, &t.others} {
		for len(queue.list) > 0 && queue.list[0].at <= now-ReceiptSeconds && queue.list[0].done == nil {
			t.drop(queue.list[0])
			queue.list = queue.list[1:]
		}
	}
}

// drop forgets a receipt; the caller takes it out of its queue.
func (t *Receipts) drop(r *receipt) {
	delete(t.byKey, r.key)
	t.grow(r, -r.bytes())
}

// ReceiptStats are the figures of Receipts.
type ReceiptStats struct {
	OnceKeys        int    `metric:"weir_idempotency_keys" doc:"Remembered Idempotency-Keys of all nodes."`
	OnceBytes       int64  `metric:"weir_idempotency_bytes" doc:"Memory of the Idempotency-Keys that reached this node first."`
	OnceBudget      int64  `metric:"weir_idempotency_budget_bytes" doc:"The budget of weir_idempotency_bytes; other nodes' keys have twice as much."`
	OnceOthersBytes int64  // of the others; twice OnceBudget at most
	OnceRefused     uint64 `metric:"weir_idempotency_refused_total" doc:"Requests that were refused, and not counted, because the memory for Idempotency-Keys was full."`
	OnceDropped     uint64 `metric:"weir_idempotency_dropped_total" doc:"Idempotency-Keys of other nodes or earlier runs that were forgotten before ten minutes."`
	OnceDropping    bool   // some of these would still be there
}

// Stats returns the figures.
func (t *Receipts) Stats() ReceiptStats {
	now := t.clock.Second()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	return ReceiptStats{
		OnceKeys: len(t.own.list) + len(t.others.list), OnceBytes: t.own.bytes, OnceBudget: t.budget, OnceOthersBytes: t.others.bytes,
		OnceRefused: t.refused, OnceDropped: t.dropped, OnceDropping: now < t.until,
	}
}

// MaxReceiptKey is the longest key, in bytes.
const MaxReceiptKey = 255

// NewReceipts returns an empty Receipts. budget is for own receipts, in bytes. Receipts of other nodes have twice as
// much in addition. With gather, new ones are kept for Cut.
func NewReceipts(budget int64, gather bool, clock *ClockLimits) *Receipts {
	return &Receipts{budget: budget, gather: gather, clock: clock}
}

// Share has requests recorded from now on. It is for an engine whose journal other nodes write too.
func (t *Receipts) Share() {
	t.shared.Store(true)
}

// Once applies a request of a client, unless its key is known, and returns its answer. A repeat that comes while the
// first is being applied waits for it. A nil answer is not remembered. apply adds to recorded what it counts; nil, before
// Share: nobody needs it. The error is of api.CodeInvalidKey, of api.CodeKeyReused, of api.CodeOnceFull, or the error of ctx.
func (t *Receipts) Once(ctx context.Context, client, key string, fingerprint uint64, apply func(recorded *replication.RequestRecorder) []byte) (answer []byte, repeated bool, err error) {
	if len(key) < 1 || len(key) > MaxReceiptKey {
		return nil, false, &Error{Code: api.CodeInvalidKey, Field: "idempotency key", Message: fmt.Sprintf("idempotency key of %d bytes: must have 1 to %d", len(key), MaxReceiptKey)}
	}
	for {
		r, first, err := t.enter(client, key, fingerprint)
		switch {
		case err != nil:
			return nil, false, err
		case first:
			return t.apply(r, apply), false, nil
		case r.done == nil:
			return r.answer, true, nil
		}
		select { // then look again: the first may have counted nothing
		case <-r.done:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

func (t *Receipts) apply(r *receipt, apply func(*replication.RequestRecorder) []byte) (answer []byte) {
	t.gate.RLock()
	defer t.gate.RUnlock()
	recorded := t.recorder()
	defer func() { t.leave(r, answer, recorded) }() // after a panic too
	return apply(recorded)
}

// Advance applies hits of a topic: apply adds them to recorded, as with Once, and returns from where to where they are. Both are in
// one cut. Where apply moved nothing, nothing is noted.
func (t *Receipts) Advance(topic replication.RequestID, apply func(recorded *replication.RequestRecorder) replication.Move) {
	t.gate.RLock()
	defer t.gate.RUnlock()
	recorded := t.recorder()
	move := apply(recorded)
	if !t.gather || move.From == move.To {
		return
	}
	request := recorded.Moved(topic, move)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = append(t.requests, request)
	t.requestBytes += requestHitBytes * int64(len(request.Hits))
}

// recorder is what a request that is applied now is recorded with.
func (t *Receipts) recorder() *replication.RequestRecorder {
	if t.gather && t.shared.Load() {
		return &replication.RequestRecorder{}
	}
	return nil
}

// Cut runs cut, which calls Engine.Cut for the partitions, while no request is being applied. It returns the receipts since the call
// before. The hits of their requests are in these cuts or in earlier ones. It also returns the requests that were applied after Share was
// called.
func (t *Receipts) Cut(cut func()) ([][]byte, []replication.Request) {
	t.gate.Lock()
	defer t.gate.Unlock()
	cut()
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh, requests := t.fresh, t.requests
	t.fresh, t.requests, t.requestBytes = nil, nil, 0
	return fresh, requests
}

// All returns all receipts, for a snapshot.
func (t *Receipts) All() (all [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(t.clock.Second())
	ahead := t.clock.AheadSeconds()
	for _, list := range [][]*receipt{t.others.list, t.own.list} {
		for _, r := range list {
			if r.done == nil {
				all = append(all, r.encode(ahead))
			}
		}
	}
	return all
}

// Load takes receipts back from a journal or a snapshot, since which the time of day was set forward by set. With fresh, for receipts that
// another node gave a moment ago, their time is now, whatever that node's clock says. Those that are too old or known are left out. If they take more
// than twice the budget, the oldest are dropped. One that can't be read is an error.
func (t *Receipts) Load(encoded [][]byte, fresh bool, set time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range encoded {
		r, err := decode(b)
		if err != nil {
			return err
		}
		now := t.clock.Second()
		if r.at += int64(set/time.Second) - t.clock.AheadSeconds(); fresh {
			r.at = now
		}
		if r.at = min(r.at, now); r.at > now-ReceiptSeconds && t.byKey[r.key] == nil {
			t.put(r)
		}
	}
	return nil
}

// encode writes fingerprint, second, length of the key, key, answer; numbers as unsigned varints.
func (r *receipt) encode(ahead int64) []byte {
	b := binary.AppendUvarint(nil, r.fingerprint)
	b = binary.AppendUvarint(b, uint64(max(r.at+ahead, 0)))
	b = wire.AppendText(b, r.key)
	return append(b, r.answer...)
}

func decode(b []byte) (*receipt, error) {
	r := wire.NewReader(b)
	fingerprint, at, key := r.Uvarint(), r.Uvarint(), r.Block()
	if r.Failed() || len(key) < 1 || len(key) > MaxReceiptKey {
		return nil, errors.New("receipt of a request: its content is not one")
	}
	return &receipt{key: string(key), fingerprint: fingerprint, at: int64(at), answer: append([]byte{}, r.Rest()...)}, nil
}
