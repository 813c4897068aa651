package shadow

import (
	"slices"
	"strings"

	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/replay"
)

// clfKeys are the templates that make the usual keys of an access log.
var clfKeys = []struct{ prefix, template string }{
	{"ip:", "ip:{host}"},
	{"address:", "address:{host}"}, // as package middleware has them
	{"host:", "host:{host}"},
	{"url:", "url:{path}"},
	{"path:", "path:{path}"},
}

// DefaultKeys are the templates for a log of a format: for an access log, those of
// ip:{host}, address:{host}, host:{host}, url:{path} and path:{path} whose beginning the keys of a policy
// have, or ip:{host} if it is none of them. For other formats there are none: they have
// a key of their own.
func DefaultKeys(format replay.Format, set *policy.Set) (templates []string) {
	if format != replay.CLF {
		return nil
	}
	policies := set.Policies()
	for _, k := range clfKeys {
		if slices.ContainsFunc(policies, func(p policy.Policy) bool { return strings.HasPrefix(p.Keys, k.prefix) }) {
			templates = append(templates, k.template)
		}
	}
	if templates == nil {
		templates = []string{clfKeys[0].template}
	}
	return templates
}
