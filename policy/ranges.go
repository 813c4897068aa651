package policy

import (
	"net/netip"
	"slices"

	"github.com/weir-counter/weir/internal/pattern"
	"github.com/weir-counter/weir/internal/units"
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
