package body

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/nearest"
	"github.com/weir-counter/weir/service"
)

// object reads an object whose members are among names. read reads the value of the
// member at that place. seen has a bit for each member that was there.
func (p *AllowParser) object(names []string, read func(member int) *service.Error) (seen uint, failure *service.Error) {
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
			return seen, p.wrong(api.CodeUnknownField, service.Clip(strings.ToValidUTF8(string(name), "?")), "it is not known"+nearest.DidYouMean(string(name), names)+"; there are "+listed(names))
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
func (p *AllowParser) wrong(code api.Code, member, what string) *service.Error {
	field := strings.TrimSuffix(p.within+member, ".")
	if field == "" {
		return fail(code, "", what)
	}
	return fail(code, field, field+": "+what)
}

func (p *AllowParser) notJSON() *service.Error {
	return fail(api.CodeInvalidJSON, "", "the body is not valid JSON at byte "+strconv.Itoa(p.scanner.i+1)+`: send for example {"key":"user:42"}`)
}
