package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/nearest"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
)

const (
	// minPer is the shortest period of package limit.
	minPer = time.Millisecond

	// mostLimit is the most admissions of the longest period.
	mostLimit = limit.MaxRate * uint64(limit.MaxPer/time.Second)
)

// limitFields reads limit, per and burst over what l has, and tells whether limit and per,
// and whether burst is good by itself. What is not is told here, so that one fault hides
// no other.
func (p *parser) limitFields(l *weir.Limit, fields map[string]*yaml.Node, within string) (rateOK, burstOK bool) {
	rateOK, burstOK = true, true
	if n := fields["limit"]; n != nil {
		l.N, rateOK = p.count(n, within+"limit", "limit: 100", mostLimit)
	}
	if n := fields["per"]; n != nil {
		ok := p.per(l, n, within)
		rateOK = rateOK && ok
	}
	if n := fields["burst"]; n != nil {
		l.Burst, burstOK = p.count(n, within+"burst", "burst: 10", limit.MaxBurst)
	}
	return rateOK, burstOK
}

// period reads a duration that a limit may have; words go behind the error that it is none, and say what else may stand there.
func (p *parser) period(n *yaml.Node, field, words string) (time.Duration, bool) {
	text, ok := p.text(n, field, "per: 1m")
	if !ok {
		return 0, false
	}
	per, err := units.ParseDuration(text)
	switch {
	case err != nil:
		p.fault(n.Line, field, "%v%s", err, words)
	case per < minPer || per > limit.MaxPer:
		p.fault(n.Line, field, "%s: must be %s to %s", units.FormatDuration(per), units.FormatDuration(minPer), units.FormatDuration(limit.MaxPer))
	default:
		return per, true
	}
	return 0, false
}

// checkLimit asks package limit whether l, whose limit and per are good by themselves, is
// possible, fills the burst in, and tells which field is at fault: at its own line, or at
// the policy's if the field is not written there. A burst that is not good by itself was
// told.
func (p *parser) checkLimit(l *weir.Limit, burstOK bool, fields map[string]*yaml.Node, within string, line int) bool {
	at := func(field string) int {
		if n := fields[field]; n != nil {
			return n.Line
		}
		return line
	}
	fault := func(field string, err error) {
		p.fault(at(field), within+field, "%s", strings.TrimPrefix(err.Error(), "limit: "))
	}
	// A burst of one fits every rate that is possible: what is wrong then is n.
	one := *l
	if one.Calendar.Unit == limit.NoUnit {
		one.Burst = 1
	}
	if _, err := limit.New(one); err != nil {
		fault("limit", err)
		return false
	}
	if !burstOK {
		return false
	}
	plan, err := limit.New(*l)
	if err != nil {
		fault("burst", err)
		return false
	}
	*l = plan.Limit()
	return true
}

// count reads a whole number from 1 to most.
func (p *parser) count(n *yaml.Node, field, example string, most uint64) (uint64, bool) {
	text, ok := p.text(n, field, example)
	if !ok {
		return 0, false
	}
	digits := strings.ReplaceAll(text, "_", "")
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || v == 0 || v > most || digits[0] == '0' || text[0] == '_' || strings.HasSuffix(text, "_") {
		p.fault(n.Line, field, "%q is not a whole number from 1 to %d: write for example `%s`", units.Excerpt(text), most, example)
		return 0, false
	}
	return v, true
}

// whole reads a whole number, 0 if it is not there.
func (p *parser) whole(n *yaml.Node, field string) int {
	if n == nil {
		return 0
	}
	text, ok := p.text(n, field, field+": 10")
	if !ok {
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		p.fault(n.Line, field, "%q is not a whole number of -2147483648 to 2147483647: write for example `%s: 10`, lower comes first", units.Excerpt(text), field)
	}
	return int(v)
}

// truth reads true or false, false if it is not there.
func (p *parser) truth(n *yaml.Node, field string) bool {
	if n == nil {
		return false
	}
	text, ok := p.text(n, field, field+": true")
	if ok && text != "true" && text != "false" {
		p.fault(n.Line, field, "%q: write true or false", units.Excerpt(text))
	}
	return text == "true"
}

// choice reads one of some words, the first if it is not there.
func (p *parser) choice(n *yaml.Node, field string, words []string) int {
	if n == nil {
		return 0
	}
	text, ok := p.text(n, field, field+": "+words[0])
	if !ok {
		return 0
	}
	at := slices.Index(words, text)
	if at < 0 {
		p.fault(n.Line, field, "%q%s; there are %s", units.Excerpt(text), nearest.DidYouMean(text, words), strings.Join(words, ", "))
	}
	return max(0, at)
}
