package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
)

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

// NamedError is the error of a request that names a policy that there is not, or whose keys the
// request's is none of. Its text tells names or keys of policies, which are not for everybody; it
// wraps a *engine.Error.
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
type Fault struct {
	File    string `json:"-"`
	Line    int    `json:"line"`    // from 1; 0: the file as a whole
	Field   string `json:"field"`   // "limit", "overrides.key"; "" for what is not a field's fault
	Message string `json:"message"` // what is wrong, and what to write
}

// String is FILE:LINE: FIELD: what is wrong; what to write.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Field != "" {
		b.WriteString(f.Field + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults is all that is wrong with a policy file, in the order of its lines, a line
// for each; beyond MaxFaults one last Fault says how many more there are.
type Faults []Fault

// MaxFaults is how many faults of one file are listed.
const MaxFaults = 100

func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}
