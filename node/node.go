// Package node is a complete server in one type: engine, journal, cluster, policies, service and listeners. Start opens them
// in order, and Close closes them in the opposite order, so that every hit that was answered is in the journal.
//
// The command weir serve adds flags; tests, examples and programs that embed a Weir start the same type. Nothing else wires
// the packages together: service and journal know each other only by small interfaces of service.
//
// Hits are kept in memory, in a journal of this node, or in a journal of many nodes: each is a mode.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/alerts"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/policy"
)

// Node is a running server. Create it with Start, and end it with Close, also after it failed. It is safe for many
// goroutines.
type Node struct {
	cfg        Config // defaults applied, valid
	log        *slog.Logger
	engine     *engine.Engine
	mode       mode
	policyFile *access.PolicyFile // nil: there is none
	locks      locks
	auditFile  *auditFile // nil: the audit log goes to log
	listeners  listeners
	service    *service.Service
	alerts     *alerts.Alerts // nil: there are none
	parts      parts

	run     context.Context // ends when the node does, with the cause
	end     context.CancelCauseFunc
	running sync.WaitGroup
	cut     error // requests were cut off; written before running is done

	closing sync.Once
	closed  error
}

// errClosed is why a node ends that was closed.
var errClosed = errors.New("node: closed")

// Start starts a node and returns when it answers. ctx is for the start only. If it ends before, Start closes what it has
// opened; the error wraps the context's, or says what could not be closed. For a Config that is not valid the error is a
// *weir.Error of CodeInvalidConfig that names the field. For a data directory that lost hits to damage it is a
// *journal.DamageError.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	given := cfg
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.tellBudgets(&given)
	file, set, err := access.ReadPolicyFile(cfg.Policies.File)
	if err != nil {
		return nil, err
	}
	if file == nil {
		set = cfg.Policies.Set
	}
	if err := errors.Join(cfg.RLS.CheckLimits(), cfg.Alerts.Check()); err != nil {
		return nil, err
	}
	locks, err := readLocks(&cfg)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, log: cfg.Logger, policyFile: file, locks: locks}
	if err := n.openTraces(ctx); err != nil {
		return nil, err
	}
	n.listeners = newListeners(&n.cfg)
	if err := n.start(ctx, set); err != nil {
		return nil, n.undo(ctx, err)
	}
	n.run, n.end = context.WithCancelCause(context.Background())
	n.running.Go(n.serve)
	n.running.Go(n.watch)
	return n, nil
}

// start opens the parts, each before the parts that need it. set is the policies, nil without any.
func (n *Node) start(ctx context.Context, set *policy.Set) (err error) {
	sockets := &sockets{listeners: &n.listeners, memory: &memoryNeeds{cfg: &n.cfg}}
	sockets.memory.setRegions(0)
	if n.engine, err = engine.New(n.cfg.Engine); err != nil {
		return err
	}
	n.parts.opened(func(context.Context) error { return n.engine.Close() })
	if err := n.openAudit(); err != nil {
		return err
	}
	n.locks.watch(&n.cfg, &n.parts)
	sockets.Backend = service.Backend{Engine: n.engine, Tokens: n.locks.tokens, Alarms: n.locks.alarms}
	if t := n.cfg.HTTP.Tracer; t != nil {
		sockets.Figures = append(sockets.Figures, func() any { return t.Stats() })
	}
	n.mode = newMode(&n.cfg)
	if err := n.mode.open(ctx, n.engine, sockets, &n.parts); err != nil {
		return err
	}
	if err := n.openPolicies(ctx, set, sockets); err != nil {
		return err
	}
	if err := n.openAlerts(sockets); err != nil {
		return err
	}
	if sockets.compareSettings != nil {
		sockets.compareSettings(func() membership.Settings { return n.settings(sockets.Policies) })
	}
	if n.service, err = service.New(sockets.Backend, n.cfg.Service); err != nil {
		return err
	}
	if n.alerts != nil {
		n.alerts.Start(n.service)
	}
	return n.listeners.open(n.service, &n.parts)
}

// undo closes what was opened before a start failed.
func (n *Node) undo(ctx context.Context, failure error) error {
	wasInterrupted := ctx.Err() != nil && errors.Is(failure, context.Cause(ctx))
	err := n.parts.close(context.WithoutCancel(ctx))
	switch {
	case !wasInterrupted:
		return errors.Join(failure, err)
	case err != nil:
		return err
	}
	n.log.Info("stopped")
	return failure
}

// serve answers until the node ends, or ends it.
func (n *Node) serve() {
	err := n.listeners.run(n.run)
	if n.run.Err() != nil {
		n.cut = err
		return
	}
	n.end(err)
}

