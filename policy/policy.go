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
// Parse and Load read a file into a Set, and say each thing that is wrong with it by line and field. A Set does not
// change, and knows nothing of an engine: package admit puts it to work on one.
//
// The fields of a policy:
//
//   - name
//   - keys: the request's keys that it is for; `*` is any text, `{name}` one or more bytes
//     without : and /, `{name*}` any text
//   - by: the key that is counted, made of the captures of keys; else the request's key
//   - limit, per, burst, algorithm (window, fixed, gcra): as in package limit; a per of day,
//     week or month is its calendar, with tz and anchor
//   - mode: enforce, or shadow, which denies nothing
//   - where: leased, node or strict, which nodes of a cluster count together and who decides;
//     or global, where each region has a part in percent (regions) and keeps it as within says
//   - away: closed or open, what becomes of requests while the node that decides is unreachable
//   - deny_for: how long a key that was over is denied
//   - warn: from which share of the burst on answers warn
//   - wait: what may pass within this time waits for its turn
//   - cost: which of a request's costs it counts, in place of n
//   - count_if: which answers it counts, for callers that report their status
//   - order: lower first; equal ones as in the file
//   - last: no later policy is asked
//   - except: address ranges whose requests it is not for
//   - overrides: other limits of counted keys, or of those in an address range; what they leave out is as in the policy
package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/pattern"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
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
	Keys      string      // the pattern of the request's keys
	By        string      // the template of the key that is counted; "": the request's key
	Limit     limit.Limit // the burst filled in
	Mode      Mode
	Where     limit.Where   // which nodes of a cluster count together
	Parts     []Part        // of a limit over regions, which each keeps by Where; nil: it has none
	WasShared bool          // the file says where: shared, which is read as leased
	Away      Away          // if Where is strict or leased
	DenyFor   time.Duration // for how long a key that was denied is banned; 0: it is not
	Warn      uint8         // from how many percent of the burst on results warn; 0: never
	Wait      time.Duration // requests that may pass within it wait in place of being denied; 0: none
	Cost      string        // which of Request.Costs a request takes; "": Request.N
	CountIf   Condition     // an admission whose answer it does not hold for is given back, if the caller reports it; nil: all stay
	Order     int           // lower first
	Last      bool          // no later policy is looked at
	Except    []netip.Prefix
	Overrides []Override
	Line      int    // of the file
	Version   uint64 // of a policy that was put by API (package kept); 0: it is of the file
}

// Row is what answers say of the policy.
func (p *Policy) Row() api.LimitPolicy {
	row := api.LimitPolicy{
		Name: p.Name, Keys: p.Keys, By: p.By, Version: p.Version,
		Limit: p.Limit.N, PerSeconds: p.Limit.Per.Seconds(), Burst: p.Limit.Burst, Algorithm: p.Limit.Algorithm.String(), Calendar: p.Limit.Calendar.String(),
		Mode: p.Mode.String(), Where: p.Where.String(), Regions: p.Parts, Warn: int(p.Warn), DenyForSeconds: p.DenyFor.Seconds(), WaitSeconds: p.Wait.Seconds(),
		Cost: p.Cost, CountIf: p.CountIf.String(), Last: p.Last, Overrides: len(p.Overrides), Except: len(p.Except),
	}
	if p.Where.ByOne() {
		row.Away = p.Away.String()
	}
	return row
}

// Override is another limit for one counted key, or for those with an address in a range.
type Override struct {
	Key   string
	Range netip.Prefix // valid in place of a key
	Limit limit.Limit  // whole: what the file leaves out is the policy's
	Line  int
}

// InlinePrefix begins the names of limits that requests bring along, where they have none of their own: no policy's name does.
const InlinePrefix = "inline/"

// ListenerPrefix begins the names of limits that a listener has of its own configuration. Requests bring none along with such a name, and
// none is put by API: what keys have used, and their bans, are kept by the name. A policy file may have some.
const ListenerPrefix = "rls/"

// Set is the policies of one file, ready to be asked. It does not change.
type Set struct {
	policies  []Policy // in order of application
	patterns  []pattern.Pattern
	templates []pattern.Template
	ranges    []*ranges
	outcomes  bool // a policy has a CountIf
	index     pattern.Index
	names     map[string]int
	content   filewatch.Hash // of the file

	atOnce      []parsedConcurrency // in the order of the file
	atOnceIndex pattern.Index
}

// MaxPolicies is how many policies a file may have.
const MaxPolicies = 2000

// Policies lists the policies in order of application. The list is the caller's, what is in it is not to be changed.
func (s *Set) Policies() []Policy { return slices.Clone(s.policies) }

