package keyspace

import (
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/replication"
)

// Hits that are older than the retention, and that a history keeps, change no window: they pass
// through to the journal, beside the deltas.

// HitPast gathers n such hits of a key.
func (k *Keyspace) HitPast(second int64, key string, n uint64) {
	k.NotePast(k.clock.Wall.Time().UnixMilli())
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past = append(p.past, replication.Delta{Key: strings.Clone(key), At: second, N: n})
	p.bytes += waitingBytes(key)
	if len(p.past) > max(compactFirst, p.pastCompactAt) {
		p.bytes -= bytesOf(p.past)
		p.past = compact(p.past)
		p.bytes += bytesOf(p.past)
		p.pastCompactAt = 2 * len(p.past)
	}
	p.tellWaiting()
}

// removePast puts those of a key that is removed now before its removal. The caller holds mu.
func (p *partition) removePast(key string) {
	p.past = slices.DeleteFunc(p.past, func(d replication.Delta) bool {
		if d.Key == key {
			p.pastRemoved = append(p.pastRemoved, d)
		}
		return d.Key == key
	})
}

// NotePast notes that such hits were taken until a time, Unix ms, here or at another node.
func (k *Keyspace) NotePast(until int64) {
	for {
		was := k.pastUntil.Load()
		if until <= was || k.pastUntil.CompareAndSwap(was, until) {
			return
		}
	}
}
