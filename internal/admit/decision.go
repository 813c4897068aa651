package admit

import (
	"context"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// Request asks for N admissions of a key.
type Request struct {
	Key string // 1 to engine.MaxKeyBytes bytes; kept by no one but the Decision

	// Limit names the one policy that is asked, whose keys Key must fit. "": every
	// policy that Key fits. With Inline it names that limit instead.
	Limit string

	// Inline is a limit that the request brings along, in place of policies. What a key has used of it is kept by its
	// name; "" is named inline/ALGORITHM/PER, so that another N or burst grants no fresh allowance.
	Inline *engine.Limit

	// Prepared is a limit of the caller (Live.Prepare), in place of policies. Limit is its name.
	Prepared *Prepared

	// Values, unless "", has a decision of a Prepared limit counted as limit:NAME:OUTCOME:VALUES too.
	Values string

	// Shadow has limits deny nothing, whatever their mode.
	Shadow bool

	// Rest has a Prepared or Inline limit deny nothing, and counts no decision: it is for what a denied
	// request uses up.
	Rest bool

	N uint64 // 0 asks only, and counts no hit

	// Costs are what policies with a Policy.Cost take in place of N.
	Costs []Cost
}

var noHits hitKeys

// hits returns the keys that the decision is counted under, which are own, or for Rest none.
func (r *Request) hits(own *hitKeys) *hitKeys {
	if r.Rest {
		return &noHits
	}
	return own
}

func (r *Request) mode(own policy.Mode) policy.Mode {
	if r.Shadow || r.Rest {
		return policy.Shadow
	}
	return own
}

// Result is what one limit says of a request.
type Result struct {
	Name  string // of the policy or the inline limit
	Key   string // that was counted
	Mode  policy.Mode
	Limit engine.Limit // of that key, the burst filled in
	N     uint64       // admissions asked for
	Asked int          // the place of its request

	Inline bool // the request brought the limit along

	// Away is the word of Policy.Away if the limit is strict or leased and was decided without its key's owner, who did
	// not answer. Else it is "".
	Away string

	// Banned says that the key is banned for RetryAfter, whatever it has used: by Live.Ban, or Policy.DenyFor.
	Banned bool

	// Warning says that the limit lets the request pass, and has as much of its burst used as Policy.Warn says.
	Warning bool

	// NoPart says that this is a limit over regions in which this node's region has no part: it denies.
	NoPart bool

	values  string        // of the request
	outcome bool          // Policy.CountIf is set
	costs   bool          // Policy.Cost is set
	warn    uint8         // Policy.Warn
	denyFor time.Duration // Policy.DenyFor
	wait    time.Duration // Policy.Wait

	// Verdict is what the limit says by itself. If the decision is a denial, nothing was taken from any limit, even from one
	// that allowed it. A policy in shadow mode says what it would have decided, and takes nothing for what it would deny.
	engine.Verdict
}

// Decision is the answer to requests. Its memory is used again by the next call that gets
// it: the common call allocates nothing then. The zero Decision is ready for use.
type Decision struct {
	Allowed   bool
	Unmatched bool     // no policy is for any of the keys: allowed
	Excepted  []string // policies that would be for a key, but for its address (policy.Policy.Except)
	Never     bool     // a denial that can never pass: more was asked than the burst
	Repeats   bool     // of a reservation: another node had made it, and this request took nothing again
	Results   []Result // in the order of the requests, of each in order of application

	// Denied is the first of Results that denied; nil if Allowed.
	Denied *Result

	// RetryAfter is how long to wait until all that denied would allow it, if nothing
	// else happens; 0 if Allowed. Limits that can never allow it do not count.
	RetryAfter time.Duration

	// Waited is how long the requests waited for their turn: see Policy.Wait.
	Waited time.Duration

	// Until is when the caller stops waiting for the answer; zero: policies alone bound the wait. Calls do not change it.
	Until time.Time

	// Context is the caller's context. Once it is done, for example because the caller hung up, the requests leave the
	// queue and take nothing. It matters only while they wait. nil: they wait. Take does not change it.
	Context context.Context

	// Tenant names a caller that is for some keys only: new names of inline limits, and bans (BanDenied), count toward its
	// Share. "": any other caller. Calls do not change it.
	Tenant string

	// NoID says that the caller has no place for the ID of a denial. No ID is made, and the reason of the denial is not
	// kept.
	NoID bool

	// Denial is the ID under which package service keeps why this is a denial; empty: it keeps nothing.
	Denial []byte

	reserving bool // what was used is not known yet

	behind int           // the place of the limit for whose key others wait; -1: none
	wait   time.Duration // of a denial: how long the limits that deny let requests wait

	at       int64 // when it was decided; 0: not all of it here and at one moment
	asking   int   // the place of the request whose limits are being gathered
	checks   []engine.Check
	verdicts []engine.Verdict
	hits     []*hitKeys

	lastInline lastInline

	leased    bool         // all limits are leased, so far
	byOwners  bool         // there are limits that another node decides:
	elsewhere []*elsewhere // by check, nil for one that is decided here
	away      []string     // by check
}

// reset forgets the decision and keeps its memory.
func (d *Decision) reset() {
	d.Allowed, d.Unmatched, d.Never, d.Repeats, d.Denied, d.RetryAfter, d.Denial, d.at = false, false, false, false, nil, 0, d.Denial[:0], 0
	d.Waited, d.behind, d.wait = 0, -1, 0
	d.Results, d.checks, d.hits, d.Excepted = d.Results[:0], d.checks[:0], d.hits[:0], d.Excepted[:0]
	d.leased, d.byOwners, d.elsewhere, d.away = true, false, d.elsewhere[:0], d.away[:0]
}

// add notes one limit that the requests must pass.
func (d *Decision) add(target boundLimit, mode policy.Mode, key string, n uint64, hits *hitKeys) {
	limit, elsewhere := target.limit, target.elsewhere
	d.leased = d.leased && elsewhere != nil && elsewhere.leased
	if elsewhere != nil && !elsewhere.leased { // for leased limits, decideByOwners clones
		key = strings.Clone(key) // other nodes may be asked for longer than the caller waits
	}
	d.byOwners = d.byOwners || elsewhere != nil
	d.elsewhere, d.away = append(d.elsewhere, elsewhere), append(d.away, "")
	d.checks = append(d.checks, engine.Check{Limit: limit, Key: key, N: n, Shadow: mode == policy.Shadow})
	d.hits = append(d.hits, hits)
	d.Results = append(d.Results, Result{Name: limit.Name(), Key: key, Mode: mode, Limit: limit.Limit(), N: n, Asked: d.asking})
}

// Undecided returns the result of a limit whose owner could not be reached, if nothing else denies the requests.
// Whether they are over a limit is then unknown. nil: the limits were decided, or without their owners as Policy.Away
// says.
func (d *Decision) Undecided() (first *Result) {
	if d.Allowed {
		return nil
	}
	for i := range d.Results {
		switch r := &d.Results[i]; {
		case !d.denies(i):
		case r.Away != policy.AwayClosed.String():
			return nil
		case first == nil:
			first = r
		}
	}
	return first
}

// countBy has the decision of the limit that was added last counted by values too.
func (d *Decision) countBy(values string) { d.Results[len(d.Results)-1].values = values }

// applyVerdicts fills in the decision and its results from the verdicts.
func (d *Decision) applyVerdicts(allowed bool) {
	d.Allowed, d.Denied = allowed, nil
	for i, v := range d.verdicts {
		r := &d.Results[i]
		r.Verdict, r.Away, r.NoPart = v, d.away[i], d.elsewhere[i] == noPart
		r.Warning = r.warns()
		if v.Allowed || r.Mode == policy.Shadow {
			continue
		}
		if d.Denied == nil {
			d.Denied = r
		}
		d.Never = d.Never || v.Never
		d.RetryAfter = max(d.RetryAfter, v.RetryAfter)
	}
	d.wait = d.waitOf()
}

// Known appends the admissions that fill the limit of the result at a place, as far as this node knows them: see
// engine.KeyedLimit.Known, also for raw. Call it right after the decision. elsewhere says that another node decided: this
// one may know less, or nothing.
func (d *Decision) Known(place int, raw time.Time, list []limit.Admitted) (known []limit.Admitted, doubt time.Duration, elsewhere bool) {
	c := &d.checks[place]
	known, doubt = c.Limit.Known(c.Key, raw, list)
	return known, doubt, d.elsewhere[place] != nil && d.away[place] == ""
}

// At is when the decision was made, by the monotonic clock of limits, in ns; 0 if other nodes had a part in it. Two
// denials of one key by one limit were made of the same admissions if At+RetryAfter, At+Reset and Remaining are the
// same.
func (d *Decision) At() int64 { return d.at }

// Where says which nodes count the limit of the result at a place together.
func (d *Decision) Where(place int) limit.Where { return d.checks[place].Limit.Where() }

// Watch keeps the policies of the file at path in use until ctx ends. It looks once a second whether the file has other
// content, and at once for each value from reload, which may be nil. It follows a file that is replaced by a rename.
//
// report is called from Watch's goroutine. It gets nil when the file's policies are in use after a change or a
// requested reload. Else it gets what is wrong with the file, and the policies in use stay. It gets an error once for
// each content of the file, and again when a reload is requested.
func (l *Live) Watch(ctx context.Context, path string, reload <-chan struct{}, report func(error)) {
	file := filewatch.File{
		Path: path, What: "policies", Gone: "put it back, or write `limits: []` for none",
		Read: policy.ReadFile, InUse: func() filewatch.Hash { return l.Set().Content() }, Take: l.take, Report: report,
	}
	file.Watch(ctx, reload)
}

func (l *Live) take(path string, data []byte) error {
	set, err := policy.Parse(path, data)
	if err != nil {
		return err
	}
	return l.Replace(set)
}

// warns reports whether the limit lets the request pass, and so much of its burst is used that it warns.
func (r *Result) warns() bool {
	if r.warn == 0 || !r.Allowed || r.Away != "" || r.Remaining >= r.Limit.Burst {
		return false
	}
	used := r.Limit.Burst - r.Remaining
	return used >= r.Limit.Burst/100*uint64(r.warn)+(r.Limit.Burst%100*uint64(r.warn)+99)/100
}