func (n *Node) watch() {
	select {
	case <-n.run.Done():
	case <-n.mode.failed():
		n.end(n.mode.err())
	}
}

// Addr is the address that the server listens on, host:port.
func (n *Node) Addr() string { return n.listeners.http.Addr() }

// StatsDAddr is the address that StatsD is sent to, host:port; "" without Config.StatsD.
func (n *Node) StatsDAddr() string { return n.listeners.addr("statsd") }

// RLSAddr is the address that Envoy reaches, host:port; "" without Config.RLS.
func (n *Node) RLSAddr() string { return n.listeners.addr("rls") }

// RESPAddr is the address that clients of Redis reach, host:port; "" without Config.RESP.
func (n *Node) RESPAddr() string { return n.listeners.addr("resp") }

// Handler returns the whole HTTP API, for a server of the caller or for calls within the process. Limits on connections and
// slow clients do not apply to it.
func (n *Node) Handler() http.Handler { return n.listeners.http.Handler() }

// Ready reports whether requests are to be sent here, as /readyz does.
func (n *Node) Ready() bool {
	_, refusing := n.service.Ready()
	return refusing == nil
}

// Engine returns what counts: a program that embeds the node hits it directly. In a cluster it has the hits of other nodes a
// moment later. Keys that only other nodes hold (Journal.Replicas) are not in it: ask over HTTP.
func (n *Node) Engine() *weir.Engine { return (*weir.Engine)(n.engine) }

// Reload reads the policy file, the tokens file and the certificates again, soon, and opens the audit log again. The log
// says what became of it.
func (n *Node) Reload() {
	n.policyFile.Reload()
	n.listeners.reload()
	n.locks.reloadAll()
	n.reopenAudit()
}

// Done is closed when the node begins to end: after Close was called, or because it can't go
// on, as Err says. Then it answers no new requests; Close does the rest.
func (n *Node) Done() <-chan struct{} { return n.run.Done() }

// Err returns why the node can't go on: its journal or its address failed. nil: it can, or was closed.
func (n *Node) Err() error {
	if err := context.Cause(n.run); !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

// Close stops the node in order. Requests in flight have HTTP.StopTimeout; the last hits and snapshots have CloseTimeout to
// reach the disk, or until ctx ends if that is sooner. The error joins why the node failed, if it did, and what could not be
// closed well. Further calls wait for the first and return the same.
func (n *Node) Close(ctx context.Context) error {
	n.closing.Do(func() {
		n.end(errClosed)
		n.running.Wait()
		n.closed = errors.Join(n.cut, n.Err(), n.parts.close(ctx))
		if n.closed == nil {
			n.log.Info("stopped")
		}
	})
	return n.closed
}

// parts are the functions that close what a node has opened, in order.
type parts []func(ctx context.Context) error

func (p *parts) opened(closing func(ctx context.Context) error) { *p = append(*p, closing) }

// close closes all parts, the newest first, even if one fails.
func (p *parts) close(ctx context.Context) (err error) {
	for len(*p) > 0 {
		last := len(*p) - 1
		newest := (*p)[last]
		*p = (*p)[:last]
		err = errors.Join(err, newest(ctx))
	}
	return err
}

// phase is what a node does before it is ready, for callers that ask meanwhile.
type phase struct {
	joining bool
	detail  atomic.Pointer[string]
}

func (p *phase) say(what string) { p.detail.Store(&what) }

func (p *phase) replaying(done, all uint64) {
	p.say(fmt.Sprintf("the journal is read: message %d of %d", done, all))
}

func (p *phase) now() httpapi.Phase {
	is := httpapi.Phase{Status: "loading", Detail: "the data directory is opened"}
	if p.joining {
		is.Status = "joining"
	}
	if detail := p.detail.Load(); detail != nil {
		is.Detail = *detail
	}
	return is
}

// mode is where a node's hits are kept: in memory (ephemeral), in a journal of its own (durable), or in a journal of many
// nodes (clustered).
type mode interface {
	// open brings engine to where the node left off, fills sockets, and adds what it
	// opened to parts, also when it fails. If ctx ends before, the error wraps its.
	open(ctx context.Context, engine *engine.Engine, sockets *sockets, parts *parts) error
	// failed is closed when the node can't go on, and err says why: a restarted process can. nil: that never happens.
	failed() <-chan struct{}
	err() error
}

// sockets are where a mode plugs in.
type sockets struct {
	service.Backend               // its Journal, Cluster, Answers, Route, Strict
	policy          admit.Cluster // zero: this node decides alone
	listeners       *listeners
	document        access.Document // where policies that are put by API are kept; nil: in memory
	memory          *memoryNeeds
	compareSettings func(own func() membership.Settings) // with the other nodes; nil: there are none
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
