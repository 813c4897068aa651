// Package client talks to a Weir server over HTTP: it sends hits in batches and asks for counts, rates, top keys, series and
// decisions. It may know several nodes of a cluster. Answers are types of package api.
//
// If a server is overloaded or cannot be reached, a request is retried after a random pause that grows. A batch of hits whose
// answer got lost may have been counted. So it carries an idempotency key, the same in each attempt, by which the server
// counts it once. Servers remember keys for ten minutes, also across a restart unless they are ephemeral.
//
// Send is for hits that exist already, as in a log. A program that counts events passes them to a Sender, which sums them up
// by key and second and sends them every 100 ms.
//
// A decision of limits (Allow) is asked for once: see NoDecisionError.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
)

// Compression of the batches that are sent.
type Compression string

// The compressions that a server takes.
const (
	None Compression = ""
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// Options change how a Client works. The zero value of every field stands for its default.
type Options struct {
	// HTTPClient makes the requests. Default: one of its own, which uses the proxy variables of the environment.
	HTTPClient *http.Client
	// Token authenticates to the server: weir_<id>_<secret>, made by 'weir token create'. Empty: none is sent.
	Token string
	// TLS has the authorities of https:// servers, and a certificate to present to them. nil: the authorities of the machine.
	// It is not used with HTTPClient.
	TLS *tls.Config
	// Compression of batches. Default None: on a local network, compressing takes longer than sending.
	Compression Compression
	// Retries is how often a request is retried, at each node. Default 5; -1 is never.
	Retries int
	// MinPause and MaxPause bound the pause before a retry. It starts at MinPause (default 100 ms) and doubles each time, up
	// to MaxPause (default 5 s), less a random part of up to a half. A server may ask for a longer one, up to MaxPause.
	MinPause, MaxPause time.Duration
	// Timeout bounds one attempt, from connecting to the end of the answer. The Fresh of a query is added to it. Default 30 s.
	Timeout time.Duration
	// Durable makes Send wait until the server has the hits on disk. Without it a crash of the server may lose at most one
	// flush interval. An ephemeral server refuses durable hits.
	Durable bool
	// UserAgent is sent along. Default "weir-client".
	UserAgent string
}

// Client talks to one server, or to the nodes of one cluster. It is safe for many goroutines.
type Client struct {
	nodes  *nodes
	traced bool // the transport reports when it has a connection
	opts   Options
	random func() float64 // in [0, 1)
}

// New returns a client of the server at an address, for example http://127.0.0.1:8080 or unix:/run/weir.sock, or of a cluster
// by a comma-separated list of the addresses of its nodes. It does not connect.
//
// The node that answered last is asked first. If it fails, another one is asked, unless the request might then take effect
// twice: see Send and Allow.
func New(addresses string, o Options) (*Client, error) {
	socket, local := strings.CutPrefix(addresses, "unix:")
	if local {
		addresses = "http://localhost"
	}
	nodes, err := parseNodes(addresses)
	if err != nil {
		return nil, err
	}
	if local && !filepath.IsAbs(socket) {
		return nil, fmt.Errorf("unix:%s: the path of a socket must be absolute: unix:/path", socket)
	}
	if local && o.HTTPClient != nil {
		return nil, fmt.Errorf("unix:%s: with an HTTPClient, give an http:// address, and dial the socket in its Transport", socket)
	}
	switch o.Compression {
	case None, Gzip, Zstd:
	default:
		return nil, fmt.Errorf("compression %q: it must be gzip, zstd or empty", o.Compression)
	}
	if o.Retries < -1 || o.MinPause < 0 || o.MaxPause < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("retries must be -1 or more, pauses and the timeout not negative")
	}
	o.Retries = cmp.Or(o.Retries, 5)
	o.MinPause = cmp.Or(o.MinPause, 100*time.Millisecond)
	o.MaxPause = cmp.Or(o.MaxPause, 5*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.UserAgent = cmp.Or(o.UserAgent, "weir-client")
	if o.HTTPClient == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = o.TLS
		transport.Protocols = new(http.Protocols) // no HTTP/2: one connection that breaks would end many requests
		transport.Protocols.SetHTTP1(true)
		if local {
			transport.Proxy = nil
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			}
		}
		transport.MaxIdleConnsPerHost = 64 // few servers are all that a Client talks to
		o.HTTPClient = &http.Client{Transport: transport}
	}
	_, traced := o.HTTPClient.Transport.(*http.Transport)
	traced = traced || o.HTTPClient.Transport == nil
	return &Client{nodes: nodes, traced: traced, opts: o, random: rand.Float64}, nil
}

// nodes are the nodes of one cluster that a Client knows.
type nodes struct {
	bases []*url.URL
	good  atomic.Int64 // index of the node that is asked first: the last that answered
}

