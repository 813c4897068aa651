package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/limit"
	"go.yaml.in/yaml/v4"
)

// A Part is what one region has of a limit over regions.
type Part = api.RegionPart

// whereGlobal is the word of the file for a limit over regions. It is no limit.Where: each region keeps its part by a
// limit.Where.
const whereGlobal = "global"

// wordShared is a word of earlier builds. As where, it is read as leased. As within, it is refused.
const wordShared = "shared"

// withins are the words of the file for how a region keeps its part.
var withins = []string{limit.WhereLeased.String(), limit.WhereStrict.String()}

// PartsOf divides a burst by the percents of parts: each has its percentage, rounded down. What all percents together have
// beyond that goes one by one to those that were rounded down most, the first by name where that is equal. So the parts never come
// to more than the burst, and all regions find the same.
func PartsOf(burst uint64, parts []Part) []Part {
	parts = slices.Clone(parts)
	var percents, given uint64
	for i := range parts {
		percent := uint64(parts[i].Percent)
		parts[i].Burst = burst * percent / 100 // of limit.MaxBurst no overflow
		percents, given = percents+percent, given+parts[i].Burst
	}
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	lost := func(i int) uint64 { return burst * uint64(parts[i].Percent) % 100 }
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(lost(b), lost(a)), cmp.Compare(parts[a].Region, parts[b].Region))
	})
	for _, i := range order[:burst*percents/100-given] {
		parts[i].Burst++
	}
	return parts
}

// where reads which nodes count together, and for a limit over regions the parts. It returns the field that says how
// the nodes of a region or cluster decide.
func (p *parser) where(made *parsedPolicy, fields map[string]*yaml.Node) (field string) {
	made.Where = limit.WhereLeased
	n := fields["where"]
	if n == nil || n.Value != whereGlobal {
		for _, field := range []string{"regions", "within"} {
			if fields[field] != nil {
				p.Fault(fields[field].Line, field, "it is for limits over regions: remove it, or write `where: global`")
			}
		}
		switch {
		case n == nil:
		case n.Value == wordShared:
			made.WasShared = true
		default:
			made.Where = limit.Where(p.choice(n, "where", append(wheres[:len(wheres):len(wheres)], whereGlobal)))
		}
		return "where"
	}
	if within := fields["within"]; within != nil && within.Value == wordShared {
		p.Fault(within.Line, "within", "regions no longer share a limit without parts: remove it, and give each region its part, for example `%s`", partsExample)
	} else if within != nil && p.choice(within, "within", withins) > 0 {
		made.Where = limit.WhereStrict
	}
	made.Parts = p.parts(fields["regions"], n.Line)
	return "within"
}

const partsExample = "regions: {eu: 60%, us: 40%}"

// parts reads the percents of regions.
func (p *parser) parts(n *yaml.Node, line int) (parts []Part) {
	switch {
	case n == nil:
		p.Fault(line, "regions", "it is missing: regions decide by themselves, so a limit over all of them needs a part for each, for example `%s`", partsExample)
		return nil
	case n.Kind != yaml.MappingNode || len(n.Content) == 0:
		p.Fault(n.Line, "regions", "%s: write the part of each region, for example `%s`", settings.KindText(n), partsExample)
		return nil
	}
	var percents int
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		part := Part{Region: name.Value}
		switch {
		case name.Kind != yaml.ScalarNode || !isName(part.Region) || strings.Contains(part.Region, "/"):
			p.Fault(name.Line, "regions", "%s: a region's name is 1 to %d letters, digits, '-', '_' and '.'", settings.KindText(name), engine.MaxLimitNameBytes)
			continue
		case slices.ContainsFunc(parts, func(other Part) bool { return other.Region == part.Region }):
			p.Fault(name.Line, "regions", "%s stands twice: remove one", part.Region)
			continue
		}
		part.Percent = int(p.percent(value, "regions."+part.Region, "its part of the limit", partsExample))
		percents += part.Percent
		parts = append(parts, part)
	}
	if percents > 100 {
		p.Fault(n.Line, "regions", "together they have %d%% of the limit: at most 100%%", percents)
	}
	return parts
}

// checkParts reports whether each part of a limit is a limit.
func (p *parser) checkParts(made *parsedPolicy, fields map[string]*yaml.Node) {
	for i, part := range PartsOf(made.Limit.Burst, made.Parts) {
		made.Parts[i] = part
		if part.Burst == 0 {
			continue
		}
		if _, err := limit.New(PartOf(made.Limit, part.Burst)); err != nil {
			p.Fault(fields["regions"].Line, "regions."+part.Region, "its part, %d: %s", part.Burst, strings.TrimPrefix(err.Error(), "limit: "))
		}
	}
}

// PartOf returns a part of a limit whose burst is filled in: burst of its burst, within the same interval. By rate and
// burst apart, both rounded down, the interval could come out shorter, and the parts together more than the whole.
func PartOf(whole limit.Limit, burst uint64) limit.Limit {
	if whole.Calendar.Unit != limit.NoUnit {
		return limit.Limit{N: burst, Calendar: whole.Calendar}
	}
	return limit.Limit{N: burst, Burst: burst, Per: max(time.Millisecond, whole.Interval()), Algorithm: whole.Algorithm}
}
