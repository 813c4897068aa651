package statsd

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/request"
)

// line is a line of StatsD, split. Its parts are views of the line that was read.
type line struct {
	name   []byte
	values []byte  // value[:value...]
	rate   float64 // above 0, at most 1
	tags   []byte  // tag[:value][,tag...]
	at     int64   // Unix seconds; 0: now
	set    bool    // values is an id, of which the different ones are counted
}

// split reads a line of a counter or a set. Sections that it does not know it leaves out, as senders add new ones.
func (l *line) split(text []byte) *reason {
	*l = line{rate: 1}
	switch {
	case bytes.HasPrefix(text, []byte("_e{")):
		return refusedEvent
	case bytes.HasPrefix(text, []byte("_sc|")):
		return refusedCheck
	}
	name, rest, ok := bytes.Cut(text, []byte{':'})
	if !ok || len(name) == 0 {
		return malformed
	}
	values, rest, ok := bytes.Cut(rest, []byte{'|'})
	if !ok || len(values) == 0 {
		return malformed
	}
	l.name, l.values = name, values
	kind, rest, more := bytes.Cut(rest, []byte{'|'})
	if l.set = string(kind) == "s"; !l.set && string(kind) != "c" {
		why, known := kinds[string(kind)]
		if !known {
			why = unknownType
		}
		return why
	}
	for more {
		var section []byte
		section, rest, more = bytes.Cut(rest, []byte{'|'})
		if why := l.section(section); why != counted {
			return why
		}
	}
	if l.set && l.rate != 1 {
		return invalidRate
	}
	return counted
}

// kinds tells why lines of a kind other than c and s are not counted.
var kinds = map[string]*reason{
	"g": refusedGauge, "ms": refusedTimer, "h": refusedHistogram, "d": refusedDistribution, "": malformed,
}

func (l *line) section(text []byte) *reason {
	if len(text) == 0 {
		return counted
	}
	switch value := text[1:]; text[0] {
	case '@':
		rate, ok := number(value)
		if !ok || !(rate > 0 && rate <= 1) {
			return invalidRate
		}
		l.rate = rate
	case '#':
		l.tags = value
	case 'T':
		at, err := strconv.ParseInt(view(value), 10, 64)
		if err != nil || at <= 0 {
			return invalidTime
		}
		l.at = at
	}
	return counted
}

