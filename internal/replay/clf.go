// Package replay reads access logs and counts what is in them: for a report, or into a running Weir server.
//
// A log goes through one pipeline, whatever its size:
//
//	reader -> chunks of 1 MiB, cut at line ends -> workers -> collector
//
// The reader decompresses and cuts. The workers parse and count keys, in any order: counts do not depend on the order of hits. A
// sender, if there is a server, is between workers and collector and sends in the order of the log. The collector takes the chunks
// in that order too, and decides what depends on it: which line is late, and which malformed lines are the first five. So the report
// is the same for one worker and for many.
//
// Memory is bounded: the chunks come from a fixed pool, an engine with a budget holds the keys, and MaxSeconds limits the totals per
// second.
package replay

import (
	"bytes"
	"strconv"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/window"
)

// Places of the fields of an Apache or nginx log in line.fields.
const (
	clfHost = iota
	clfIdent
	clfUser
	clfTime
	clfRequest
	clfMethod
	clfPath
	clfProto
	clfStatus
	clfBytes
	clfReferer
	clfAgent
	clfVhost
	clfFieldCount
)

var clfFieldNames = [clfFieldCount]string{
	"host", "ident", "user", "time", "request", "method", "path", "proto", "status", "bytes", "referer", "agent", "vhost",
}

// clfParser reads the common log format and the combined one, which adds the referer and the agent:
//
//	host ident user [time] "request" status bytes "referer" "agent"
//
// Apache's vhost_combined has the virtual host and its port before them, as example.com:443, if the word after it looks like an
// address or a name.
//
// The host, the time, the quoted request and the status must be there; what follows may be missing. Values are kept as they are
// written: no %-decoding, no unescaping. "-" is no value.
type clfParser struct {
	clock      clfClock
	tail, user bool // a template asks for a field after the status, between host and time
}

func newCLFParser(p *plan) parser {
	return &clfParser{tail: p.uses(clfBytes, clfReferer, clfAgent), user: p.uses(clfIdent, clfUser)}
}

func (p *clfParser) parse(b []byte, l *line) error {
	f := l.fields[:clfFieldCount]
	space := bytes.IndexByte(b, ' ')
	if space <= 0 {
		return errNoHost
	}
	f[clfHost], f[clfVhost] = b[:space], nil
	if hasPort(b[:space]) {
		if client, _, _ := bytes.Cut(b[space+1:], []byte(" ")); bytes.ContainsAny(client, ".:") {
			f[clfHost], f[clfVhost] = client, b[:space]
			space += 1 + len(client)
		}
	}
	at, open, err := p.findTime(b, space)
	if err != nil {
		return err
	}
	l.at, l.n = at, 1
	f[clfTime] = b[open+1 : open+1+clfTimeLen]
	if p.user {
		splitUser(b[space+1:open], f)
	}

	rest := b[open+1+clfTimeLen+1:] // after the ']'
	if len(rest) < 2 || rest[0] != ' ' || rest[1] != '"' {
		return errNoRequest
	}
	rest = rest[2:]
	end, err := requestEnd(rest)
	if err != nil {
		return err
	}
	splitRequest(rest[:end], f)
	rest = rest[end+2:] // after the '"' and the ' '
	f[clfStatus], rest = word(rest)
	if p.tail {
		splitTail(rest, f)
	}
	return nil
}

// hasPort reports whether b ends in a colon and one to five digits.
func hasPort(b []byte) bool {
	for i := len(b) - 1; i > 0 && len(b)-i <= 6; i-- {
		if b[i] == ':' {
			return i < len(b)-1
		}
		if !isDigit(b[i]) {
			return false
		}
	}
	return false
}

// findTime finds [time] after the host. A user name may hold spaces and brackets, so each bracket is tried.
func (p *clfParser) findTime(b []byte, from int) (at int64, open int, err error) {
	for {
		i := bytes.IndexByte(b[from:], '[')
		if i < 0 {
			return 0, 0, errNoTime
		}
		open = from + i
		t := b[open+1:]
		if len(t) > clfTimeLen && t[clfTimeLen] == ']' {
			if at, ok := p.clock.parse(t); ok {
				if !inRange(at) {
					return 0, 0, errTimeRange
				}
				return at, open, nil
			}
		}
		from = open + 1
	}
}

// requestEnd finds the quote that closes the request: a status follows it. Servers write a quote inside a request as \" or \x22, but
// old ones did not, so any other quote belongs to the request.
func requestEnd(b []byte) (int, error) {
	from, quotes := 0, false
	for {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			if quotes {
				return 0, errNoStatus
			}
			return 0, errNoRequest
		}
		end := from + i
		if isStatus(b[end+1:]) {
			return end, nil
		}
		from, quotes = end+1, true
	}
}

