// Package reads is the questions about keys: counts, rates, series, the busiest keys, names, and history as a file. Each
// checks what the caller may read before anything is looked up, and asks package sources.
package reads

import (
	"log/slog"

	"github.com/weir-counter/weir/service/access"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/pools"
	"github.com/weir-counter/weir/service/sources"
)

// Parts are what a Service works with. Gate, Sources, Pools and Log must be given.
type Parts struct {
	Gate    *access.Gate
	Sources *sources.Sources
	Pools   *pools.Pools
	History backend.History // nil: there are windows only
	Regions backend.Regions // nil: the server counts for none
	Log     *slog.Logger

	MaxAnswers int // of one question
}

// Service answers questions about keys.
type Service struct{ parts Parts }

// New is a Service of parts.
func New(p Parts) *Service { return &Service{p} }