// number reads a decimal number, with a fraction and an exponent if need be.
func number(text []byte) (float64, bool) {
	whole := len(text) > 0 && len(text) <= 15 // which a float64 has exactly
	var n uint64
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			n = n*10 + uint64(c-'0')
		case c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E':
			whole = false
		default: // ParseFloat would take names, hexadecimal digits and underscores
			return 0, false
		}
	}
	if whole {
		return float64(n), true
	}
	f, err := strconv.ParseFloat(view(text), 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// view is b as a string, without a copy: for what keeps no part of it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// reason is why a line was not counted: its name in metrics and logs, and what to do about it.
type reason struct {
	place        int // in reasons
	name, advice string
}

var reasons []*reason

func newReason(name, advice string) *reason {
	r := &reason{len(reasons), name, advice}
	reasons = append(reasons, r)
	return r
}

// The reasons. counted is none.
var (
	counted *reason

	malformed           = newReason("malformed", "write name:value|c")
	invalidValue        = newReason("invalid_value", "the value of a counter is a decimal number, and of a set 512 bytes at most")
	negative            = newReason("negative", "hits can't be taken back: send what is 0 or more")
	tooLarge            = newReason("too_large", "value / rate is 1099511627776 at most")
	invalidRate         = newReason("invalid_rate", "a sample rate is above 0, and 1 at most; sets have none")
	invalidTime         = newReason("invalid_timestamp", "write |T and Unix seconds, not milliseconds or smaller units")
	refusedGauge        = newReason("unsupported_gauge", "Weir counts: send counters (|c) here, and gauges elsewhere")
	refusedTimer        = newReason("unsupported_timer", "Weir counts: send counters (|c) here, and timers elsewhere")
	refusedHistogram    = newReason("unsupported_histogram", "Weir counts: send counters (|c) here, and histograms elsewhere")
	refusedDistribution = newReason("unsupported_distribution", "Weir counts: send counters (|c) here, and distributions elsewhere")
	refusedEvent        = newReason("unsupported_event", "Weir counts: send events elsewhere")
	refusedCheck        = newReason("unsupported_service_check", "Weir counts: send service checks elsewhere")
	unknownType         = newReason("unknown_type", "the type of a counter is c, of a set s")
	longLine            = newReason("line_too_long", "send shorter lines")
	manyTags            = newReason("too_many_tags", "send 64 tags at most where the key has {tags}")
	invalidKey          = newReason("invalid_key", "a key has 1 to 512 bytes of UTF-8, of sampled lines 497: send a shorter name, or write another --statsd-key")
	reservedKey         = newReason("reserved_key", "keys limit:... are counted by limits alone: write another --statsd-key")
	tooLate             = newReason("too_late", "the time is before what --retention keeps")
	tooFarAhead         = newReason("too_far_ahead", "the time is further ahead than --max-ahead: set the sender's clock")
	forbidden           = newReason("forbidden", "the identity of --statsd-identity may not count this key")
	ceilingReached      = newReason("ceiling_reached", "the identity of --statsd-identity has reached a ceiling of the tokens file")
	unauthorized        = newReason("unauthorized", "the identity of --statsd-identity is not in the tokens file any more")
	overloaded          = newReason("overloaded", "the journal is behind, or too much is counted at once")
	other               = newReason("other", "the server's log says more")
)

// refusals counts the lines that were not counted, by reason, and logs them now and then.
type refusals struct {
	log *slog.Logger
	by  []refusal // by reason
}

type refusal struct {
	count  atomic.Uint64
	logged atomic.Int64  // when it was last, ns of the Unix epoch
	lines  atomic.Uint64 // of count, that were logged
}

// logEvery is how often a reason is logged at most.
const logEvery = time.Minute

// add notes lines of a reason, one of them text.
func (r *refusals) add(why *reason, lines uint64, text []byte) {
	noted := &r.by[why.place]
	total := noted.count.Add(lines)
	now, last := time.Now().UnixNano(), noted.logged.Load()
	if last != 0 && now-last < int64(logEvery) || !noted.logged.CompareAndSwap(last, now) {
		return
	}
	r.log.Warn("StatsD lines were not counted", "reason", why.name, "lines", total-noted.lines.Swap(total), "one", request.Clip(string(text)), "advice", why.advice)
}

// total is how many lines were not counted.
func (r *refusals) total() (n uint64) {
	for i := range r.by {
		n += r.by[i].count.Load()
	}
	return n
}

// codeReasons are the reasons of error codes of the service.
var codeReasons = map[api.Code]*reason{
	api.CodeInvalidKey: invalidKey, api.CodeInvalidTime: invalidTime, api.CodeReservedKey: reservedKey, api.CodeTooFarAhead: tooFarAhead, api.CodeTooLate: tooLate,
	api.CodeForbidden: forbidden, api.CodeCeiling: ceilingReached, api.CodeUnauthorized: unauthorized, api.CodeOverloaded: overloaded,
}

func reasonOf(code api.Code) *reason {
	if why, known := codeReasons[code]; known {
		return why
	}
	return other
}

// counting counts lines. It belongs to one goroutine.
type counting struct {
	server *Server
	random *rand.Rand
	tally  ingest.Tally
	line   line
	key    []byte // of the line that is counted
}

func newCounting(server *Server) *counting {
	stream := server.streams.Add(1)                                                                                                      // receivers with one seed round in different ways
	return &counting{server: server, random: rand.New(rand.NewPCG(server.cfg.Seed, stream)), key: make([]byte, 0, engine.MaxKeyBytes+1)} //nolint:gosec // it rounds, and hides nothing
}

// count counts the lines of text, which came together.
func (c *counting) count(text []byte) {
	s := c.server
	if err := s.service.Pools.Hits.Enter(s.caller, 1); err != nil {
		c.refuseAll(err, text)
		return
	}
	defer s.service.Pools.Hits.Leave(s.caller, 1)
	if err := s.service.Ingest(s.caller, &c.tally); err != nil {
		c.refuseAll(err, text)
		return
	}
	now := s.service.Now()
	for len(text) > 0 {
		var one []byte
		one, text, _ = bytes.Cut(text, []byte{'\n'})
		if one = bytes.TrimRight(one, "\r"); len(one) == 0 {
			continue
		}
		if len(one) > s.cfg.MaxLineBytes {
			s.refused.add(longLine, 1, one)
			continue
		}
		if err := c.countLine(one, now); err != nil {
			s.refused.add(other, 1, one)
			_ = s.service.Verdict(&c.tally, err) // for its figures: there is nobody to tell
			c.refuseAll(err, text)
			return
		}
	}
	_ = s.service.Verdict(&c.tally, nil) // for its figures
}

// countLine counts a line, or notes why not. It fails when no further one can be counted.
func (c *counting) countLine(text []byte, now time.Time) error {
	s, t := c.server, &c.tally
	t.Line++
	n, added, why := c.read(text)
	if why != counted {
		s.refused.add(why, 1, text)
		return nil
	}
	if n == 0 {
		s.counters.Add(1)
		return nil
	}
	at := now
	if c.line.at != 0 {
		at = time.Unix(c.line.at, 0)
	}
	late, rejected := t.TooLate, t.RejectedLines
	if !t.Refuses() {
		var err error
		if c.line.set {
			var expected [1]engine.Expected
			err = s.service.HitDistinct(t, at, s.service.Expect(expected[:0], []string{view(c.key)})[0], n, engine.HashID(view(c.line.values)))
		} else if added > 0 {
			err = s.service.HitSampled(t, at, view(c.key), n, added)
		} else {
			err = s.service.Hit(t, at, view(c.key), n)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case t.TooLate > late:
		s.refused.add(tooLate, 1, text)
	case t.RejectedLines > rejected:
		s.refused.add(reasonOf(t.LastRejected()), 1, text)
	default:
		s.counters.Add(1)
	}
	return nil
}

// read splits a line, and makes its key, how many hits it stands for, and how many of them sampling added.
func (c *counting) read(text []byte) (n, added uint64, why *reason) {
	if why = c.line.split(text); why != counted {
		return 0, 0, why
	}
	if !c.line.set {
		n, added, why = c.hits()
	} else if n = 1; len(c.line.values) > engine.MaxIDBytes {
		why = invalidValue
	}
	if why != counted {
		return 0, 0, why
	}
	if c.key, why = c.server.template.appendKey(c.key[:0], &c.line, engine.MaxKeyBytes); why != counted {
		return 0, 0, why
	}
	if bad := request.CheckHitKey(view(c.key)); bad != nil {
		return 0, 0, reasonOf(bad.Code)
	}
	return n, added, counted
}

// hits is the sum of a line's values over its sample rate, as a whole number whose mean is that. added is what the sender
// did not see. It is at least 1 for a sampled line.
func (c *counting) hits() (n, added uint64, why *reason) {
	sum := 0.0
	for rest := c.line.values; ; {
		text, after, more := bytes.Cut(rest, []byte{':'})
		value, ok := number(text)
		switch {
		case !ok:
			return 0, 0, invalidValue
		case value < 0:
			return 0, 0, negative
		}
		sum += value
		if !more {
			break
		}
		rest = after
	}
	seen := sum
	sum /= c.line.rate
	if sum > engine.MaxHits {
		return 0, 0, tooLarge
	}
	whole := math.Floor(sum)
	n = uint64(whole)
	if rest := sum - whole; rest > 0 && c.random.Float64() < rest {
		n++
	}
	if c.line.rate < 1 {
		added = max(n-uint64(seen), 1)
	}
	return n, added, counted
}

// refuseAll notes that no line of text is counted, and why.
func (c *counting) refuseAll(err error, text []byte) {
	var lines uint64
	var first []byte
	for one := range bytes.SplitSeq(text, []byte{'\n'}) {
		if one = bytes.TrimRight(one, "\r"); len(one) > 0 {
			if lines++; lines == 1 {
				first = one
			}
		}
	}
	if lines > 0 {
		c.server.refused.add(reasonOf(request.As(err).Code), lines, first)
	}
}

// maxTags bounds the tags of a key with {tags}.
const maxTags = 64

// template makes keys of lines.
type template []part

// part is text, or what is taken of a line.
type part struct {
	kind partKind
	text string // literal, or the name of a tag
}

type partKind int

const (
	literal partKind = iota
	name
	oneTag
	allTags
)

// parseTemplate reads a template such as {name}:{tag:route}.
func parseTemplate(text string) (template, error) {
	var t template
	named := false
	for rest := text; rest != ""; {
		begin := strings.IndexByte(rest, '{')
		if begin < 0 {
			begin = len(rest)
		}
		if begin > 0 {
			t = append(t, part{literal, rest[:begin]})
			rest = rest[begin:]
			continue
		}
		variable, after, closed := strings.Cut(rest[1:], "}")
		tag, isTag := strings.CutPrefix(variable, "tag:")
		switch {
		case !closed:
			return nil, fmt.Errorf("%q: a { is not closed by }", text)
		case variable == "name":
			t, named = append(t, part{kind: name}), true
		case variable == "tags":
			t = append(t, part{kind: allTags})
		case isTag && tag != "":
			t = append(t, part{oneTag, tag})
		default:
			return nil, fmt.Errorf("%q: {%s} is unknown: there are {name}, {tag:NAME} and {tags}", text, variable)
		}
		rest = after
	}
	if !named {
		return nil, fmt.Errorf("%q has no {name}: write for example {name}:{tag:route}", text)
	}
	return t, nil
}

// appendKey appends the key of a line to dst, up to a bit more than limit bytes.
func (t template) appendKey(dst []byte, from *line, limit int) ([]byte, *reason) {
	for _, p := range t {
		switch p.kind {
		case literal:
			dst = append(dst, p.text...)
		case name:
			dst = append(dst, from.name...)
		case oneTag:
			dst = append(dst, tagOf(from.tags, p.text)...)
		case allTags:
			var why *reason
			if dst, why = appendTags(dst, from.tags); why != counted {
				return dst, why
			}
		}
		if len(dst) > limit {
			return dst, invalidKey
		}
	}
	return dst, counted
}

var noTag = []byte{'-'}

// tagOf is the value of a tag, or - if there is none.
func tagOf(tags []byte, name string) []byte {
	for len(tags) > 0 {
		var tag []byte
		tag, tags, _ = bytes.Cut(tags, []byte{','})
		if tagName, value, _ := bytes.Cut(tag, []byte{':'}); string(tagName) == name && len(value) > 0 {
			return value
		}
	}
	return noTag
}

// appendTags appends all tags in order, so that a set of tags has one key.
func appendTags(dst, tags []byte) ([]byte, *reason) {
	var list [maxTags][]byte
	n := 0
	for len(tags) > 0 {
		var tag []byte
		if tag, tags, _ = bytes.Cut(tags, []byte{','}); len(tag) == 0 {
			continue
		}
		if n == maxTags {
			return dst, manyTags
		}
		list[n] = tag
		n++
	}
	if n == 0 {
		return append(dst, noTag...), counted
	}
	slices.SortFunc(list[:n], bytes.Compare)
	for i, tag := range list[:n] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, tag...)
	}
	return dst, counted
}
