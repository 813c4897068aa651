package backend

import (
	"context"
	"errors"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
)

// Regions are the other regions whose hits a Service adds to those of its own. Like a Journal they are adapted by
// whoever wires the two.
type Regions interface {
	// Region is the name of this one.
	Region() string
	// Read calls f with the engine of each other region that has one here, by name, until f fails. f keeps no engine.
	Read(f func(region string, e *weir.Engine) error) error
	// Regions are all that are known, this one included, by name. It waits for nobody.
	Regions() []Region
	// Links are those that this region pulls from.
	Links() []RegionLink
	// Pulls are what other regions have pulled from this node since the start, by name.
	Pulls() []RegionPull
	// Figures are those of this node's part in it.
	Figures() RegionFigures
	// Feed sends a region all that it has not, and what comes, until ctx is done: frames of package internal/region. The error
	// wraps ErrFeedRequest if what it asks is wrong.
	Feed(ctx context.Context, ask FeedRequest, send func(frames []byte) error, flush func() error) error
	// Forget drops all hits of a region. The error wraps ErrUnknownRegion or ErrOwnRegion.
	Forget(ctx context.Context, region string) error
	// Alarms are what is wrong now.
	Alarms() []api.Alarm
}

// Region is what a node knows of one.
type Region struct {
	Name   string
	Own    bool
	Linked bool          // there is a link to it
	Gone   bool          // it was forgotten
	Known  bool          // its windows are here
	Base   bool          // a base of it is on its way
	Epoch  uint64        // of its digests; 0: none came
	Digest uint64        // the last one
	AsOf   time.Time     // all hits that it took until then are counted here, but for those of Late; the zero time: none are
	Every  time.Duration // between its digests
	Heard  time.Duration // since the last came
	Age    time.Duration // since AsOf, by this node's clock
	Lag    time.Duration // of that, from AsOf until it came
	Behind bool          // newer hits of it may be missing
	Late   []api.Late    // nodes of it that are late
	Bytes  uint64        // of its digests and bases, since the start
	Wrong  uint64        // batches whose running total was not the next
	Keys   []string      // prefixes of the keys that it tells other regions; none: all

	// Tells tells whether it tells this region a key, TellsAll whether all that begin so; nil: all.
	Tells, TellsAll func(text string) bool
}

// FeedRequest is what a region asks for that pulls: the words of package internal/region.
type FeedRequest struct {
	As    string // its name
	Have  string // the digests that it has
	Begun string // bases of which it has the first pieces
}

// RegionLink is a link of this region.
type RegionLink struct {
	Region  string
	URL     string
	Up      bool
	Why     string        // it is not up
	For     time.Duration // that it is, or is not
	Bytes   uint64        // that came since the start
	Rate    float64       // of the last 10 s, bytes per second
	Retries uint64
}

// RegionPull is what one other region has pulled from this node since the start.
type RegionPull struct {
	Region string
	Now    bool    // it does
	Bytes  uint64  // sent to it
	Rate   float64 // of the last 10 s, bytes per second
	Behind uint64  // messages of the log that it is still to be sent, of those that are here
}

// RegionFigures are those of a node's part in its region.
type RegionFigures struct {
	Owner   bool   // it writes the log of digests, and has the links
	Last    uint64 // message of that log that was read
	Feeds   int64  // other regions that pull from this node now
	Sent    uint64 // bytes to them
	Damaged uint64 // messages of the log that could not be read
	Unread  uint64 // parts of flushes that the journal lost, and no digest has
	Missing uint64 // messages that windows of other regions could not take
}

var (
	// ErrUnknownRegion is what Forget wraps for a name that no region has.
	ErrUnknownRegion = errors.New("no region of that name")
	// ErrOwnRegion is what it wraps for this region.
	ErrOwnRegion = errors.New("it is this region")
	// ErrFeedsFull is what Feed wraps where as many regions pull as may.
	ErrFeedsFull = errors.New("too many links")
	// ErrFeedRequest is what Feed wraps for parameters that are wrong.
	ErrFeedRequest = errors.New("not the request of a link")
)
