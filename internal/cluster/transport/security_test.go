package transport_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// logBuffer is a log that tests read.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) has(s string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.text.String(), s)
}

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// refused opens a node that no other lets in, and checks that it says which are running. For a
// moment it counts one that is about to refuse it: then it is opened again.
func refused(t *testing.T, cfg transport.Config, running string) {
	t.Helper()
	transporttest.Eventually(t, "it says "+running, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		node, err := transport.Open(ctx, cfg)
		if err == nil {
			node.Close()
			t.Fatal("it joined")
		}
		return strings.Contains(err.Error(), running)
	})
}

// A cluster with TLS and a secret. A node without its authority's certificate,
// one with another secret, and one with a name that is taken are not let in, and
// the cluster says why.
func TestWhoMayJoin(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	var log logBuffer
	c := transporttest.New(t, 3, func(_ int, cfg *transport.Config) {
		cfg.TLS = ours.issue(cfg.Node)
		cfg.Logger = log.logger()
	})
	c.Up(t, 0, 1, 2) // a cluster begins with all nodes
	c.Down(2)
	intruder := func(change func(*transport.Config)) transport.Config {
		cfg := c.Configs[2]
		cfg.Dir = t.TempDir()
		change(&cfg)
		return cfg
	}
	t.Run("plaintext", func(t *testing.T) {
		refused(t, intruder(func(cfg *transport.Config) { cfg.TLS = transport.TLS{} }), "1 of 3 nodes are running")
	})
	t.Run("another authority", func(t *testing.T) {
		refused(t, intruder(func(cfg *transport.Config) { cfg.TLS = theirs.issue(cfg.Node) }), "1 of 3 nodes are running")
	})
	t.Run("another secret", func(t *testing.T) {
		refused(t, intruder(func(cfg *transport.Config) { cfg.Secret = "not the secret of the cluster" }), "1 of 3 nodes are running")
		transporttest.Eventually(t, "the cluster says why", func() bool { return log.has("it has another secret") })
	})
	t.Run("another cluster", func(t *testing.T) {
		refused(t, intruder(func(cfg *transport.Config) { cfg.Cluster = "other" }), "1 of 3 nodes are running")
	})
	c.Up(t, 2)
	t.Run("a name that is taken", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		node, err := transport.Open(ctx, intruder(func(cfg *transport.Config) {
			cfg.Addr = transporttest.Addrs(t, 1)[0]
			cfg.Peers = []string{c.Configs[0].Addr, c.Configs[1].Addr} // the one that has the name is not among them
		}))
		if err == nil {
			node.Close()
			t.Error("it joined")
		}
	})
	// Listener logs once in ten seconds, and the secret was named just now: the name
	// has a test of its own.
	makeStream(t, c.Nodes[2])
	publish(t, c.Nodes[0], "a")
}

// Nodes show each other the certificate that is in their files now.
func TestRenewedCertificates(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	c := transporttest.New(t, 3, func(_ int, cfg *transport.Config) { cfg.TLS = ours.issue(cfg.Node) })
	c.Up(t, 0, 1, 2)
	c.Down(2)
	renew := func(by *authority) {
		t.Helper()
		for _, cfg := range c.Configs[:2] {
			issued := by.issue(cfg.Node)
			for from, to := range map[string]string{issued.Cert: cfg.TLS.Cert, issued.Key: cfg.TLS.Key} {
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	renew(theirs)
	refused(t, c.Configs[2], "1 of 3 nodes are running")
	renew(ours)
	c.Up(t, 2)
}

func TestANameThatIsTakenIsNamed(t *testing.T) {
	t.Parallel()
	var log logBuffer
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(transporttest.Secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := transporttest.Start(t, 2, func(i int, cfg *transport.Config) {
		cfg.Logger = log.logger()
		if i == 0 {
			cfg.Secret, cfg.SecretFile = "", secret
		}
	})
	cfg := c.Configs[1]
	cfg.Dir, cfg.Addr = t.TempDir(), transporttest.Addrs(t, 1)[0]
	cfg.Peers = []string{c.Configs[0].Addr, cfg.Addr}
	refused(t, cfg, "1 of 2 nodes are running (n2)")
	transporttest.Eventually(t, "the cluster says why", func() bool { return log.has("its name is taken by another") && log.has("node=n2") })
}

func TestCertificatesAreCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	foreign := theirs.issue("n1")
	foreign.CA = ours.CA
	for name, files := range map[string]transport.TLS{
		"not for clients":      ours.issue("server", x509.ExtKeyUsageServerAuth),
		"not for servers":      ours.issue("client", x509.ExtKeyUsageClientAuth),
		"of another authority": foreign,
	} {
		t.Run(name, func(t *testing.T) {
			c := transporttest.New(t, 2, func(_ int, cfg *transport.Config) { cfg.TLS = files })
			node, err := transport.Open(t.Context(), c.Configs[0])
			if err == nil {
				node.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "--cluster-tls") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// The port for clients, that the server insists on, is of no use to anybody.
func TestNobodyElseIsAClient(t *testing.T) {
	t.Parallel()
	c := transporttest.Start(t, 2, nil)
	for _, user := range []nats.Option{nats.UserInfo("", ""), nats.UserInfo("n1", transporttest.Secret)} {
		conn, err := nats.Connect(c.Nodes[0].ClientURL(), user)
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("a client from outside: %v", err)
		}
	}
}
