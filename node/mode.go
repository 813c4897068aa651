package node

import (
	"context"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/backend"
)

// mode is where a node's hits are kept, and with whom they are counted: in memory
// (ephemeral), in a journal of its own (durable), or in one of many nodes (clustered).
type mode interface {
	// open brings engine to where the node left off, fills sockets, and adds what it
	// opened to parts, also when it fails. If ctx ends before, the error wraps its.
	open(ctx context.Context, engine *weir.Engine, sockets *sockets, parts *parts) error
	// failed is closed when the node can't go on, and err says why: a process that is
	// started again can. nil: that never happens.
	failed() <-chan struct{}
	err() error
}

// sockets are where a mode plugs in.
type sockets struct {
	service.Backend               // its Journal, Cluster, Answers, Route, Strict
	policy          admit.Cluster // zero: this node decides alone
	doors           *doors
	document        backend.Document // where policies that are put by API are kept; nil: in memory
	process         *processLimit    // nil: somebody else has the process
	settings        *peers.Settings  // of a cluster's node: openSettings starts it
}

func newMode(cfg *Config) mode {
	switch {
	case cfg.Ephemeral:
		return ephemeral{cfg.Logger}
	case cfg.clustered():
		return &clustered{durable{cfg: cfg, log: cfg.Logger, phase: phase{joining: true}, history: historian{cfg: cfg, log: cfg.Logger}}}
	}
	return &durable{cfg: cfg, log: cfg.Logger, history: historian{cfg: cfg, log: cfg.Logger}}
}