// isStatus reports whether b begins with a space and a status (three digits or -), and then ends or goes on after a space.
func isStatus(b []byte) bool {
	if len(b) >= 4 && b[0] == ' ' && isDigit(b[1]) && isDigit(b[2]) && isDigit(b[3]) {
		return len(b) == 4 || b[4] == ' '
	}
	if len(b) >= 2 && b[0] == ' ' && b[1] == '-' {
		return len(b) == 2 || b[2] == ' '
	}
	return false
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// splitRequest cuts `GET /path HTTP/1.1`. The path is the second word; the protocol is the last word if it reads so.
func splitRequest(b []byte, f [][]byte) {
	f[clfRequest] = b
	f[clfMethod], f[clfPath], f[clfProto] = nil, nil, nil
	if len(b) == 0 || (len(b) == 1 && b[0] == '-') {
		return
	}
	f[clfMethod], b = word(b)
	f[clfPath], b = word(b)
	if len(b) == 0 {
		return
	}
	last := b[bytes.LastIndexByte(b, ' ')+1:]
	if bytes.HasPrefix(last, []byte("HTTP/")) {
		f[clfProto] = last
	}
}

// splitUser cuts `ident user `, where the user may hold spaces.
func splitUser(b []byte, f [][]byte) {
	f[clfIdent], b = word(b)
	f[clfUser] = known(bytes.TrimRight(b, " "))
}

// splitTail cuts `bytes "referer" "agent"`.
func splitTail(b []byte, f [][]byte) {
	f[clfBytes], b = word(b)
	f[clfReferer], b = quoted(b)
	f[clfAgent], _ = quoted(b)
}

// word cuts the first word off b. It is nil if there is none, or "-".
func word(b []byte) (w, rest []byte) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return known(b[:i]), b[i+1:]
	}
	return known(b), nil
}

// quoted cuts a string in quotes off b, and the space after it. Quotes inside follow a backslash. It is nil if there is none, or nothing or "-" in it.
func quoted(b []byte) (s, rest []byte) {
	if len(b) == 0 || b[0] != '"' {
		return nil, bytes.TrimPrefix(b, []byte("- ")) // without quotes
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return known(b[1:i]), bytes.TrimPrefix(b[i+1:], []byte(" "))
		}
	}
	return nil, nil
}

// known is a value; nil: it is empty, or "-", which says that there is none.
func known(b []byte) []byte {
	if len(b) == 0 || len(b) == 1 && b[0] == '-' {
		return nil
	}
	return b
}

// clfTimeLen is the length of a log time: 10/Oct/2000:13:55:36 -0700.
const clfTimeLen = 26

// clfClock reads log times. Lines mostly share the minute and the zone with the line before: these are parsed once and then compared.
type clfClock struct {
	minute [17]byte // 10/Oct/2000:13:55
	zone   [6]byte  // " -0700"
	base   int64    // Unix seconds of that minute; valid once minute is set
}

// parse reads the first clfTimeLen bytes of b. Second 60 (a leap second) is the first second of the next minute.
func (c *clfClock) parse(b []byte) (int64, bool) {
	if len(b) < clfTimeLen || b[17] != ':' {
		return 0, false
	}
	second, ok := twoDigits(b[18], b[19])
	if !ok || second > 60 {
		return 0, false
	}
	if [17]byte(b[:17]) != c.minute || [6]byte(b[20:26]) != c.zone {
		t, err := time.Parse("02/Jan/2006:15:04 -0700", string(b[:17])+string(b[20:26]))
		if err != nil {
			return 0, false
		}
		c.minute, c.zone, c.base = [17]byte(b[:17]), [6]byte(b[20:26]), t.Unix()
	}
	return c.base + int64(second), true
}

func twoDigits(a, b byte) (int, bool) {
	x, y := a-'0', b-'0'
	return int(x)*10 + int(y), x <= 9 && y <= 9
}

// inRange reports whether the engine can hold a hit of this time.
func inRange(at int64) bool { return at >= 0 && at <= window.MaxTime }

// parseTimeText reads a time that was written as text: RFC 3339, a log time, or a number as parseEpoch takes it.
func parseTimeText(b []byte, clock *clfClock) (int64, error) {
	if len(b) == clfTimeLen {
		if at, ok := clock.parse(b); ok {
			return checkRange(at)
		}
	}
	if t, err := time.Parse(time.RFC3339, view(b)); err == nil {
		return checkRange(t.Unix())
	}
	return parseEpoch(b)
}

// parseEpoch reads a number of seconds since 1970, or of milliseconds, microseconds or nanoseconds. Its size says which: seconds
// stay below 1e11 until the year 5138. A fraction is rounded down.
func parseEpoch(b []byte) (int64, error) {
	whole, ok := parseDecimal(b)
	if !ok {
		if len(bytes.Trim(b, "+-.0123456789eE")) != 0 { // no Inf, NaN or 0x1p4
			return 0, errBadTime
		}
		f, err := strconv.ParseFloat(view(b), 64)
		if err != nil {
			return 0, errBadTime
		}
		if f < 0 || f >= 1<<63 {
			return 0, errTimeRange
		}
		whole = uint64(f)
	}
	for unit := 0; whole >= 1e11; unit++ {
		if unit == 3 {
			return 0, errTimeRange
		}
		whole /= 1000
	}
	return checkRange(int64(whole))
}

// parseDecimal reads 123 and 123.456, without the fraction. A float would round 1700000000.99999999 up to the next second.
func parseDecimal(b []byte) (whole uint64, ok bool) {
	if i := bytes.IndexByte(b, '.'); i >= 0 {
		for _, c := range b[i+1:] {
			if !isDigit(c) {
				return 0, false
			}
		}
		b = b[:i]
	}
	return parseUint(b)
}

func checkRange(at int64) (int64, error) {
	if !inRange(at) {
		return 0, errTimeRange
	}
	return at, nil
}

func parseWeight(b []byte) (uint64, error) {
	n, ok := parseUint(b)
	if !ok || n > MaxWeight {
		return 0, errBadWeight
	}
	return n, nil
}

// parseUint reads up to 19 decimal digits, which cannot overflow.
func parseUint(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	return n, true
}

// view returns b as a string without a copy, for calls that do not keep it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
