package main

import (
	"fmt"
	"strings"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// clusterPolicy is a policy that is put by API at one node after another.
type clusterPolicy struct {
	c       *processes
	version uint64 // that was acknowledged last
	limit   int    // that it has
}

// change puts the policy by a node, over the version that was acknowledged last.
func (p *clusterPolicy) change(node int) {
	t := p.c.t
	t.Helper()
	p.limit++
	text := fmt.Sprintf(`{"keys":"login:*","limit":%d,"per":"1h"}`, p.limit)
	want := client.PolicyVersion{Is: p.version, New: p.version == 0}
	transporttest.Eventually(t, "a policy is put", func() bool {
		c, ok := p.client(node)
		if !ok {
			return false
		}
		made, err := c.PutPolicy(t.Context(), "login", text, want)
		if err != nil { // an answer that was lost may have been of one that is put
			if is, err := c.Policy(t.Context(), "login"); err == nil && strings.Contains(is.Policy, fmt.Sprintf(`"limit":%d,`, p.limit)) {
				made.Version = is.Version
			}
		}
		p.version = max(p.version, made.Version)
		return made.Version != 0
	})
}

// check waits until all nodes have what was acknowledged last.
func (p *clusterPolicy) check() {
	p.c.t.Helper()
	for i := range p.c.nodes {
		transporttest.Eventually(p.c.t, p.c.name(i)+" has the policy", func() bool {
			c, ok := p.client(i)
			if !ok {
				return false
			}
			limits, err := c.Limits(p.c.t.Context(), 0)
			return err == nil && len(limits.Limits) == 1 && limits.Limits[0].Version == p.version && limits.Limits[0].Limit == uint64(p.limit)
		})
	}
}

// client asks a node; false: it does not run now.
func (p *clusterPolicy) client(node int) (*client.Client, bool) {
	p.c.t.Helper()
	is := p.c.nodes[node].Load()
	if is == nil {
		return nil, false
	}
	c, err := client.New(is.addr, client.Options{Retries: -1})
	if err != nil {
		p.c.t.Fatal(err)
	}
	return c, true
}
