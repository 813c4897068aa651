package httpapi

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
)

// AllowParser reads requests for decisions, written as JSON. Create it with NewAllowParser. It knows this one shape, so
// that a request costs no reflection. It allocates the key, which the engine may keep, and the name of a limit; its
// other memory is used again.
type AllowParser struct {
	scanner  jsonScanner
	scratch  []byte          // letters of strings that were written with escapes
	Requests []admit.Request // of the body that was read last
	Peek     bool            // it asks only
	costs    []admit.Cost    // Requests refer to parts of costs
	inline   []engine.Limit  // Requests point here: it is never grown
	within   string          // of the element that is read, "checks[1].", for messages
}

// NewAllowParser returns one without a body.
func NewAllowParser() AllowParser {
	return AllowParser{inline: make([]engine.Limit, 0, engine.MaxChecks+1)}
}

// The members of each object, in the order of what reads them.
var (
	allowMembers  = []string{"key", "limit", "n", "costs", "checks", "peek"}
	checkMembers  = allowMembers[:checksMember]
	inlineMembers = []string{"name", "n", "per", "burst", "algorithm"}
)

const (
	keyMember = iota
	limitMember
	nMember
	costsMember
	checksMember
	peekMember
)

// Parse reads a body into Requests and Peek, or fails with an *api.Error. What it made of the body before is gone.
func (p *AllowParser) Parse(body []byte) error {
	if failure := p.parse(body); failure != nil {
		return failure
	}
	return nil
}

func (p *AllowParser) parse(body []byte) *api.Error {
	p.scanner = jsonScanner{data: body}
	p.Requests, p.inline, p.costs, p.Peek, p.within = p.Requests[:0], p.inline[:0], p.costs[:0], false, ""
	if p.scanner.space(); p.scanner.i == len(body) {
		return fail(api.CodeEmptyBody, "", `the body is empty: send for example {"key":"user:42"}`)
	}
	one := admit.Request{N: 1}
	seen, failure := p.object(allowMembers, func(member int) *api.Error {
		switch member {
		case checksMember:
			return p.checks()
		case peekMember:
			return p.readPeek()
		}
		return p.checkMember(&one, member)
	})
	if failure != nil {
		return failure
	}
	if p.scanner.space(); p.scanner.i < len(body) {
		return p.notJSON()
	}
	const own = 1<<keyMember | 1<<limitMember | 1<<nMember | 1<<costsMember
	switch {
	case seen&(1<<checksMember) == 0:
		p.Requests = append(p.Requests, one)
		return p.needsKey(seen)
	case seen&own != 0:
		return fail(api.CodeInvalidParameter, "checks", "key, limit, n or costs are next to checks: put them into an element of checks")
	}
	return nil
}

// checks reads the array of checks.
func (p *AllowParser) checks() *api.Error {
	s := &p.scanner
	if !s.token('[') {
		return p.wrong(api.CodeInvalidParameter, "checks", `checks must be an array of objects {"key","limit","n"}`)
	}
	for !s.token(']') {
		if len(p.Requests) > 0 && !s.token(',') {
			return p.notJSON()
		}
		if len(p.Requests) == engine.MaxChecks {
			return fail(api.CodeInvalidCount, "checks", fmt.Sprintf("there are more than %d checks: ask for fewer at once", engine.MaxChecks))
		}
		p.within = "checks[" + strconv.Itoa(len(p.Requests)) + "]."
		one := admit.Request{N: 1}
		seen, failure := p.object(checkMembers, func(member int) *api.Error { return p.checkMember(&one, member) })
		if failure == nil {
			failure = p.needsKey(seen)
		}
		if failure != nil {
			return failure
		}
		p.Requests = append(p.Requests, one)
	}
	p.within = ""
	if len(p.Requests) == 0 {
		return fail(api.CodeInvalidCount, "checks", "there are no checks: write at least one")
	}
	return nil
}

func (p *AllowParser) needsKey(seen uint) *api.Error {
	if seen&(1<<keyMember) == 0 {
		return p.wrong(api.CodeMissingKey, "key", "it is missing: name the key that is limited")
	}
	return nil
}

// checkMember reads the value of key, limit, n or costs.
func (p *AllowParser) checkMember(r *admit.Request, member int) *api.Error {
	switch member {
	case keyMember:
		return p.readKey(r)
	case limitMember:
		return p.readLimit(r)
	case costsMember:
		return p.readCosts(r)
	}
	if p.scanner.null() {
		return nil
	}
	return p.readCount(&r.N, "n", 0)
}

