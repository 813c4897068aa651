package envoy

import (
	"time"

	"github.com/weir-counter/weir/internal/filewatch"
)

// This part reads the configuration of envoyproxy/ratelimit unchanged, and finds the limit of a descriptor:
//
//	domain: edge
//	descriptors:
//	  - key: remote_address
//	    rate_limit:
//	      unit: minute
//	      requests_per_unit: 10
//
// ReadConfig reads a file or a folder of files. ParseConfig returns the LimitConfig, or all that is wrong, by file and
// line. A LimitConfig does not change, and knows no server and no engine.
//
// Invariant: each ConfigLimit has a unique Name, which depends on its place alone. The use of keys is kept under that
// name, so reading the files again grants no fresh allowance.

// LimitConfig is the limits of all domains.
type LimitConfig struct {
	domains map[string]*level
	limits  []*ConfigLimit
	content filewatch.Hash
}

// ConfigLimit is one `rate_limit`.
type ConfigLimit struct {
	ID     int    // its place in Config.Limits
	Name   string // rls/DOMAIN/KEY_VALUE/...: what keys have used is kept by it
	Label  string // its `name`, for `replaces` and answers; may be ""
	Domain string
	Path   []ConfigStep // from the domain to the limit

	Requests   uint32 // per period; 0: none passes
	Unit       ConfigUnit
	Multiplier uint32 // the period is so many units; at least 1
	Unlimited  bool   // all pass; Requests, Unit and Multiplier are 0

	Shadow   bool           // it denies nothing
	Quota    bool           // it denies only if all limits of the request that have Quota do
	Detailed bool           // decisions are counted by all values of the descriptor too (detailed_metric)
	Replaces []string       // labels of limits that this one replaces in a request
	Metadata map[string]any // for answers to requests that it lets pass; nil: none

	File string
	Line int
}

// ConfigStep is one descriptor on the way to a limit.
type ConfigStep struct {
	Key   string
	Value string // "": any; a * in it stands for any text, also none
	Share bool   // all values that fit count together
	Count bool   // decisions are counted by the value too (value_to_metric)
}

// Period is the time that Requests are for; 0 if the limit is unlimited.
func (l *ConfigLimit) Period() time.Duration { return time.Duration(l.Multiplier) * l.Unit.Duration() }

// Limits lists all limits, by ID. The list is not to be changed.
func (c *LimitConfig) Limits() []*ConfigLimit { return c.limits }

// Domains is how many domains there are.
func (c *LimitConfig) Domains() int { return len(c.domains) }

// Content is the hash of what the Config was made of.
func (c *LimitConfig) Content() filewatch.Hash { return c.content }

// ConfigUnit is a unit of time, by the numbers of envoy.service.ratelimit.v3.
type ConfigUnit uint8

// The units. A month has 30 days and a year 365, as in envoyproxy/ratelimit.
const (
	UnitSecond ConfigUnit = iota + 1
	Minute
	Hour
	Day
	Month
	Year
	Week
)

type unitWord struct {
	word string
	is   time.Duration
}

var unitTable = []unitWord{
	{}, {"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour},
	{"month", 30 * 24 * time.Hour}, {"year", 365 * 24 * time.Hour}, {"week", 7 * 24 * time.Hour},
}

// Duration is the length of a unit; 0 if the unit is unknown.
func (u ConfigUnit) Duration() time.Duration {
	if int(u) < len(unitTable) {
		return unitTable[u].is
	}
	return 0
}

func (u ConfigUnit) String() string {
	if int(u) < len(unitTable) && u > 0 {
		return unitTable[u].word
	}
	return "unknown"
}
