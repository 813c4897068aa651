package policy

import (
	"fmt"
	"strings"
)

// A Fault is one thing that is wrong with a policy file.
type Fault struct {
	File    string
	Line    int    // from 1; 0: the file as a whole
	Field   string // "limit", "overrides.key"; "" for what is not a field's fault
	Message string // what is wrong, and what to write
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
