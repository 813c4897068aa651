// Package ingest takes hits: what became of a request of them, that a repeated one counts once, and that who waits for the
// disk is told when they are there.
package ingest

import (
	"log/slog"
	"sync/atomic"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/service/access"
	"github.com/weir-counter/weir/service/livelog"
	"github.com/weir-counter/weir/service/pools"
	"github.com/weir-counter/weir/service/storage"
)

// Parts are what a Service works with. All must be given.
type Parts struct {
	Engine  *weir.Engine
	Gate    *access.Gate
	Storage storage.Storage
	Pools   *pools.Pools
	Log     *slog.Logger
	Live    *livelog.Log // is told of each hit

	MaxBatch       int           // hits of one request
	DurableTimeout time.Duration // bounds the wait for the disk
}

// Service takes hits.
type Service struct {
	parts    Parts
	requests requests

	// waitedInVain: the journal fails, and somebody has waited for DurableTimeout since.
	waitedInVain atomic.Bool
}

// New is a Service of parts.
func New(p Parts) *Service { return &Service{parts: p} }
