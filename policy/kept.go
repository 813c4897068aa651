package policy

import (
	"bytes"

	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
	"go.yaml.in/yaml/v4"
)

const onePolicyExample = `{"keys": "login:{user}:*", "limit": 5, "per": "1m"}`

// ParsePolicy reads one policy that is put by API under a name: the fields of an entry of a file, in YAML or JSON. The name may be
// among them. The result has that policy alone, of the version. The error is Faults, with the name in place of a file name.
func ParsePolicy(name string, data []byte, version uint64) (*Set, error) {
	p := newParser(name)
	p.byAPI = true
	if len(bytes.TrimSpace(data)) == 0 {
		p.Fault(0, "", "it is empty: write the fields of the policy, for example `%s`", onePolicyExample)
	} else if root := p.Document(data); root != nil {
		p.onePolicy(name, root)
	}
	if faults := p.Faults(); faults != nil {
		return nil, faults
	}
	for i := range p.policies {
		p.policies[i].Version = version
	}
	for i := range p.atOnce {
		p.atOnce[i].Version = version
	}
	return p.set(filewatch.Hash{}), nil
}

// onePolicy reads a policy that is no element of a list.
func (p *parser) onePolicy(name string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.Fault(n.Line, "", "%s: write the fields of one policy, for example `%s`", settings.KindText(n), onePolicyExample)
		return
	}
	named := false
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Value == "limits":
			p.Fault(key.Line, "limits", "this is a file: put one policy, its fields without `limits:` and the dash, for example `%s`", onePolicyExample)
			return
		case key.Value == "name" && value.Value != name:
			p.Fault(value.Line, "name", "%q, and it is put as %q: write the same, or leave it out", units.Excerpt(value.Value), units.Excerpt(name))
			return
		case key.Value == "name":
			named = true
		}
	}
	if !named {
		scalar := func(text string) *yaml.Node {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: n.Line}
		}
		n.Content = append([]*yaml.Node{scalar("name"), scalar(name)}, n.Content...)
	}
	if hasMax(n) {
		p.concurrency(n)
		return
	}
	p.policy(n)
}

// Join returns all policies of sets of which no two have a policy of the same name. Policies of equal order stay in the order of the sets.
func Join(sets ...*Set) *Set {
	p := parser{}
	for _, s := range sets {
		p.add(s, func(string) bool { return false })
	}
	return p.set(filewatch.Hash{})
}

// With returns the policies of a file and of kept, which may be nil; with equal order, the file's come first. If both have a
// name, the policy of the file applies, or with keptFirst the other one.
func (s *Set) With(kept *Set, keptFirst bool) *Set {
	if kept == nil {
		return s
	}
	p := parser{}
	p.add(s, func(name string) bool { return keptFirst && kept.has(name) })
	p.add(kept, func(name string) bool { return !keptFirst && s.has(name) })
	return p.set(s.content)
}

// add takes the policies of a Set, but for those that are left out by name.
func (p *parser) add(s *Set, out func(name string) bool) {
	for i, one := range s.policies {
		if !out(one.Name) {
			p.policies = append(p.policies, parsedPolicy{one, s.patterns[i], s.templates[i], s.ranges[i]})
		}
	}
	for _, one := range s.atOnce {
		if !out(one.Name) {
			p.atOnce = append(p.atOnce, one)
		}
	}
}

func (s *Set) has(name string) bool {
	_, ok := s.VersionOf(name)
	return ok
}

// VersionOf is the Version of the policy of a name; false: there is none.
func (s *Set) VersionOf(name string) (version uint64, ok bool) {
	if at, ok := s.names[name]; ok {
		return s.policies[at].Version, true
	}
	if found := s.concurrency(name); found != nil {
		return found.Version, true
	}
	return 0, false
}

// KeysOf returns the pattern of the keys that the policy of a name is for, and the template of those that it counts, "" for
// the keys themselves; false: there is none.
func (s *Set) KeysOf(name string) (keys, by string, ok bool) {
	if at, ok := s.names[name]; ok {
		return s.policies[at].Keys, s.policies[at].By, true
	}
	if found := s.concurrency(name); found != nil {
		return found.Keys, found.By, true
	}
	return "", "", false
}

func (s *Set) concurrency(name string) *Concurrency {
	for i := range s.atOnce {
		if s.atOnce[i].Name == name {
			return &s.atOnce[i].Concurrency
		}
	}
	return nil
}