func (p *AllowParser) readKey(r *admit.Request) *api.Error {
	if p.scanner.peek() != '"' {
		return p.wrong(api.CodeInvalidKey, "key", "it must be a string")
	}
	key, ok := p.scanner.str(&p.scratch)
	if !ok {
		return p.notJSON()
	}
	if bad := request.CheckKey(view(key)); bad != nil {
		return p.wrong(bad.Code, "key", bad.Message)
	}
	r.Key = string(key)
	return nil
}

// readCosts reads numbers by their names.
func (p *AllowParser) readCosts(r *admit.Request) *api.Error {
	s := &p.scanner
	if !s.token('{') {
		return p.wrong(api.CodeInvalidCount, "costs", `it must be an object such as {"tokens":812}`)
	}
	first := len(p.costs)
	for !s.token('}') {
		if len(p.costs) > first && !s.token(',') {
			return p.notJSON()
		}
		if len(p.costs)-first == admit.MaxCosts {
			return p.wrong(api.CodeInvalidCount, "costs", fmt.Sprintf("there are more than %d", admit.MaxCosts))
		}
		name, ok := s.str(&p.scratch)
		if !ok || !utf8.Valid(name) {
			return p.notJSON()
		}
		one := admit.Cost{Field: string(name)}
		if !s.token(':') {
			return p.notJSON()
		}
		if slices.ContainsFunc(p.costs[first:], func(c admit.Cost) bool { return c.Field == one.Field }) {
			return p.wrong(api.CodeInvalidJSON, "costs", request.Clip(one.Field)+" is given twice: give it once")
		}
		if failure := p.readCount(&one.N, "costs", 0); failure != nil {
			return failure
		}
		p.costs = append(p.costs, one)
	}
	r.Costs = p.costs[first:len(p.costs):len(p.costs)]
	return nil
}

// readLimit reads the name of a policy, or a limit that the request brings along.
func (p *AllowParser) readLimit(r *admit.Request) *api.Error {
	switch s := &p.scanner; {
	case s.null():
		return nil
	case s.peek() == '"':
		return p.readName(r, "limit")
	case s.peek() == '{':
		return p.readInline(r)
	}
	return p.wrong(api.CodeInvalidLimit, "limit", `it must be the name of a policy, or a limit like {"n":100,"per":"1m"}`)
}

// readName reads the name of a policy or of an inline limit; package policy says which letters it may have.
func (p *AllowParser) readName(r *admit.Request, member string) *api.Error {
	if p.scanner.peek() != '"' {
		return p.wrong(api.CodeInvalidLimit, member, "it must be a string")
	}
	name, ok := p.scanner.str(&p.scratch)
	switch {
	case !ok:
		return p.notJSON()
	case len(name) == 0 || !utf8.Valid(name):
		return p.wrong(api.CodeInvalidLimit, member, "it is empty or not UTF-8: write a name, or leave it out")
	}
	r.Limit = string(name)
	return nil
}

func (p *AllowParser) readPeek() *api.Error {
	s := &p.scanner
	switch {
	case s.word("true"):
		p.Peek = true
	case !s.word("false") && !s.null():
		return p.wrong(api.CodeInvalidParameter, "peek", "it must be true or false")
	}
	return nil
}

// readCount reads a whole number from least to limit.MaxBurst, in digits.
func (p *AllowParser) readCount(to *uint64, member string, least uint64) *api.Error {
	number, ok := p.scanner.number()
	var n uint64
	for _, c := range number {
		digit := uint64(c - '0') // anything below '0' wraps to a large number
		if n = n*10 + digit; digit > 9 || n > limit.MaxBurst {
			ok = false
			break
		}
	}
	if !ok || n < least {
		return p.wrong(api.CodeInvalidCount, member, fmt.Sprintf("it must be a whole number from %d to %d, in digits without quotes", least, uint64(limit.MaxBurst)))
	}
	*to = n
	return nil
}

