package server

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// What a Server is wired to is that of its Service: whoever wires the two adapts journal
// and cluster to these.
type (
	Journal       = service.Journal
	JournalStats  = service.JournalStats
	Restored      = api.Restored
	Cluster       = service.Cluster
	ClusterStatus = service.ClusterStatus
	ClusterServer = service.ClusterServer
	ClusterRoute  = service.ClusterRoute
	ClusterStream = service.ClusterStream
	LateNode      = service.LateNode
	Node          = service.Node
	Skew          = service.Skew
	Removal       = service.Removal
	NotFreshError = service.NotFreshError
	Answers       = service.Answers
	CountQuestion = service.CountQuestion
	Fresh         = service.Fresh
	Alarm         = api.Alarm
)

// Errors of theirs.
var (
	ErrUnknownNode   = service.ErrUnknownNode
	ErrNodeHere      = service.ErrNodeHere
	ErrRestoring     = service.ErrRestoring
	ErrCountedTwice  = service.ErrCountedTwice
	ErrDamagedBackup = service.ErrDamagedBackup
)
