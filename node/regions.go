package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/region"
	"github.com/weir-counter/weir/internal/settings"
)

// Regions make a node count for one of several regions: docs/regions.md.
type Regions struct {
	// Region is this one's name. "": the node counts for none.
	Region string
	// Links are the regions to pull from, NAME=URL each.
	Links []string
	// Every is the time between digests. 0: 1 s.
	Every time.Duration
	// Memory is the budget of the windows of each other region, in bytes. 0: 256 MiB.
	Memory int64
	// LogBytes is what the log of digests may take of the disk, in addition to Journal.MaxBytes. 0: 2 GiB.
	LogBytes int64

	// TokenFile has the token that links show, or lines of a region's name and its token. It is read for each
	// connection. "": they show none.
	TokenFile string
	// CA, Cert and Key are PEM files: the authorities of the other regions' certificates ("": the system's), and a
	// certificate to present to them.
	CA, Cert, Key string
	// Insecure lets links go beyond loopback in plain.
	Insecure bool
}

// regionConfig returns what package region needs of it.
func (cfg *Config) regionConfig() (region.Config, error) {
	from := &cfg.Regions
	to := region.Config{Name: from.Region, Every: from.Every, Memory: from.Memory, LogBytes: from.LogBytes, Logger: cfg.Logger}
	for _, one := range from.Links {
		name, at, _ := strings.Cut(one, "=")
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
			return to, settings.Invalid("Regions.Links", fmt.Sprintf("%q is not a link: write the region's name and the address of its HTTP listener, us=https://us.example.com:8080", one))
		}
		if u.Scheme == "http" && !from.Insecure && !transport.Loopback(u.Hostname()) {
			return to, settings.Invalid("Regions.Links", fmt.Sprintf("a link to %s goes beyond loopback in plain: write https://, or say --insecure-peers", at))
		}
		to.Links = append(to.Links, region.Link{Region: name, URL: strings.TrimSuffix(at, "/"), Token: from.token(name)})
	}
	if err := to.Validate(cfg.Engine); err != nil {
		return to, in("Regions", err)
	}
	var err error
	to.Transport, err = from.transport()
	return to, err
}

// validateRegions reads no files except for certificates.
func (cfg *Config) validateRegions() error {
	r := &cfg.Regions
	if r.Region == "" {
		if len(r.Links) > 0 {
			return settings.Invalid("Regions.Links", "a link needs the name of this region: --region")
		}
		return nil
	}
	_, err := cfg.regionConfig()
	return err
}

func (r *Regions) token(name string) func() (string, error) {
	file := r.TokenFile
	if file == "" {
		return nil
	}
	return func() (string, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("--link-token-file: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			switch words := strings.Fields(line); {
			case len(words) == 1, len(words) == 2 && words[0] == name:
				return words[len(words)-1], nil
			}
		}
		return "", fmt.Errorf("--link-token-file: %s has no token for the link to %s: write it alone, or in a line after the region's name", file, name)
	}
}

// dialTimeout is short: while a link is cut nothing answers, and the next attempt finds that it is healed.
const dialTimeout = 2 * time.Second

// transport reaches other regions. Each link has a connection of its own.
func (r *Regions) transport() (http.RoundTripper, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 2 * dialTimeout, DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, Proxy: http.ProxyFromEnvironment,
	}
	if r.CA != "" {
		pem, err := os.ReadFile(r.CA)
		if err != nil {
			return nil, fmt.Errorf("--link-tls: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--link-tls: %s has no certificate in PEM", r.CA)
		}
	}
	if r.Cert != "" || r.Key != "" {
		if _, err := tls.LoadX509KeyPair(r.Cert, r.Key); err != nil {
			return nil, fmt.Errorf("--link-tls: %w", err)
		}
		t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(r.Cert, r.Key) // it may have been renewed
			return &pair, err
		}
	}
	return t, nil
}

// openRegion makes the journal one of a region. owner reports whether this node writes the digests; nil: there are no other nodes.
func (m *durable) openRegion(ctx context.Context, e *engine.Engine, owner func() bool, sockets *sockets, parts *parts) error {
	if m.cfg.Regions.Region == "" {
		return nil
	}
	cfg, err := m.cfg.regionConfig()
	if err != nil {
		return err
	}
	cfg.Others, cfg.Owner = sockets.memory.setRegions, owner
	r, err := region.Open(ctx, m.journal, e.Config(), cfg)
	if err != nil {
		if ctx.Err() != nil {
			return interrupted(ctx)
		}
		return err
	}
	parts.opened(r.Close)
	sockets.Regions = r
	return nil
}
