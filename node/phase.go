package node

import (
	"fmt"
	"sync/atomic"

	"github.com/weir-counter/weir/server"
)

// phase is what a node does before it is ready: for callers that ask meanwhile.
type phase struct {
	joining bool
	detail  atomic.Pointer[string]
}

func (p *phase) say(what string) { p.detail.Store(&what) }

// replaying takes the progress of the journal.
func (p *phase) replaying(done, all uint64) {
	p.say(fmt.Sprintf("the journal is read: message %d of %d", done, all))
}

func (p *phase) now() server.Phase {
	is := server.Phase{Status: "loading", Detail: "the data directory is opened"}
	if p.joining {
		is.Status = "joining"
	}
	if detail := p.detail.Load(); detail != nil {
		is.Detail = *detail
	}
	return is
}
