package envoy

import (
	"strings"
	"testing"
)

// The examples of envoyproxy/ratelimit's documentation: which values decisions are counted by.
func TestValues(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
domain: d
descriptors:
- {key: route, value_to_metric: true, descriptors: [{key: method, value_to_metric: true, descriptors: [{key: subject, rate_limit: &l {unit: minute, requests_per_unit: 60}}]}]}
- {key: user, value_to_metric: true, descriptors: [{key: action, value: read*, value_to_metric: true, descriptors: [{key: resource, rate_limit: *l}]}]}
- {key: action, value: read*, descriptors: [{key: verb, value: GET, value_to_metric: true, descriptors: [{key: r, value_to_metric: true, rate_limit: *l}]}]}
- {key: shared, value: api/*, share_threshold: true, value_to_metric: true, descriptors: [{key: method, value_to_metric: true, rate_limit: *l}]}
- {key: all, descriptors: [{key: files, value: f/*, share_threshold: true, descriptors: [{key: ip, detailed_metric: true, rate_limit: *l}]}]}
- {key: fixed, value: v, value_to_metric: true, detailed_metric: true, rate_limit: *l}
- {key: inner, detailed_metric: true, descriptors: [{key: ip, rate_limit: *l}]}
`)
	for descriptor, want := range map[string]string{
		"route=api method=GET subject=123":             "route=api:method=GET:subject",
		"user=alice action=readfile resource=docs":     "user=alice:action=readfile:resource",
		"action=readme verb=GET r=a:b":                 "action=read*:verb=GET:r=a%3Ab",
		"shared=api/v1 method=GET":                     "shared=api%2F*:method=GET",
		"all=x files=f/1 ip=1":                         "all=x:files=f%2F*:ip=1",
		"all= files=f/1 ip=1":                          "all:files=f%2F*:ip=1",
		"fixed=v":                                      "",
		"inner=x ip=1":                                 "",
		"route=" + long(600) + " method=GET subject=1": "route=" + long(355) + "%~<hash>",
	} {
		var entries []ConfigEntry
		for pair := range strings.FieldsSeq(descriptor) {
			key, value, _ := strings.Cut(pair, "=")
			entries = append(entries, ConfigEntry{key, value})
		}
		l := c.Find("d", entries)
		if l == nil {
			t.Fatalf("%s has no limit", descriptor)
		}
		got := ""
		if l.CountsValues() {
			got = hideHashes(l.Values(entries))
		}
		if got != want {
			t.Errorf("%.100s:\n got %s\nwant %s", descriptor, got, want)
		}
	}
}
