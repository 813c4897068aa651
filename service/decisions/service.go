// Package decisions is what is asked of limits: whether requests may pass, why they might not, what keys have used; and
// what changes it: reservations, refunds, grants, resets, permits.
package decisions

import (
	"log/slog"
	"sync"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service/access"
	"github.com/weir-counter/weir/service/denials"
	"github.com/weir-counter/weir/service/doors"
	"github.com/weir-counter/weir/service/files"
	"github.com/weir-counter/weir/service/livelog"
	"github.com/weir-counter/weir/service/outcomes"
	"github.com/weir-counter/weir/service/permits"
	"github.com/weir-counter/weir/service/pools"
	"github.com/weir-counter/weir/service/sources"
	"github.com/weir-counter/weir/service/warnings"
)

// Parts are what a Service works with. All but PolicyFile, Kept, Node and Warnings must be given.
type Parts struct {
	Engine     *weir.Engine
	Gate       *access.Gate
	Sources    *sources.Sources
	Pools      *pools.Pools
	Policies   *admit.Live
	Doors      *doors.List // may have limits of their own
	PolicyFile *files.PolicyFile
	Kept       *files.KeptPolicies
	Node       string // this node's name in a cluster
	Log        *slog.Logger
	Live       *livelog.Log     // is told of each denial
	Warnings   *warnings.Teller // is told of each decision

	MaxInlinePer time.Duration // of a limit that a request brings along
}

// Service asks limits.
type Service struct {
	parts     Parts
	decisions *outcomes.Counts
	denials   *denials.Ring
	permits   *permits.Table
	reserving sync.Map // IDs of reservations that are being made
	begun     int64    // since when it answers, by the clock that limits are kept by, in ns
}

// New is a Service of parts.
func New(p Parts) *Service {
	s := &Service{
		parts: p, decisions: outcomes.New(p.Policies), permits: permits.New(), begun: limits.Lending(p.Engine).Now(),
	}
	s.denials = denials.New(p.Node, s.clockOfDenials)
	return s
}

// count counts a decision that was made, and has its warnings told.
func (s *Service) count(d *admit.Decision) {
	s.decisions.Count(d)
	s.parts.Warnings.Note(d)
}

// Decisions are the outcomes of all policies, for metrics, with the requests that no policy was for.
func (s *Service) Decisions() (list []outcomes.Figures, unmatched uint64) { return s.decisions.List() }

// listed is a limit by name: a policy of the file, or of a door.
type listed struct {
	policy.Policy
	door string // "": the file
}

// listed are the policies of the file in order of application, and then the limits of doors.
func (s *Service) listed() (list []listed) {
	for _, p := range s.parts.Policies.Set().Policies() {
		list = append(list, listed{Policy: p})
	}
	for _, l := range s.parts.Doors.Limits() {
		list = append(list, listed{l.Policy, l.Door})
	}
	return list
}
