package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/server"
)

// policies is the policy file of weir serve, from its flag to its end.
type policies struct {
	path    string // empty: there is none
	set     *policy.Set
	cluster policy.Cluster // zero: this node is alone
	hangup  chan os.Signal
}

// load reads the file. A server does not start with one that is wrong: it would let
// pass what should be limited. From here on a SIGHUP asks to read it again, and waits
// while the data directory is opened.
func (p *policies) load() (err error) {
	if p.path == "" {
		return nil
	}
	p.set, err = policy.Load(p.path)
	var faults policy.Faults
	if errors.As(err, &faults) {
		return fmt.Errorf("the policy file is wrong:\n%w\nmend it ('weir limits check' reads it), or start without --policy", faults)
	}
	if err != nil {
		return err
	}
	p.hangup = make(chan os.Signal, 1)
	signal.Notify(p.hangup, syscall.SIGHUP)
	return nil
}

// close lets a SIGHUP be what it was.
func (p *policies) close() {
	if p.hangup != nil {
		signal.Stop(p.hangup)
	}
}

// watch puts the policies to work on engine and follows the file and SIGHUP until ctx
// ends or stop is called, which waits for the end.
func (p *policies) watch(ctx context.Context, engine *weir.Engine, cfg *server.Config) (stop func(), err error) {
	live, err := policy.NewClusterLive(engine, p.set, p.cluster)
	if err != nil {
		return nil, err
	}
	cfg.Policies = live
	if p.path == "" { // requests bring limits along
		return func() {}, nil
	}
	file := server.NewPolicyFile(p.path)
	cfg.PolicyFile = file
	cfg.Logger.Info("policies are in use", "file", p.path, "policies", len(p.set.Policies()))
	report := func(err error) {
		file.Reloaded(err)
		logReload(cfg.Logger, p.path, live, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	reload := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { live.Watch(ctx, p.path, reload, report) })
	watching.Go(func() { pass(ctx, p.hangup, reload) })
	return func() {
		cancel()
		watching.Wait()
	}, nil
}

// pass asks for a reload at each signal until ctx ends.
func pass(ctx context.Context, hangup <-chan os.Signal, reload chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		}
		select {
		case <-ctx.Done():
		case reload <- struct{}{}:
		}
	}
}

// logReload tells of a file that was read again: each fault in a line of its own.
func logReload(log *slog.Logger, path string, live *policy.Live, err error) {
	if err == nil {
		log.Info("policies are in use", "file", path, "policies", len(live.Set().Policies()))
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		log.Error("policy file", "problem", line)
	}
}