// parseNodes reads a comma-separated list of addresses. The scheme may be missing, as in 127.0.0.1:8080.
func parseNodes(list string) (*nodes, error) {
	n := &nodes{}
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		full := one
		if !strings.Contains(full, "://") {
			full = "http://" + full
		}
		base, err := url.Parse(full)
		if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") || base.RawQuery != "" || base.Fragment != "" {
			return nil, fmt.Errorf("%q is not the address of a server: write for example http://127.0.0.1:8080", one)
		}
		n.bases = append(n.bases, base)
	}
	return n, nil
}

func (n *nodes) count() int { return len(n.bases) }

func (n *nodes) first() int { return int(n.good.Load()) }

// after returns the node that is asked i nodes after the first one.
func (n *nodes) after(first, i int) int { return (first + i) % len(n.bases) }

// answered records that a node works.
func (n *nodes) answered(at int) {
	if n.good.Load() != int64(at) { // every request reads it, and it seldom changes
		n.good.Store(int64(at))
	}
}

// failed records that a node does not work: from now on, the next one is asked first.
func (n *nodes) failed(at int) {
	n.good.CompareAndSwap(int64(at), int64(n.after(at, 1)))
}

// RemoveNode removes a node that never comes back: quorums are counted without it, and no answer waits for it. If the node
// is alive, the error is an *Error of code node_here; if it is not known, of code unknown_node. It may take 20 s.
func (c *Client) RemoveNode(ctx context.Context, node string) (api.RemovedAnswer, error) {
	return call[api.RemovedAnswer](ctx, c, request{method: http.MethodDelete, path: "/v1/cluster/nodes/" + segment(node)})
}

// Cluster returns the nodes that count together.
func (c *Client) Cluster(ctx context.Context) (api.ClusterAnswer, error) {
	return get[api.ClusterAnswer](ctx, c, "/v1/cluster", nil, 0)
}

// Scope says whose hits an answer includes.
type Scope string

// The scopes. The zero Scope is ScopeGlobal at a server that counts for a region, else ScopeRegion.
const (
	ScopeNode   Scope = "node"   // hits that the asked node holds
	ScopeRegion Scope = "region" // hits of its region: a server, or a cluster
	ScopeGlobal Scope = "global" // hits of all regions
)

// Regions returns the regions that count together.
func (c *Client) Regions(ctx context.Context) (api.RegionsAnswer, error) {
	return get[api.RegionsAnswer](ctx, c, "/v1/regions", nil, 0)
}

// ForgetRegion drops all hits of a region that never comes back, in all regions. If the region is not known, the error is an
// *Error of code unknown_region.
func (c *Client) ForgetRegion(ctx context.Context, region string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/regions/" + segment(region)})
	return err
}

// Backup streams all counts as one file from a node. The caller closes it. Only ctx bounds the time. The stream may break
// off: the file is whole only if the checksum at its end verifies.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	answer, err := c.download(ctx, "/v1/backup", nil)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Metrics returns the metrics of a node, as Prometheus reads them.
func (c *Client) Metrics(ctx context.Context) (text []byte, err error) {
	return c.do(ctx, request{method: http.MethodGet, path: "/metrics"})
}

// ExportQuery asks for the history of keys as a CSV file.
type ExportQuery struct {
	Unit     string // of a row: day or hour; "" is day
	Prefix   string // only keys that begin with it
	From, To string // as the API takes them: RFC 3339, Unix seconds, or a duration before now such as -365d; "": all
}

// Export streams history as a file from a node. The caller closes it. Only ctx bounds the time. missing says in words for which
// times hits may be missing; "": for none.
func (c *Client) Export(ctx context.Context, q ExportQuery) (file io.ReadCloser, missing string, err error) {
	v := values("unit", q.Unit, "prefix", q.Prefix, "from", q.From, "to", q.To)
	answer, err := c.download(ctx, "/v1/export", v)
	if err != nil {
		return nil, "", err
	}
	return answer.Body, answer.Header.Get("Weir-Missing"), nil
}

// download asks the node that answered last for a file of any size.
func (c *Client) download(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	req, err := c.newRequest(ctx, c.nodes.first(), request{method: http.MethodGet, path: path, query: query}, "*/*", nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_, err = read(req.URL, answer)
		return nil, err
	}
	return answer, nil
}

// Restore sends a backup. It reads backup once and makes one attempt. With api.Merge a call that failed may be repeated with
// the same backup, which counts once. Only ctx bounds the time. If the server already counts hits of the backup, the error is
// an *Error of code counted_twice.
func (c *Client) Restore(ctx context.Context, backup io.Reader, mode api.RestoreMode) (done api.Restored, err error) {
	r := request{method: http.MethodPost, path: "/v1/restore", query: url.Values{"mode": {string(mode)}}}
	req, err := c.newRequest(ctx, c.nodes.first(), r, "application/json", io.NopCloser(backup))
	if err != nil {
		return done, err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	answer, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return done, err
	}
	text, err := read(req.URL, answer)
	if err != nil {
		return done, err
	}
	return done, decode(text, &done)
}