// object reads an object whose members are among names. read reads the value of the member at that place. seen has a
// bit for each member.
func (p *AllowParser) object(names []string, read func(member int) *api.Error) (seen uint, failure *api.Error) {
	s := &p.scanner
	if !s.token('{') {
		return 0, p.wrong(api.CodeInvalidJSON, "", fmt.Sprintf("write an object with %s", listed(names)))
	}
	for !s.token('}') {
		if seen != 0 && !s.token(',') {
			return seen, p.notJSON()
		}
		name, ok := s.str(&p.scratch)
		if !ok || !s.token(':') {
			return seen, p.notJSON()
		}
		if s.space(); s.i == len(s.data) {
			return seen, p.notJSON()
		}
		member := indexOf(names, name)
		switch {
		case member < 0:
			return seen, p.wrong(api.CodeUnknownField, request.Clip(strings.ToValidUTF8(string(name), "?")), "it is not known"+units.DidYouMean(string(name), names)+"; there are "+listed(names))
		case seen&(1<<member) != 0:
			return seen, p.wrong(api.CodeInvalidJSON, names[member], "it is given twice: give it once")
		}
		seen |= 1 << member
		if failure := read(member); failure != nil {
			return seen, failure
		}
	}
	return seen, nil
}

// listed is "key, limit and n".
func listed(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func indexOf(names []string, name []byte) int {
	for i, known := range names {
		if known == string(name) {
			return i
		}
	}
	return -1
}

// wrong is the failure of a member of the object that is read.
func (p *AllowParser) wrong(code api.Code, member, what string) *api.Error {
	field := strings.TrimSuffix(p.within+member, ".")
	if field == "" {
		return fail(code, "", what)
	}
	return fail(code, field, field+": "+what)
}

func (p *AllowParser) notJSON() *api.Error {
	return fail(api.CodeInvalidJSON, "", "the body is not valid JSON at byte "+strconv.Itoa(p.scanner.i+1)+`: send for example {"key":"user:42"}`)
}

// readInline reads a limit that the request brings along.
func (p *AllowParser) readInline(r *admit.Request) *api.Error {
	p.inline = append(p.inline, engine.Limit{})
	l := &p.inline[len(p.inline)-1]
	outer := p.within
	p.within += "limit."
	seen, failure := p.object(inlineMembers, func(member int) *api.Error {
		switch inlineMembers[member] {
		case "name":
			return p.readName(r, "name")
		case "n":
			return p.readCount(&l.N, "n", 1)
		case "burst":
			return p.readCount(&l.Burst, "burst", 1)
		case "per":
			return p.readPer(l)
		}
		return p.readAlgorithm(l)
	})
	const needed = 1<<1 | 1<<2 // n and per
	if failure == nil && seen&needed != needed {
		failure = p.wrong(api.CodeInvalidLimit, "", `a limit needs n and per, for example {"n":100,"per":"1m"}`)
	}
	p.within = outer
	r.Inline = l
	return failure
}

// readPer reads a duration, as text or in seconds.
func (p *AllowParser) readPer(l *engine.Limit) (failure *api.Error) {
	text, ok := p.scanner.number()
	if !ok {
		text, ok = p.scanner.str(&p.scratch)
	}
	if !ok {
		return p.wrong(api.CodeInvalidLimit, "per", `it must be a duration like "1m", or a number of seconds`)
	}
	per, err := units.ParseDuration(view(text)) // keeps no part of it
	if err != nil {
		return p.wrong(api.CodeInvalidLimit, "per", err.Error())
	}
	l.Per = per
	return nil
}

func (p *AllowParser) readAlgorithm(l *engine.Limit) *api.Error {
	word, ok := p.scanner.str(&p.scratch)
	if !ok {
		return p.wrong(api.CodeInvalidLimit, "algorithm", "it must be window, fixed or gcra")
	}
	if l.Algorithm, ok = limit.ParseAlgorithm(view(word)); ok {
		return nil
	}
	return p.wrong(api.CodeInvalidLimit, "algorithm", quoteField(word)+": it must be window, fixed or gcra")
}

// Check refuses a whole body of more lines than the service takes at once, before any of them counts.
func (h *BodyHits) Check(f BodyFormat, whole []byte) error {
	if len(whole) <= h.maxBatch { // a line has a byte at least, with its end
		return nil
	}
	lines := 0
	if sniff(f, whole) == JSONDocument {
		lines = h.elementsOf(whole)
	} else if lines = bytes.Count(whole, []byte{'\n'}); whole[len(whole)-1] != '\n' {
		lines++
	}
	return h.service.CheckBatch(lines)
}

// elementsOf counts the elements of a document, up to one more than there may be.
func (h *BodyHits) elementsOf(whole []byte) (n int) {
	all := elements{feed: &feed{buf: whole}, maxBytes: h.maxLine}
	for n <= h.maxBatch {
		if _, _, err := all.next(); err != nil {
			break // the error is reported when the body is read again
		}
		n++
	}
	return n
}
