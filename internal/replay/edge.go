package replay

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
)

// This file reads logs of Amazon S3, and logs with named columns, as Amazon CloudFront and IIS write them. It gives their values the
// names that an Apache log has, in addition to their own.
//
// Sources: "Amazon S3 server access log format" (docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html), "Standard logging
// reference" (docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html), and "Extended Log File
// Format" (www.w3.org/TR/WD-logfile.html).

var (
	errNotS3   = errors.New("no [time] after a bucket owner and a bucket")
	errNotW3C  = errors.New("no date and time in the columns that a #Fields line names, or in those of CloudFront")
	errComment = errors.New("a comment") // such a line is none
)

// Places of the fields of S3, after the fields of an Apache log.
const (
	s3Bucket = clfFieldCount + iota
	s3Operation
	s3Key
	s3Error
)

var s3FieldNames = append(slices.Clone(clfFieldNames[:]), "bucket", "operation", "key", "error")

// s3Parser reads the server access logs of S3, and of what imitates it:
//
//	owner bucket [time] host requester id operation key "request" status error bytes size ms ms "referer" "agent"
//	version host-id signature cipher authentication vhost ...
//
// A request that has no URI, such as one of many deletions at once, has - in place of it.
type s3Parser struct{ clfParser }

func (p *s3Parser) parse(b []byte, l *line) error {
	f := l.fields
	clear(f)
	owner, rest := word(b)
	if f[s3Bucket], rest = word(rest); owner == nil || len(rest) < clfTimeLen+2 || rest[0] != '[' {
		return errNotS3
	}
	at, ok := p.clock.parse(rest[1:])
	if !ok {
		return errNotS3
	}
	var err error
	if l.at, err = checkRange(at); err != nil {
		return err
	}
	l.n, f[clfTime] = 1, rest[1:1+clfTimeLen]
	rest = rest[clfTimeLen+2:]
	for _, place := range []int{clfHost, clfUser, clfIdent, s3Operation, s3Key} {
		f[place], rest = word(rest)
	}
	f[clfIdent] = nil // the ID of the request
	if request, is := bytes.CutPrefix(rest, []byte(`"`)); is {
		end, err := requestEnd(request)
		if err != nil {
			return err
		}
		splitRequest(request[:end], f)
		rest = request[end+2:]
	} else if _, rest = word(rest); !isStatus(slices.Concat([]byte(" "), rest)) {
		return errNoRequest
	}
	var other []byte
	for _, place := range []*[]byte{&f[clfStatus], &f[s3Error], &f[clfBytes], &other, &other, &other} {
		*place, rest = word(rest)
	}
	f[clfReferer], rest = quoted(rest)
	f[clfAgent], rest = quoted(rest)
	for range 6 {
		f[clfVhost], rest = word(rest)
	}
	return nil
}

// cloudFront are the columns of CloudFront, for a part of a log without its #Fields line.
const cloudFront = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) " +
	"x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type " +
	"cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end"

// columnsOf are the names of the columns of a log that begins with some text.
func columnsOf(text []byte) []string {
	for b := range firstLines(text) {
		if names, is := bytes.CutPrefix(b, []byte("#Fields:")); is {
			return strings.Fields(string(names))
		}
	}
	return strings.Fields(cloudFront)
}

// columnOf are the columns that have what a field of an Apache log has.
var columnOf = map[string][]string{
	"host": {"c-ip"}, "user": {"cs-username"}, "method": {"cs-method"}, "path": {"cs-uri-stem"}, "status": {"sc-status"}, "bytes": {"sc-bytes"},
	"referer": {"cs(Referer)"}, "agent": {"cs(User-Agent)"}, "vhost": {"x-host-header", "cs(Host)", "cs-host"},
}

// w3cParser reads lines whose columns a #Fields line names, with tabs between them as CloudFront has them, or spaces.
type w3cParser struct {
	date, time, query int // columns; -1: there is none
	path, agent       int // places in line.fields; -1: no template asks for it
	columns           []int
	cells             [][]byte
	scratch           []byte // the path with its query

	day  string // the date of the line before
	base int64  // and the Unix second when it began
}

func newW3CParser(p *plan) parser {
	w := &w3cParser{path: slices.Index(p.fields, "path"), agent: slices.Index(p.fields, "agent")}
	place := func(name string) int { return slices.Index(p.columns, name) }
	w.date, w.time, w.query = place("date"), place("time"), place("cs-uri-query")
	for _, name := range p.fields {
		column := place(name)
		for _, other := range columnOf[name] {
			if column < 0 {
				column = place(other)
			}
		}
		w.columns = append(w.columns, column)
	}
	return w
}

func (p *w3cParser) parse(b []byte, l *line) error {
	if len(b) > 0 && b[0] == '#' {
		return errComment
	}
	between := byte(' ')
	if bytes.IndexByte(b, '\t') >= 0 {
		between = '\t'
	}
	p.cells = p.cells[:0]
	for rest, more := b, true; more; {
		end := bytes.IndexByte(rest, between)
		if more = end >= 0; !more {
			end = len(rest)
		}
		p.cells = append(p.cells, known(rest[:end]))
		rest = rest[min(end+1, len(rest)):]
	}
	if min(p.date, p.time) < 0 || len(p.cells) <= max(p.date, p.time) {
		return errNotW3C
	}
	var err error
	if l.at, err = p.at(p.cells[p.date], p.cells[p.time]); err != nil {
		return err
	}
	l.n = 1
	for i, column := range p.columns {
		if l.fields[i] = nil; column >= 0 && column < len(p.cells) {
			l.fields[i] = p.cells[column]
		}
	}
	if p.path >= 0 && l.fields[p.path] != nil && p.query >= 0 && p.query < len(p.cells) && p.cells[p.query] != nil {
		p.scratch = append(append(append(p.scratch[:0], l.fields[p.path]...), '?'), p.cells[p.query]...)
		l.fields[p.path] = p.scratch
	}
	if p.agent >= 0 {
		l.fields[p.agent] = plainAgent(l.fields[p.agent], between)
	}
	return nil
}

// at is the time of a date and a time of the day, in UTC.
func (p *w3cParser) at(date, clock []byte) (int64, error) {
	if string(date) != p.day {
		day, err := time.Parse(time.DateOnly, string(date))
		if err != nil {
			return 0, errNotW3C
		}
		p.day, p.base = string(date), day.Unix()
	}
	if len(clock) < 8 || clock[2] != ':' || clock[5] != ':' {
		return 0, errNotW3C
	}
	h, isHour := twoDigits(clock[0], clock[1])
	m, isMinute := twoDigits(clock[3], clock[4])
	s, isSecond := twoDigits(clock[6], clock[7])
	if !isHour || !isMinute || !isSecond || h > 23 || m > 59 || s > 60 {
		return 0, errNotW3C
	}
	return checkRange(p.base + int64(h*3600+m*60+s))
}

// plainAgent is a user agent as a browser sends it: CloudFront percent-encodes it, sometimes twice, and IIS has + for a space.
func plainAgent(agent []byte, between byte) []byte {
	if between == ' ' {
		agent = bytes.ReplaceAll(agent, []byte("+"), []byte(" "))
	}
	for range 2 {
		if plain, err := url.PathUnescape(view(agent)); err == nil && bytes.IndexByte(agent, '%') >= 0 {
			agent = []byte(plain)
		}
	}
	return agent
}
