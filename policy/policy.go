// Package policy says which limits a request has, from a YAML file of policies:
//
//	limits:
//	  - name: login
//	    keys: "login:{user}:*"
//	    by: "login:{user}"
//	    limit: 5
//	    per: 1m
//	    overrides:
//	      - key: "login:admin"
//	        limit: 100
//
// Parse and Load read a file into a Set, and say each thing that is wrong with it by
// line and field. A Set does not change, and knows nothing of an engine: package admit puts it
// to work on one.
//
// The fields of a policy: name; keys, the request's keys that it is for (`*` is any
// text, `{name}` one or more bytes without : and /, `{name*}` any text); by, the key that is counted,
// made of the captures of keys (else the request's key); limit, per, burst and
// algorithm (window, fixed, gcra) of package limit, or with a per of day, week or month its calendar, with
// tz and anchor; mode (enforce, or shadow, which
// denies nothing); where (shared, node, strict, leased: which nodes of a cluster count together,
// and who decides; or global: each region has a part, which regions gives in percent and is kept in
// it as within says, leased or strict, or with within: shared and no regions each counts what it knows of the others) and away (closed, open, share: what becomes of requests while the node
// that decides a strict or leased limit is away); deny_for (10m: for how long a key that was over is denied);
// warn (80%: from which share of the burst on answers warn); wait (200ms: what may pass within it waits for its turn); cost (tokens: what of a request it counts, in place of its n); order (lower first, equal ones as in the file); last (no later
// policy is looked at); overrides, other limits of counted keys, what they leave out
// as in the policy.
package policy

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
)

// Mode says whether a policy denies.
type Mode uint8

const (
	// Enforce denies what is over the limit.
	Enforce Mode = iota

	// Shadow denies nothing: it says, and counts, what it would have denied.
	Shadow
)

// modes and algorithms are the words of the file, in the order of their constants.
var (
	modes      = []string{"enforce", "shadow"}
	algorithms = []string{"window", "fixed", "gcra"}
)

func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Policy is one entry of a file.
type Policy struct {
	Name      string
	Keys      string     // the pattern of the request's keys
	By        string     // the template of the key that is counted; "": the request's key
	Limit     weir.Limit // the burst filled in
	Mode      Mode
	Where     limit.Where   // which nodes of a cluster count together
	Parts     []Part        // of a limit over regions, which each keeps by Where; nil: it has none
	Global    bool          // a limit over regions without Parts: each counts what it knows of the others
	Away      Away          // if Where is strict or leased
	DenyFor   time.Duration // for how long a key that was denied is banned; 0: it is not
	Warn      uint8         // from how many percent of the burst on results warn; 0: never
	Wait      time.Duration // requests that may pass within it wait in place of being denied; 0: none
	Cost      string        // which of Request.Costs a request takes; "": Request.N
	Order     int           // lower first
	Last      bool          // no later policy is looked at
	Overrides []Override
	Line      int    // of the file
	Version   uint64 // of a policy that was put by API (package kept); 0: it is of the file
}

// Override is another limit for one counted key.
type Override struct {
	Key   string
	Limit weir.Limit // whole: what the file leaves out is the policy's
	Line  int
}

// InlinePrefix begins the names of limits that requests bring along, where they have none of their own: no policy's name does.
const InlinePrefix = "inline/"
