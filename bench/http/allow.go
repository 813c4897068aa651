package main

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/weir-counter/weir/bench/traffic"
)

// limitPolicies are the limits of the servers that decide.
const limitPolicies = `limits:
  - {name: user, keys: "user:*", limit: 1000, per: 1s, burst: 100}
`

// ask is one way to ask for a decision.
type ask struct {
	name string
	body func(key string) string
}

func asks() []ask {
	return []ask{
		{"policies", func(key string) string { return fmt.Sprintf(`{"key":%q}`, key) }},
		{"name", func(key string) string { return fmt.Sprintf(`{"key":%q,"limit":"user","n":1}`, key) }},
		{"inline", func(key string) string { return fmt.Sprintf(`{"key":%q,"limit":{"n":1000,"per":"1s"}}`, key) }},
	}
}

// load is decisions on 100,000 keys after Zipf's law, so that some are denials.
func (a ask) load() load {
	const keys, picks = 100_000, 20_000
	names := traffic.Keys(keys)
	l := load{path: "/v1/allow", contentType: "application/json", good: func(status int, answer []byte) bool {
		decided := bytes.Contains(answer, []byte(`"allowed":`)) && bytes.Contains(answer, []byte(`"remaining":`))
		return len(answer) == 0 && status == http.StatusOK || decided && (status == http.StatusOK || status == http.StatusTooManyRequests)
	}}
	for _, pick := range traffic.Picks(picks, keys) {
		l.bodies = append(l.bodies, []byte(a.body(names[pick])))
	}
	return l
}
