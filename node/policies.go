package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/server"
)

// policies are the limits of a node, from its policy file to its end.
type policies struct {
	path   string // "": there is none
	set    *policy.Set
	reload chan struct{} // holds one: a reload that has not begun is for all that ask
}

// loadPolicies reads the file. A node does not start with one that is wrong: it would let
// pass what should be limited.
func loadPolicies(cfg Policies) (*policies, error) {
	p := &policies{path: cfg.File, reload: make(chan struct{}, 1)}
	if p.path == "" {
		return p, nil
	}
	set, err := policy.Load(p.path)
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		return nil, fmt.Errorf("the policy file is wrong:\n%w\ncorrect it ('weir limits check' reads it), or start without --policy", faults)
	}
	p.set = set
	return p, err
}

// again asks for the file to be read again.
func (p *policies) again() {
	select {
	case p.reload <- struct{}{}:
	default: // it is about to be read
	}
}

// open puts the policies to work on engine, and follows the file until parts are closed.
func (p *policies) open(engine *weir.Engine, sockets *sockets, parts *parts) error {
	live, err := policy.NewClusterLive(engine, p.set, sockets.policy)
	if err != nil {
		return err
	}
	sockets.server.Policies = live
	if p.path == "" { // requests bring limits along
		return nil
	}
	log, file := sockets.server.Logger, server.NewPolicyFile(p.path)
	sockets.server.PolicyFile = file
	log.Info("policies are in use", "file", p.path, "policies", len(p.set.Policies()))
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		live.Watch(ctx, p.path, p.reload, func(err error) {
			file.Reloaded(err)
			logReload(log, p.path, live, err)
		})
	})
	parts.opened(func(context.Context) error {
		cancel()
		watching.Wait()
		return nil
	})
	return nil
}

// logReload tells of a file that was read again: each fault in a line of its own.
func logReload(log *slog.Logger, path string, live *policy.Live, err error) {
	if err == nil {
		log.Info("policies are in use", "file", path, "policies", len(live.Set().Policies()))
		for _, d := range live.Dropped() {
			log.Warn("a policy that is in use is gone from the file: nothing limits its keys by it any more; put it back if that was not meant",
				"file", path, "policy", d.Name, "keys_in_use", d.KeysInUse)
		}
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		log.Error("policy file", "problem", line)
	}
}
