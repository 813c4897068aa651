package admit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/pattern"
	"github.com/weir-counter/weir/policy"
)

// model is what policies mean, spelled out: a list of admission times for each name and
// key, counted again for each request.
type model struct {
	policies []policy.Policy
	admitted map[[2]string][]int64
}

type modelCheck struct {
	id     [2]string
	limit  engine.Limit
	shadow bool
}

func (m *model) checks(key string) (checks []modelCheck) {
	for _, p := range m.policies {
		counted, ok := countedKey(p.Keys, p.By, key)
		if !ok {
			continue
		}
		c := modelCheck{[2]string{p.Name, counted}, p.Limit, p.Mode == policy.Shadow}
		for _, o := range p.Overrides {
			if o.Key == counted {
				c.limit = o.Limit
			}
		}
		if checks = append(checks, c); p.Last {
			break
		}
	}
	return checks
}

// countedKey returns the key that a policy counts for a key. Package pattern holds its own answers against a naive matcher.
func countedKey(keys, by, key string) (counted string, ok bool) {
	p, err := pattern.Parse(keys)
	if err != nil {
		panic(err)
	}
	var took pattern.Captures
	if ok = p.Match(key, &took); !ok || by == "" {
		return key, ok
	}
	template, err := pattern.ParseTemplate(by, &p)
	if err != nil {
		panic(err)
	}
	return template.Key(key, &took), true
}

func (m *model) take(keys []string, now int64) (allowed bool) {
	var checks []modelCheck
	for _, key := range keys {
		checks = append(checks, m.checks(key)...)
	}
	allowed = true
	fits := make([]bool, len(checks))
	asked := map[[2]string]int{}
	for i, c := range checks {
		interval := int64(c.limit.Per) * int64(c.limit.Burst) / int64(c.limit.N)
		used := asked[c.id]
		for _, at := range m.admitted[c.id] {
			if at > now-interval {
				used++
			}
		}
		fits[i] = used < int(c.limit.Burst)
		if fits[i] || !c.shadow {
			asked[c.id]++
		}
		allowed = allowed && (fits[i] || c.shadow)
	}
	for i, c := range checks {
		if allowed && fits[i] {
			m.admitted[c.id] = append(m.admitted[c.id], now)
		}
	}
	return allowed
}

func TestTakeIsAllOrNoneAsInTheModel(t *testing.T) {
	r := newRig(t, `
limits:
  - {name: user, keys: "{op}:{user}:*", by: "{user}", limit: 4, per: 8s, burst: 4, overrides: [{key: bob, limit: 8, burst: 8}, {key: eve, burst: 1}]}
  - {name: login, keys: "login:*", limit: 2, per: 4s, order: -1}
  - {name: op, keys: "{op}:*", by: "op/{op}", limit: 12, per: 6s, burst: 6}
  - {name: tried, keys: "*:1", by: "one", limit: 3, per: 6s, mode: shadow, order: -2}
  - {name: stop, keys: "get:ann:*", by: "stop", limit: 5, per: 5s, order: -1, last: true}
  - {name: total, keys: "*", by: "total", limit: 12, per: 4s}
`)
	m := model{policies: r.Set().Policies(), admitted: map[[2]string][]int64{}}
	rng := rand.New(rand.NewPCG(5, 6))
	var d Decision
	allowed := 0
	const rounds = 20_000
	for round := range rounds {
		var keys []string
		var reqs []Request
		for range 1 + rng.IntN(3) {
			key := []string{"login", "get", "put"}[rng.IntN(3)] + ":" + []string{"bob", "eve", "ann"}[rng.IntN(3)] + ":" + fmt.Sprint(rng.IntN(3))
			keys, reqs = append(keys, key), append(reqs, Request{Key: key, N: 1})
		}
		now := r.now.Add(rng.Int64N(int64(time.Second)))
		if round%500 == 0 { // the same policies again: nothing changes
			if err := r.Replace(r.Set()); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Take(reqs, &d); err != nil {
			t.Fatal(err)
		}
		if want := m.take(keys, now); d.Allowed != want {
			t.Fatalf("round %d, keys %v: allowed %v, want %v: %+v", round, keys, d.Allowed, want, d.Results)
		}
		if d.Allowed {
			allowed++
		}
		if d.Denied != nil && d.Denied.Mode == policy.Shadow {
			t.Fatal("a shadow policy denied")
		}
	}
	if allowed < rounds/20 || allowed > rounds*19/20 {
		t.Errorf("%d of %d allowed: this proves little", allowed, rounds)
	}
}
