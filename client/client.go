// Package client talks to a Weir server over HTTP: it sends hits in batches
// and asks for counts, rates, top keys and series. It may know several nodes of a cluster.
//
// A request that meets a server which is too busy, or no server at all, is
// tried again after a pause that grows and is random. A batch of hits whose
// answer got lost on the way may have been counted: it carries an idempotency
// key, the same in each attempt, by which the server counts it once, within ten
// minutes and also across a restart of a server that is not ephemeral.
//
// Send is for hits that are there already, as of a log. A program that counts what happens gives its hits to a
// Sender, which sums them up by key and second and sends them every 100 ms.
//
// A decision of limits (Allow) is asked once: see NoDecisionError for what a caller does
// when there is none.
package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"github.com/weir-counter/weir/api"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Compression of the batches that are sent.
type Compression string

// The compressions that a server takes.
const (
	None Compression = ""
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// Options change how a Client works. The zero value of every field stands for
// its default.
type Options struct {
	// HTTPClient makes the requests. Default: one of its own, which honours
	// the proxy variables of the environment.
	HTTPClient *http.Client
	// Token proves to the server who asks: weir_<id>_<secret>, made by 'weir token create'. Empty: none
	// is sent.
	Token string
	// TLS is how to speak to an https:// server: its authorities, a certificate of one's own. nil: the
	// machine's authorities. It is not used with HTTPClient.
	TLS *tls.Config
	// Compression of batches. Default None: on a local network, compressing
	// takes longer than sending.
	Compression Compression
	// Retries is how often a request is retried, at each node. Default 5; -1 is never.
	Retries int
	// MinPause and MaxPause bound the pause before a request is retried.
	// It starts at MinPause (default 100 ms), doubles each time up to MaxPause
	// (default 5 s), and a random part of up to a half is taken off it. A
	// server that asks for a longer pause gets it, up to MaxPause.
	MinPause, MaxPause time.Duration
	// Timeout bounds one attempt, from connecting to the end of the answer, beside
	// what a query's Fresh lets the server wait.
	// Default 30 s.
	Timeout time.Duration
	// Durable makes Send wait until the server has the hits on disk. Without it a
	// crash of the server may lose at most one flush interval. An ephemeral
	// server refuses durable hits.
	Durable bool
	// UserAgent is sent along. Default "weir-client".
	UserAgent string
}

// A Client talks to one server, or to the nodes of one cluster. It may be used by many goroutines at
// once.
type Client struct {
	nodes  *nodes
	traced bool // the transport tells when it has a connection
	opts   Options
	random func() float64 // in [0, 1)
}

// New makes a client of the server at an address, for example
// http://127.0.0.1:8080, or of a cluster by the comma-separated addresses of its nodes. It does not connect.
//
// Of several nodes, the one that answered last is asked first. Another one is asked when it fails, unless
// the request might then take effect twice: see Send and Allow.
func New(addresses string, o Options) (*Client, error) {
	nodes, err := parseNodes(addresses)
	if err != nil {
		return nil, err
	}
	switch o.Compression {
	case None, Gzip, Zstd:
	default:
		return nil, fmt.Errorf("compression %q: it must be gzip, zstd or empty", o.Compression)
	}
	if o.Retries < -1 || o.MinPause < 0 || o.MaxPause < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("retries must be -1 or more, pauses and the timeout not negative")
	}
	orDefault(&o.Retries, 5)
	orDefault(&o.MinPause, 100*time.Millisecond)
	orDefault(&o.MaxPause, 5*time.Second)
	orDefault(&o.Timeout, 30*time.Second)
	orDefault(&o.UserAgent, "weir-client")
	if o.HTTPClient == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = o.TLS
		transport.MaxIdleConnsPerHost = 64 // few servers are all that a Client talks to
		o.HTTPClient = &http.Client{Transport: transport}
	}
	_, traced := o.HTTPClient.Transport.(*http.Transport)
	traced = traced || o.HTTPClient.Transport == nil
	return &Client{nodes: nodes, traced: traced, opts: o, random: rand.Float64}, nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

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

// RemoveNode removes a node that never comes back: quorums are counted without it, and
// no answer waits for it. One that is alive is an *Error of code node_here, one that
// nobody knows of unknown_node. It may take 20 s.
func (c *Client) RemoveNode(ctx context.Context, node string) (removed api.RemovedAnswer, err error) {
	body, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/cluster/nodes/" + segment(node)})
	if err != nil {
		return removed, err
	}
	return removed, decode(body, &removed)
}

// Cluster asks for the nodes that count together.
func (c *Client) Cluster(ctx context.Context) (api.ClusterAnswer, error) {
	return ask[api.ClusterAnswer](ctx, c, "/v1/cluster", nil)
}

// Scope says whose hits an answer has.
type Scope string

// The scopes. The zero Scope is ScopeGlobal of a server that counts for a region, else ScopeRegion.
const (
	ScopeNode   Scope = "node"   // those that the node holds which is asked
	ScopeRegion Scope = "region" // those of its region: a server, or a cluster
	ScopeGlobal Scope = "global" // those of all regions
)

// Regions asks for the regions that count together.
func (c *Client) Regions(ctx context.Context) (api.RegionsAnswer, error) {
	return ask[api.RegionsAnswer](ctx, c, "/v1/regions", nil)
}

// ForgetRegion drops all hits of a region that never comes back, in all regions. One that nobody knows of is an *Error of
// code unknown_region.
func (c *Client) ForgetRegion(ctx context.Context, region string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/regions/" + segment(region)})
	return err
}

// Restore sends a backup, which is read once: it is not tried again. With Merge a call
// that failed may be repeated with the same backup, which counts once. Only ctx bounds the
// time. A backup with hits that the server counts already is an *Error of code
// counted_twice.
func (c *Client) Restore(ctx context.Context, backup io.Reader, mode api.RestoreMode) (done api.Restored, err error) {
	target := c.nodes.bases[c.nodes.first()].JoinPath("/v1/restore")
	target.RawQuery = url.Values{"mode": {string(mode)}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), io.NopCloser(backup))
	if err != nil {
		return done, err
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Content-Type", "application/octet-stream")
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	answer, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return done, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return done, fmt.Errorf("read the answer of %s: %w", target.Redacted(), err)
	}
	if answer.StatusCode/100 != 2 {
		return done, newError(answer, body)
	}
	return done, decode(body, &done)
}
