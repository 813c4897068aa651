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
// while the data directory is opened. Without a file it asks for nothing, and does not end
// the process: who sends it to all servers of a machine means well.
func (p *policies) load() (err error) {
	defer func() {
		if err == nil {
			p.hangup = make(chan os.Signal, 1)
			signal.Notify(p.hangup, syscall.SIGHUP)
		}
	}()
	if p.path == "" {
		return nil
	}
	p.set, err = policy.Load(p.path)
	var faults policy.Faults
	if errors.As(err, &faults) {
		return fmt.Errorf("the policy file is wrong:\n%w\ncorrect it ('weir limits check' reads it), or start without --policy", faults)
	}
	return err
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
	ctx, cancel := context.WithCancel(ctx)
	reload := make(chan struct{})
	var watching sync.WaitGroup
	stop = func() {
		cancel()
		watching.Wait()
	}
	watching.Go(func() { pass(ctx, p.hangup, reload) })
	if p.path == "" { // requests bring limits along
		watching.Go(func() { ignore(ctx, reload, cfg.Logger) })
		return stop, nil
	}
	file := server.NewPolicyFile(p.path)
	cfg.PolicyFile = file
	cfg.Logger.Info("policies are in use", "file", p.path, "policies", len(p.set.Policies()))
	report := func(err error) {
		file.Reloaded(err)
		logReload(cfg.Logger, p.path, live, err)
	}
	watching.Go(func() { live.Watch(ctx, p.path, reload, report) })
	return stop, nil
}

// ignore says of each reload that there is nothing to read, until ctx ends.
func ignore(ctx context.Context, reload <-chan struct{}, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-reload:
			log.Warn("SIGHUP ignored: this server has no --policy file to read again")
		}
	}
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
