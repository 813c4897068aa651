package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// minPayload is in bytes: flushes are as large as that.
const minPayload = 1 << 20

const (
	dialTime     = 5 * time.Second
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

func (cfg Config) checkURL() error {
	for one := range strings.SplitSeq(cfg.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			return errors.New("--nats: not an URL: use nats://host:port, several separated by commas") // without it: it may have a password
		}
		if u.Host == "" || (u.Scheme != "nats" && u.Scheme != "tls") {
			return fmt.Errorf("--nats %s: use nats://host:port or tls://host:port", u.Redacted())
		}
	}
	if (cfg.ClientTLS.Cert == "") != (cfg.ClientTLS.Key == "") {
		return errors.New("--nats-cert and --nats-key belong together: give both, or neither")
	}
	if cfg.Creds != "" {
		if _, err := os.Stat(cfg.Creds); err != nil {
			return fmt.Errorf("--nats-creds: %w", err)
		}
	}
	return nil
}

// redactedURLs are the URLs, without passwords.
func (cfg Config) redactedURLs() string {
	var all []string
	for one := range strings.SplitSeq(cfg.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			all = append(all, u.Redacted())
		}
	}
	return strings.Join(all, ", ")
}

// beyondLoopback is whether any of the URLs leaves this machine.
func (cfg Config) beyondLoopback() bool {
	for one := range strings.SplitSeq(cfg.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err != nil || !loopback(u.Host) {
			return true
		}
	}
	return false
}

// dial connects to the existing NATS: until ctx ends if it isn't there, but not
// if it refuses us.
func (n *Node) dial(ctx context.Context) error {
	options, err := n.externalOptions()
	if err != nil {
		return err
	}
	wait := n.waiting("waiting for the existing NATS (--nats)")
	for attempt := 1; ; attempt++ {
		n.conn, err = nats.Connect(n.cfg.URL, options...)
		switch {
		case err == nil:
			return n.accept()
		case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
			return fmt.Errorf("--nats refused the user: %w: check --nats-creds, or the user and password in the URL", err)
		case errors.Is(err, nats.ErrSecureConnWanted), errors.Is(err, nats.ErrSecureConnRequired):
			return fmt.Errorf("--nats offers no TLS, which --nats-ca and a host beyond loopback ask for: %w: turn it on there, or say --nats-insecure", err)
		}
		if err := wait.again(ctx, backoff(attempt), err); err != nil {
			return err
		}
	}
}

// accept checks what can only be seen of a connection that is there.
func (n *Node) accept() error {
	if max := n.conn.MaxPayload(); max < minPayload {
		return fmt.Errorf("--nats takes messages of at most %d bytes: set max_payload to %d or more there", max, minPayload)
	}
	if n.cfg.beyondLoopback() && !n.cfg.Insecure && !n.conn.AuthRequired() {
		return errors.New("--nats is beyond loopback and lets everybody in: set up a user there, or say --nats-insecure")
	}
	n.cfg.Logger.Info("connected to an existing NATS; set sync_interval: always there, or acknowledged hits may not survive a power cut")
	return nil
}

func (n *Node) externalOptions() ([]nats.Option, error) {
	options := append(n.clientOptions(), nats.Timeout(dialTime))
	cfg := n.cfg
	if cfg.Creds != "" {
		options = append(options, nats.UserCredentials(cfg.Creds))
	}
	if cfg.ClientTLS.none() {
		if cfg.beyondLoopback() && !cfg.Insecure {
			options = append(options, nats.Secure())
		}
		return options, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if cfg.ClientTLS.CA != "" {
		if t.RootCAs, err = authorities("--nats-ca", cfg.ClientTLS.CA); err != nil {
			return nil, err
		}
	} else if t.RootCAs, err = x509.SystemCertPool(); err != nil {
		return nil, err
	}
	if cfg.ClientTLS.Cert != "" {
		cert, err := tls.LoadX509KeyPair(cfg.ClientTLS.Cert, cfg.ClientTLS.Key)
		if err != nil {
			return nil, fmt.Errorf("--nats-cert, --nats-key: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return append(options, nats.Secure(t)), nil
}

// clientOptions are those of every connection. It comes back for ever. Meanwhile
// a publish fails at once: what waits for the journal waits in the flusher, which
// has a bound and knows what was acknowledged, not in a buffer of the client.
func (n *Node) clientOptions() []nats.Option {
	log := n.cfg.Logger
	return []nats.Option{
		nats.Name(strings.TrimSpace("weir " + n.cfg.Node)),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(backoff),
		nats.IgnoreAuthErrorAbort(), // a user may be missing for the moment of a change over there
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("lost the connection to NATS; will retry", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { log.Info("reconnected to NATS", "server", c.ConnectedServerName()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn("NATS client", "error", err) }),
	}
}

// backoff is how long to wait after so many failed attempts.
func backoff(attempts int) time.Duration {
	return min(maxBackoff, firstBackoff<<min(max(attempts-1, 0), 8))
}
