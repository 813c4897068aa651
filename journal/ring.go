package journal

import (
	"cmp"
	"sync"
)

// ring keeps the newest flushes of this process for nodes that miss one: what the
// stream lost for one reader, its origin still has.
type ring struct {
	mu    sync.Mutex
	parts map[uint64][][]byte // by flush
	first uint64              // the oldest flush there; 0: none yet
	bytes int
	most  int // bytes; 0: ringBytes
}

// ringBytes bounds the ring: many minutes of a common load.
const ringBytes = 32 << 20

func (r *ring) add(flush uint64, parts [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts, r.first = map[uint64][][]byte{}, flush
	}
	r.parts[flush] = parts
	r.bytes += sizeOf(parts)
	for r.bytes > cmp.Or(r.most, ringBytes) && r.first < flush {
		r.bytes -= sizeOf(r.parts[r.first])
		delete(r.parts, r.first)
		r.first++
	}
}

// get returns a part of a flush; nil: it is not there, or not any more.
func (r *ring) get(flush, part uint64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if parts := r.parts[flush]; part < uint64(len(parts)) {
		return parts[part]
	}
	return nil
}

func sizeOf(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}
