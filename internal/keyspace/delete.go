package keyspace

import (
	"strings"

	"github.com/weir-counter/weir/internal/replication"
)

// Delete forgets a key, and tells whether it was there; it fails if its partition is not
// held.
func (k *Keyspace) Delete(key string) (had, held bool) {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away.Load() {
		return false, false
	}
	en := p.table.Load().Find(k.hash(key), key)
	if had := p.dropQuarantined(key); en == nil && !had {
		return false, true
	}
	key = strings.Clone(key)
	if en != nil {
		p.remove(en)
	}
	p.removePast(key)
	p.gather(replication.Delta{Key: key})
	if k.gather {
		if p.gone == nil {
			p.gone = map[string]int{}
		}
		p.gone[key]++
	}
	return true, true
}