// set sorts what was parsed, and makes it ready.
func (p *parser) set(content filewatch.Hash) *Set {
	slices.SortStableFunc(p.policies, func(a, b parsedPolicy) int { return cmp.Compare(a.Order, b.Order) })
	s := &Set{names: make(map[string]int, len(p.policies)), content: content, atOnce: p.atOnce}
	for i, one := range p.policies {
		s.policies = append(s.policies, one.Policy)
		s.patterns = append(s.patterns, one.pattern)
		s.templates = append(s.templates, one.template)
		s.ranges = append(s.ranges, one.ranges)
		s.names[one.Name] = i
		s.outcomes = s.outcomes || one.CountIf != nil
	}
	s.index = pattern.NewIndex(s.patterns)
	var atOnce []pattern.Pattern
	for _, one := range s.atOnce {
		atOnce = append(atOnce, one.pattern)
	}
	s.atOnceIndex = pattern.NewIndex(atOnce)
	return s
}

// HasOutcomes reports whether a policy has a CountIf.
func (s *Set) HasOutcomes() bool { return s.outcomes }

// Len is how many policies there are, without those with max. Their places, from 0, are in order of application.
func (s *Set) Len() int { return len(s.policies) }

// At is the policy at a place; it is not to be changed.
func (s *Set) At(place int) *Policy { return &s.policies[place] }

// Place returns the place of the policy of a name; false: there is none.
func (s *Set) Place(name string) (place int, ok bool) {
	place, ok = s.names[name]
	return place, ok
}

// Candidates lists the places of the policies that may be for a key, in order of application: CountedKey says of each whether it is. The
// list is not to be changed.
func (s *Set) Candidates(key string) []int32 { return s.index.Candidates(key) }

// CountedKey is the key that the policy at a place counts for a request's key; false: the policy is not for it.
func (s *Set) CountedKey(place int, key string) (counted string, ok bool) {
	var took pattern.Captures
	if !s.patterns[place].Match(key, &took) {
		return "", false
	}
	if r := s.ranges[place]; r != nil && r.excepts(key, &took) >= 0 {
		return "", false
	}
	return s.templates[place].Key(key, &took), true
}

// Content returns the hash of the file that the Set was read from, or zero.
func (s *Set) Content() filewatch.Hash { return s.content }

// Counts fails for a key that the policy of a name, if it is one, never counts.
func (s *Set) Counts(name, key string) error {
	at, ok := s.names[name]
	if !ok {
		return nil
	}
	switch p := &s.policies[at]; {
	case p.By == "" && !s.patterns[at].Fits(key):
		return Failure(api.CodeInvalidKey, "key", "limit %s never counts key %q: its keys are %q", name, units.Excerpt(key), p.Keys)
	case p.By != "" && !s.templates[at].CanMake(key):
		return Failure(api.CodeInvalidKey, "key", "limit %s never counts key %q: it counts what `by: %q` makes of its keys, %q; write the key as it is counted", name, units.Excerpt(key), p.By, p.Keys)
	}
	return nil
}

// Match is one policy that is for a key.
type Match struct {
	Policy Policy
	Key    string       // that is counted
	Limit  limit.Limit  // of that key, which may be overridden
	Except netip.Prefix // if valid, the policy is not for the key, because of this range
	Range  netip.Prefix // if valid, the one of the override
}

// Parts is what each region has of Limit, nil if it is not over regions.
func (m *Match) Parts() []Part {
	if m.Policy.Parts == nil {
		return nil
	}
	return PartsOf(m.Limit.Burst, m.Policy.Parts)
}

// Match tells which policies are for a request's key, in order of application, and which are not because of their Except. It is for
// people: Live asks the engine, and makes no lists.
func (s *Set) Match(key string) (matches []Match) {
	for _, at := range s.index.Candidates(key) {
		var took pattern.Captures
		if len(key) > engine.MaxKeyBytes || !s.patterns[at].Match(key, &took) {
			continue
		}
		p := s.policies[at]
		m := Match{Policy: p, Key: s.templates[at].Key(key, &took), Limit: p.Limit}
		if r := s.ranges[at]; r != nil {
			if place := r.excepts(key, &took); place >= 0 {
				m.Except = p.Except[place]
				matches = append(matches, m)
				continue
			}
		}
		if place := slices.IndexFunc(p.Overrides, func(o Override) bool { return !o.Range.IsValid() && o.Key == m.Key }); place >= 0 {
			m.Limit = p.Overrides[place].Limit
		} else if place, ok := s.Ranged(int(at), m.Key); ok {
			m.Limit, m.Range = p.Overrides[place].Limit, p.Overrides[place].Range
		}
		if matches = append(matches, m); p.Last {
			break
		}
	}
	return matches
}

