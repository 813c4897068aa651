package replay

import "errors"

// MaxLineBytes is the longest line that is read. A longer one is malformed.
const MaxLineBytes = 256 << 10

// MaxWeight is the largest count that one line may carry. It keeps the total
// of 2^31 lines from overflowing.
const MaxWeight = 1 << 32

// A line is one parsed line of a log. Its fields are views into the chunk that
// was parsed, or into the parser's scratch memory: they live until the next
// line is parsed.
type line struct {
	at int64  // Unix seconds, rounded down
	n  uint64 // hits this line stands for; 0 is a line without hits

	// fields holds the values that templates ask for, at the places that
	// bind handed out. nil is a field that this line does not have.
	fields [][]byte
}

// A parser reads lines of one format. It is used by one worker, so it may
// cache what the lines before had in common.
type parser interface {
	// parse fills l from b, which has no line end. The error says why b is
	// malformed; it is one of a fixed set, so that garbage costs nothing.
	parse(b []byte, l *line) error
}

// Why a line is malformed.
var (
	errLongLine    = errors.New("longer than 256 KiB")
	errNoHost      = errors.New("no host before the first space")
	errNoTime      = errors.New("no time like [10/Oct/2000:13:55:36 -0700]")
	errNoRequest   = errors.New(`no "request" in quotes after the time`)
	errNoStatus    = errors.New("no status after the request")
	errNotJSON     = errors.New("not a JSON object")
	errNoTimeField = errors.New("no time in a field at, time, timestamp, ts or @timestamp")
	errBadTime     = errors.New("the time is not RFC 3339, Unix seconds or milliseconds, or a log time")
	errTimeRange   = errors.New("the time is before 1970 or after 2514")
	errBadWeight   = errors.New("the count is not a whole number from 0 to 4294967296")
	errNotTSV      = errors.New("not `epoch count [key]`")
)
