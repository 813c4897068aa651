package record

import (
	"fmt"
	"strings"
)

// Finding is damage: where it is, and what it cost.
type Finding struct {
	Where string
	What  string
	Cost  string
	// Harmless findings lost no hit: another copy served.
	Harmless bool
}

// String is one line: where, what and the cost.
func (f Finding) String() string { return f.Where + ": " + f.What + ": " + f.Cost }

// DamageError is the answer of Open to a data directory that lost hits.
type DamageError struct {
	Findings  []Finding
	Clustered bool // it is a clustered node
}

// Error lists the findings that lost hits, a line each, and says what to do.
func (e *DamageError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the data directory is damaged, and hits are lost:\n")
	for _, f := range e.Findings {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	if e.Clustered {
		b.WriteString("look at all nodes before anything is changed: with the others up and none of them late, start this one with an empty directory under the same name; if they say the same, read \"A damaged disk\" in docs/cluster-operations.md")
		return b.String()
	}
	b.WriteString("restore a backup (weir restore), or start with --accept-damage to go on without them")
	return b.String()
}

// Losses are the findings that are not harmless.
func Losses(findings []Finding) (lost []Finding) {
	for _, f := range findings {
		if !f.Harmless {
			lost = append(lost, f)
		}
	}
	return lost
}
