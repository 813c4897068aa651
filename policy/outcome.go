package policy

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"go.yaml.in/yaml/v4"
)

// A Condition says which answers a policy counts: those for whose status all comparisons hold.
type Condition []comparison

type comparison struct {
	operator string
	status   uint64
}

// operators say whether a comparison holds for a status that is below, at or above its number.
var operators = map[string][3]bool{
	"<": {true, false, false}, "<=": {true, true, false}, "==": {false, true, false}, "!=": {true, false, true}, ">=": {false, true, true}, ">": {false, false, true},
}

// Holds reports whether an answer of a status counts.
func (c Condition) Holds(status uint64) bool {
	return !slices.ContainsFunc(c, func(one comparison) bool { return !operators[one.operator][1+cmp.Compare(status, one.status)] })
}

// String is the condition as a file has it; "" for no condition.
func (c Condition) String() string {
	var all []string
	for _, one := range c {
		all = append(all, api.Outcome+" "+one.operator+" "+strconv.FormatUint(one.status, 10))
	}
	return strings.Join(all, " and ")
}

const (
	outcomeExample = "count_if: status >= 400"
	mostCompared   = 4
)

var compared = regexp.MustCompile(`^\s*status\s*(==|!=|>=|<=|>|<)\s*([1-5][0-9][0-9])\s*$`)

// outcome reads which answers count.
func (p *parser) outcome(n *yaml.Node) (c Condition) {
	text, ok := p.Text(n, "count_if", outcomeExample)
	if !ok {
		return nil
	}
	for part := range strings.SplitSeq(text, " and ") {
		found := compared.FindStringSubmatch(part)
		if found == nil || len(c) == mostCompared {
			p.Fault(n.Line, "count_if", "%q: write up to %d comparisons of status (==, !=, <, <=, >, >=) with 100 to 599, joined by `and`, for example `%s`", units.Excerpt(text), mostCompared, outcomeExample)
			return nil
		}
		status, _ := strconv.ParseUint(found[2], 10, 64) // three digits
		c = append(c, comparison{found[1], status})
	}
	return c
}
