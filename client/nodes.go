package client

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
)

// nodes are those of one cluster that a Client knows.
type nodes struct {
	bases []*url.URL
	good  atomic.Int64 // index of the one that is asked first: the last that answered
}

// parseNodes reads the comma-separated addresses of the nodes.
func parseNodes(list string) (*nodes, error) {
	n := &nodes{}
	for one := range strings.SplitSeq(list, ",") {
		base, err := parseBase(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		n.bases = append(n.bases, base)
	}
	return n, nil
}

// parseBase reads the address of a server. People leave the scheme out, so
// 127.0.0.1:8080 is taken too.
func parseBase(s string) (*url.URL, error) {
	full := s
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	base, err := url.Parse(full)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("%q is not the address of a server: write for example http://127.0.0.1:8080", s)
	}
	return base, nil
}

func (n *nodes) count() int { return len(n.bases) }

// first is the node to ask first.
func (n *nodes) first() int { return int(n.good.Load()) }

// from is the i-th node to ask, when first was asked first.
func (n *nodes) from(first, i int) int { return (first + i) % len(n.bases) }

// answered notes that a node works.
func (n *nodes) answered(at int) {
	if n.good.Load() != int64(at) { // it is read by all, and seldom changes
		n.good.Store(int64(at))
	}
}

// failed notes that a node does not: the next one is asked first from now on.
func (n *nodes) failed(at int) {
	n.good.CompareAndSwap(int64(at), int64(n.from(at, 1)))
}
