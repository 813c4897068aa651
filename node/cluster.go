package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/limits"
	"github.com/weir-counter/weir/internal/cluster/query"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
)

// handOver bounds how long a node that stops tries to hand over the keys that it decides. Otherwise other nodes wait until
// they miss it. It takes some 50 ms. Nodes that all stop at once do not wait, because each has announced it.
const handOver = 2 * time.Second

// clustered keeps hits in a journal of many nodes, which answer questions and decide limits for each other.
type clustered struct{ durable }

func (m *clustered) open(ctx context.Context, e *engine.Engine, sockets *sockets, parts *parts) error {
	if err := m.openDirectory(ctx, e, sockets, parts); err != nil {
		return err
	}
	sockets.Cluster, sockets.compareSettings = m.journal, m.journal.Holders().CompareSettings
	err := m.openLimits(ctx, e, sockets, parts)
	if err == nil {
		err = m.openRegion(ctx, e, func() bool { return m.journal.Holders().First(regionSetting) }, sockets, parts)
	}
	if err != nil {
		return err
	}
	return m.openRouter(e, sockets, parts)
}

func (m *clustered) openLimits(ctx context.Context, e *engine.Engine, sockets *sockets, parts *parts) error {
	name := m.cfg.Journal.Join.Node
	l, err := limits.Open(limits.Config{Journal: m.journal, Engine: e, Node: name, Logger: m.log, Tracer: m.cfg.HTTP.Tracer})
	if err != nil {
		return err
	}
	parts.opened(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, handOver)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			m.log.Warn("could not hand over the keys of limits; other nodes take over within seconds", "error", err)
		}
		return nil
	})
	m.awaitOwners(ctx, l)
	sockets.Node = name
	sockets.Figures = append(sockets.Figures, func() any { return l.OwnerStats() }, func() any { return l.Stats() })
	sockets.Counters = l.Counters()
	sockets.policy = admit.Cluster{Node: name, Owners: l}
	return nil
}

// ownersTime bounds the wait for owners: without some of them the node can do everything else.
const ownersTime = 5 * time.Second

// awaitOwners waits until every limit that one node decides has an owner: a node that is ready decides at once.
func (m *clustered) awaitOwners(ctx context.Context, l *limits.Limits) {
	waiting, cancel := context.WithTimeout(ctx, ownersTime)
	defer cancel()
	for !l.Settled() {
		if concurrency.Sleep(waiting, 20*time.Millisecond) == nil {
			continue
		}
		if ctx.Err() == nil {
			m.log.Warn("some keys of strict and leased limits have no owner yet: requests for them fail meanwhile")
		}
		return
	}
}

func (m *clustered) openRouter(e *engine.Engine, sockets *sockets, parts *parts) error {
	j := m.journal
	r, err := query.Open(query.Config{
		Engine: e, Conn: j.Joined().Conn(), Self: j.Origin(), Holders: j.Holders().WhomToAsk, Flush: j.Sync, Followed: j.Followed,
		FlushEvery: m.cfg.Journal.FlushEvery, Logger: m.log, Tracer: m.cfg.HTTP.Tracer,
		Freshness: j.Freshness,
	})
	if err != nil {
		return err
	}
	parts.opened(func(context.Context) error {
		r.Close()
		return nil
	})
	sockets.Answers = r
	sockets.Figures = append(sockets.Figures, func() any { return r.Stats() })
	return nil
}

// auditFile is the file of the audit log. It may be moved: reopen then creates a new one. Each record is one write.
type auditFile struct {
	path string
	log  *slog.Logger // of the node

	mu   sync.Mutex // guards file
	file *os.File
}

// openAudit opens the file that the configuration names, if any, and has the service write its audit log there.
func (n *Node) openAudit() error {
	if n.cfg.AuditLog == "" {
		return nil
	}
	n.auditFile = &auditFile{path: n.cfg.AuditLog, log: n.log}
	if err := n.auditFile.reopen(); err != nil {
		return fmt.Errorf("--audit-log: %w", err)
	}
	n.parts.opened(func(context.Context) error { return n.auditFile.file.Close() })
	n.cfg.Service.Audit = slog.New(slog.NewJSONHandler(n.auditFile, nil))
	return nil
}

func (a *auditFile) reopen() error {
	file, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.file
	a.file = file
	if before == nil {
		return nil
	}
	return before.Close()
}

// Write implements io.Writer. A record that can't be written goes to the log of the node. The audited request is served
// anyway.
func (a *auditFile) Write(record []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.file.Write(record)
	if err != nil {
		a.log.Error("the audit log can't be written", "file", a.path, "error", err, "record", string(record))
	}
	return n, err
}

func (n *Node) reopenAudit() {
	if n.auditFile == nil {
		return
	}
	if err := n.auditFile.reopen(); err != nil && !errors.Is(err, os.ErrClosed) {
		n.log.Error("could not reopen the audit log; records go to the file that is open", "file", n.auditFile.path, "error", err)
	}
}
