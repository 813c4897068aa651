package service

import (
	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service/backend"
)

// Backend is what a Service answers from. Whoever puts a node together fills it; Engine
// must be given.
type Backend struct {
	Engine  *weir.Engine
	Journal backend.Journal // nil: hits are kept in memory only
	Cluster backend.Cluster // nil: this node counts alone
	Answers Answers         // nil: the engine answers, which holds all keys
	Node    string          // this node's name in a cluster; "": it counts alone
	Regions backend.Regions // nil: this server counts for no region
	History backend.History // nil: there are windows only

	Tokens *Tokens // who may do what; nil: everybody may do everything

	// Alarms are those of what the service knows nothing of, such as certificates; nil: there are none.
	Alarms func() []Alarm

	Policies   *admit.Live   // the limits that Allow asks; nil: only those that requests bring along
	PolicyFile *PolicyFile   // that Policies come from; nil: from none
	Kept       *KeptPolicies // those that were put by API; nil: none can be
	Warnings   *Warnings     // where a key's warnings are sent; nil: nowhere

	Route  func() backend.RouteStats  // figures of Answers that ask other nodes; nil: they ask none
	Strict func() backend.StrictStats // figures of nodes that decide strict limits for each other; nil: they don't
	Leased func() backend.LeasedStats // figures of what nodes lend each other of limits; nil: they don't
}
