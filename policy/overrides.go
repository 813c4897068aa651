package policy

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
)

// overrides reads the list of a policy.
type overrides struct {
	*parser
	policy  *parsedPolicy
	written weir.Limit // of the policy, the burst not filled in
	limitOK bool       // the policy's limit is good
	keysOK  bool       // its keys and by are good
	lines   map[string]int
}

const overrideExample = `key: "login:admin"`

func (o *overrides) read(list *yaml.Node) {
	o.lines = map[string]int{}
	for _, n := range o.list(list, "overrides", overrideExample) {
		o.override(n)
	}
}

func (o *overrides) override(n *yaml.Node) {
	fields := o.fields(n, "overrides.", overrideExample, overrideFields)
	if fields == nil {
		return
	}
	made := Override{Line: n.Line, Limit: o.written}
	if key := fields["key"]; key != nil {
		made.Key = o.key(key)
	} else {
		o.fault(n.Line, "overrides.key", "it is missing: write the counted key that has another limit, for example `%s`", overrideExample)
	}
	if fields["limit"] == nil && fields["per"] == nil && fields["burst"] == nil {
		o.fault(n.Line, "overrides.limit", "it is missing: an override has limit, per or burst, else it changes nothing")
		return
	}
	if rateOK, burstOK := o.limitFields(&made.Limit, fields, "overrides."); rateOK && o.limitOK {
		if o.checkLimit(&made.Limit, burstOK, fields, "overrides.", n.Line) && o.policy.Global {
			o.checkGlobalInterval(made.Limit, "overrides.burst", n.Line)
		}
	}
	o.policy.Overrides = append(o.policy.Overrides, made)
}

// key reads the key of an override: one that could be counted, each once.
func (o *overrides) key(n *yaml.Node) string {
	key, ok := o.text(n, "overrides.key", overrideExample)
	if !ok {
		return ""
	}
	if len(key) < 1 || len(key) > weir.MaxKeyBytes {
		o.fault(n.Line, "overrides.key", "%d bytes: a key has 1 to %d", len(key), weir.MaxKeyBytes)
		return ""
	}
	p := o.policy
	switch first, again := o.lines[key]; {
	case strings.ContainsAny(key, "*{}"):
		o.fault(n.Line, "overrides.key", "%q: an override is for one key, and * and { } stand for no others here: write the whole key, or a policy of its own for many", units.Excerpt(key))
	case again:
		o.fault(n.Line, "overrides.key", "%q stands twice, first in line %d: remove one", units.Excerpt(key), first)
	case o.keysOK && p.By == "" && !p.pattern.Fits(key):
		o.fault(n.Line, "overrides.key", "%q is never counted: it does not fit keys %q; write the whole key", units.Excerpt(key), p.Keys)
	case o.keysOK && p.By != "" && !p.template.CanMake(key):
		o.fault(n.Line, "overrides.key", "%q is never counted: it is no key that by %q makes; write the whole key", units.Excerpt(key), p.By)
	default:
		o.lines[key] = n.Line
	}
	return key
}