// Near returns the first policy that is not for a key but would be if its `{name}` took any text, as `{name*}` does. Such a
// key has a : or / more than the author of the policy expected, and no limit.
func (s *Set) Near(key string) (p Policy, ok bool) {
	for _, at := range s.index.Candidates(key) {
		loose := s.patterns[at].Loose()
		if !s.patterns[at].Fits(key) && loose.Fits(key) {
			return s.policies[at], true
		}
	}
	return p, false
}

// MaxFileBytes is the largest policy file: MaxRanges fit in.
const MaxFileBytes = 4 << 20

// Load reads the policy file at path. The error is Faults, or an error of the file system.
func Load(path string) (*Set, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads the text of the policy file at path, if it is not larger than MaxFileBytes.
func ReadFile(path string) ([]byte, error) { return filewatch.Read(path, "policies", MaxFileBytes) }

func tooLarge() string {
	return fmt.Sprintf("larger than %s: a policy file is smaller; users are distinguished by their keys, not by policies", units.FormatSize(MaxFileBytes))
}

// Warnings is what is odd in a file and no fault of it, in order of application; file is its name for the messages.
func (s *Set) Warnings(file string) (all []Fault) {
	warn := func(p *Policy, field, format string, args ...any) {
		all = append(all, Fault{File: file, Line: p.Line, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	for i := range s.policies {
		p := &s.policies[i]
		if name := s.patterns[i].CutsAddress(); name != "" {
			warn(p, "keys", "%q: {%s} ends at a `:`, so that keys with an IPv6 address have no limit here, or are counted by a part of it: write {%s*}", units.Excerpt(p.Keys), name, name)
		}
		if p.WasShared {
			warn(p, "where", "limit %s: `shared` is read as `%v`, which never exceeds the limit: remove it, or write `node` to decide without other nodes", p.Name, p.Where)
		}
		if before := s.covered(i); before != "" {
			warn(p, "last", "%s comes before %s, is for all its keys and has `last: true`: %s is never asked but by name; give it a lower order, or remove it", before, p.Name, p.Name)
		}
	}
	return all
}

// covered is the name of a policy before the one at a place that leaves it no keys, or "".
func (s *Set) covered(place int) string {
	later := &s.patterns[place]
	for i := range s.policies[:place] {
		p := &s.patterns[i]
		if s.policies[i].Last && (s.policies[i].Keys == s.policies[place].Keys || p.TakesAll() && strings.HasPrefix(later.Prefix(), p.Prefix())) {
			return s.policies[i].Name
		}
	}
	return ""
}

// Unknown is the error of a policy's name that there is not.
func (s *Set) Unknown(name string) error {
	const most = 20
	var names []string
	for _, p := range s.policies {
		names = append(names, p.Name)
	}
	own := ""
	if _, err := strconv.ParseUint(name, 10, 64); err == nil {
		own = "; a limit of the request's own needs per too: limit=" + units.Excerpt(name) + "&per=1m, or weir allow --n " + units.Excerpt(name) + " --per 1m"
	}
	if len(names) == 0 {
		return Failure(api.CodeInvalidLimit, "limit", "no limit %q: there are no policies%s", units.Excerpt(name), own)
	}
	guess, more := units.DidYouMean(name, names), ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return Failure(api.CodeInvalidLimit, "limit", "no limit %q%s; there are %s%s%s", units.Excerpt(name), guess, strings.Join(names, ", "), more, own)
}

// NamedError is the error of a request that names a policy that there is not, or whose keys the request's is none of.
// Its text tells names or keys of policies, which are not for everybody; it wraps a *engine.Error.
type NamedError struct {
	Name string // as the request has it
	Err  error
}

func (e *NamedError) Error() string { return e.Err.Error() }

// Unwrap is the *engine.Error.
func (e *NamedError) Unwrap() error { return e.Err }

// Failure is a *engine.Error about a field of a request.
func Failure(code api.Code, field, format string, args ...any) error {
	return &engine.Error{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}

// A Fault is one thing that is wrong with a policy file.
type Fault = settings.Fault

// Faults is all that is wrong with a policy file, in the order of its lines, a line for each. Beyond MaxFaults one last
// Fault says how many more there are.
type Faults = settings.Faults

// MaxFaults is how many faults of one file are listed.
const MaxFaults = settings.MaxFaults
