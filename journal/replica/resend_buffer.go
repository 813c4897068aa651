package replica

import (
	"cmp"
	"sync"

	"github.com/weir-counter/weir/journal/record"
)

// resendBuffer keeps the newest flushes of this process for nodes that miss one: what the
// stream lost for one reader, its origin still has.
type resendBuffer struct {
	mu    sync.Mutex
	parts map[uint64][][]byte // by flush
	first uint64              // the oldest flush there; 0: none yet
	bytes int
	most  int // bytes; 0: ResendBytes
}

// ResendBytes bounds the resend buffer: many minutes of a common load.
const ResendBytes = 32 << 20

func (r *resendBuffer) add(flush uint64, parts [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts, r.first = map[uint64][][]byte{}, flush
	}
	r.parts[flush] = parts
	r.bytes += record.SizeOf(parts)
	for r.bytes > cmp.Or(r.most, ResendBytes) && r.first < flush {
		r.bytes -= record.SizeOf(r.parts[r.first])
		delete(r.parts, r.first)
		r.first++
	}
}

// get returns a part of a flush; nil: it is not there, or not any more.
func (r *resendBuffer) get(flush, part uint64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if parts := r.parts[flush]; part < uint64(len(parts)) {
		return parts[part]
	}
	return nil
}
