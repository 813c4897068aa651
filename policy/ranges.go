package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/pattern"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"go.yaml.in/yaml/v4"
)

// MaxRanges is how many address ranges a file may have.
const MaxRanges = 100_000

// ranges are the address ranges of a policy: its Except and its Overrides. The smallest range that holds an address applies.
type ranges struct {
	table     pattern.Ranges
	except    int32   // so many at the beginning of the table
	overrides []int32 // the places among Policy.Overrides of the others

	asked   int             // the place of the address among the captures of a request's key
	counted pattern.Pattern // of the counted keys, if there are overrides
	at      int             // the place of the address in it
}

// find is the place in the table of the range that holds the address in a key; -1: none does.
func (r *ranges) find(key string, took *pattern.Captures, at int) int32 {
	addr, bits, ok := pattern.ParseAddress(took.Text(key, at))
	if !ok {
		return -1
	}
	return r.table.Find(addr, bits)
}

// excepts is the place of the Except that holds the address of a request; -1: none does, or an override that is more specific.
func (r *ranges) excepts(key string, took *pattern.Captures) int32 {
	if r.except == 0 {
		return -1
	}
	if place := r.find(key, took, r.asked); place < r.except {
		return place
	}
	return -1
}

// Excepts reports whether the policy at a place is not for a key because of its Except.
func (s *Set) Excepts(place int, key string) bool {
	r := s.ranges[place]
	if r == nil || r.except == 0 {
		return false
	}
	var took pattern.Captures
	return s.patterns[place].Match(key, &took) && r.excepts(key, &took) >= 0
}

// Ranged is the place of the override of the policy at a place whose range holds the address in a counted key. An override of
// the whole key comes before it. false: there is none.
func (s *Set) Ranged(place int, counted string) (override int, ok bool) {
	r := s.ranges[place]
	if r == nil || len(r.overrides) == 0 {
		return 0, false
	}
	var took pattern.Captures
	if !r.counted.Match(counted, &took) {
		return 0, false
	}
	if at := r.find(counted, &took, r.at); at >= r.except {
		return int(r.overrides[at-r.except]), true
	}
	return 0, false
}

// rangeLine goes before ranges among overrides.lines: no key begins with it.
const rangeLine = "\x00"

const exceptExample = `"10.0.0.0/8"`

// except reads the list of a policy.
func (o *overrides) except(list *yaml.Node) (all []netip.Prefix) {
	for _, n := range o.List(list, "except", exceptExample) {
		if r := o.addresses(n, "except"); r.IsValid() {
			all = append(all, r)
		}
	}
	return all
}

// addresses reads one range, which stands nowhere else in the policy. The result is not valid if it is not good.
func (o *overrides) addresses(n *yaml.Node, field string) (none netip.Prefix) {
	text, ok := o.Text(n, field, exceptExample)
	if !ok {
		return none
	}
	r, err := netip.ParsePrefix(text)
	if addr, single := netip.ParseAddr(text); single == nil && addr.Zone() == "" {
		r, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	o.ranged++
	first, again := o.lines[rangeLine+r.String()]
	switch {
	case err != nil:
		o.Fault(n.Line, field, "%q is no range of addresses: write for example `%s` or `\"2001:db8::/32\"`", units.Excerpt(text), exceptExample)
	case r.Addr().Is4In6() && r.Bits() >= 96:
		o.Fault(n.Line, field, "%q is of IPv4: write %v", text, netip.PrefixFrom(r.Addr().Unmap(), r.Bits()-96).Masked())
	case r != r.Masked():
		o.Fault(n.Line, field, "%q has bits behind its first %d: write %v, or %v for that address alone", text, r.Bits(), r.Masked(), r.Addr())
	case again:
		o.Fault(n.Line, field, "%v stands twice, first in line %d: remove one", r, first)
	case o.ranged == MaxRanges+1:
		o.Fault(n.Line, field, "more than %d ranges in a file: join those that adjoin", MaxRanges)
	default:
		o.lines[rangeLine+r.String()] = n.Line
		return r
	}
	return none
}

// ranges makes the table of a policy that has ranges.
func (o *overrides) ranges(line int) {
	p := o.policy
	made := ranges{except: int32(len(p.Except))}
	list := slices.Clip(p.Except)
	for i, one := range p.Overrides {
		if one.Range.IsValid() {
			list, made.overrides = append(list, one.Range), append(made.overrides, int32(i))
		}
	}
	if len(list) == 0 || !o.keysOK {
		return
	}
	if made.asked = p.pattern.Address(); made.asked < 0 {
		o.Fault(line, "keys", "%q: ranges need to know which part of a key is the address: name one capture {ip*} or {addr*}, or write `ip:` before it", p.Keys)
		return
	}
	if len(made.overrides) > 0 {
		var ok bool
		if made.counted, made.at, ok = p.template.Pattern(&p.pattern, made.asked); !ok {
			o.Fault(line, "by", "%q: a range with a limit of its own needs keys that are counted by the address: have `by` contain the address of keys, with text between it and other captures", p.By)
			return
		}
	}
	made.table = pattern.NewRanges(list)
	p.ranges = &made
}

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
