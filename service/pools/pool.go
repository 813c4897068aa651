package pools

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
)

// Pool bounds what may be under way at once at one door: places, or bytes. Doors have
// pools of their own, so that whoever fills one leaves the others their answers. One
// that lasts as long as a client likes has a share besides, the most that one client,
// an identity or an address, may have of it: three quarters. The last quarter is for the others; and clients
// behind one proxy, which have one address, lose no more than that.
type Pool struct {
	name  string
	what  string   // that is full, for messages; of a bound of 1 what is under way
	raise string   // the setting that makes it larger
	code  api.Code // of a caller that found no room
	bound int64
	share int64 // of one client address; 0: no share

	inUse   atomic.Int64
	refused atomic.Uint64
	last    atomic.Int64 // when it last refused, ns of the Unix epoch; 0: never

	mu sync.Mutex
	by caller.Counts // of those with something in use; only with a share
}

// shared gives a pool its share of one client, at least least.
func (p *Pool) shared(least int64) *Pool {
	p.share, p.by = max(p.bound-p.bound/4, least), caller.Counts{}
	return p
}

// Enter takes n of the pool for a client, or fails when there is no room for it. Leave must
// follow if it did not fail.
func (p *Pool) Enter(client caller.Caller, n int64) error {
	if p.inUse.Add(n) > p.bound || !p.enterShare(client, n) {
		p.inUse.Add(-n)
		p.refused.Add(1)
		p.last.Store(time.Now().UnixNano())
		return p.full()
	}
	return nil
}

func (p *Pool) enterShare(client caller.Caller, n int64) bool {
	if p.share == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by.Of(client)+n > p.share {
		return false
	}
	p.by.Add(client, n)
	return true
}

// Leave gives n back.
func (p *Pool) Leave(client caller.Caller, n int64) {
	p.inUse.Add(-n)
	if p.share == 0 || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by.Add(client, -n)
}

// full is the error of a caller that found no room.
func (p *Pool) full() error {
	if p.bound == 1 && p.raise == "" {
		return &failure.Error{Code: p.code, Message: p.what + ", and there is one at a time: wait for its end"}
	}
	detail := "too many " + p.what + " at once: try again later"
	if p.raise != "" {
		detail += ", or start the server with a larger --" + p.raise
	}
	return &failure.Error{Code: p.code, Message: detail}
}

// Figures are those of a pool, for metrics.
type Figures struct {
	Name         string
	InUse, Bound int64  // places, or bytes
	Share        int64  // the most of one client; 0: all
	Refused      uint64 // since the start
}

// Stats are its figures now.
func (p *Pool) Stats() Figures {
	return Figures{p.name, p.inUse.Load(), p.bound, p.share, p.refused.Load()}
}

// Within does what takes one place of a pool.
func (p *Pool) Within(client caller.Caller, do func() error) error {
	if err := p.Enter(client, 1); err != nil {
		return err
	}
	defer p.Leave(client, 1)
	return do()
}
