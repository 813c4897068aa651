package main

import (
	"context"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/journal/strict"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/server"
)

// handOver bounds how long a node that stops tries to give what it decides to others:
// without it they wait until its leases run out. It takes some 50 ms; of nodes that all
// stop at once the last ones can't, and must not wait longer than their journals linger
// for each other.
const handOver = 300 * time.Millisecond

// serveTogether is serveHTTP for a node among others, one of those that answer questions
// and decide strict limits for each other.
func (f *serveFlags) serveTogether(ctx context.Context, w *world, engine *weir.Engine, j *journal.Journal) error {
	node, log := f.journal.Join.Node, f.server.Logger
	s, err := strict.Open(ctx, strict.Config{Journal: j, Engine: engine, Node: node, Logger: log})
	switch {
	case err != nil && ctx.Err() != nil:
		log.Info("an interrupt came before the node was ready")
		return nil
	case err != nil:
		return err
	}
	f.server.Strict = func() server.StrictStats { return server.StrictStats(s.Stats()) }
	f.policies.cluster = policy.Cluster{Node: node, Nodes: nodesOf(j), Strict: s}
	err = f.serveRouted(ctx, w, engine, j)
	closing, cancel := context.WithTimeout(context.Background(), handOver)
	defer cancel()
	if closeErr := s.Close(closing); closeErr != nil {
		log.Warn("strict limits were not handed over: others decide them when the leases run out", "error", closeErr)
	}
	return err
}

// nodesOf is how many nodes there are, up or not: of a cluster all that have a vote, in
// an existing NATS those that were heard of and have not left.
func nodesOf(j *journal.Journal) func() int {
	return func() int {
		if size := j.Joined().Size(); size > 0 {
			return size
		}
		nodes := 0
		for _, o := range j.Origins() {
			if !o.Left {
				nodes++
			}
		}
		return nodes
	}
}
