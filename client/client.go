package client

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
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
