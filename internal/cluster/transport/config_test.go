package transport_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// What can't work is refused at once, with the flag that is at fault.
func TestConfigsThatAreRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := func(change func(*transport.Config)) transport.Config {
		cfg := transport.Config{Dir: t.TempDir(), MaxBytes: 1 << 20, Cluster: "c", Node: "n1", Addr: "127.0.0.1:4001", Peers: []string{"127.0.0.1:4002"}, Secret: transporttest.Secret}
		change(&cfg)
		return cfg
	}
	for _, one := range []struct {
		names string
		cfg   transport.Config
	}{
		{"--data", transport.Config{MaxBytes: 1}},
		{"above 0", transport.Config{Dir: "d"}},
		{"need --cluster", transport.Config{Dir: "d", MaxBytes: 1, Node: "n1"}},
		{"need --cluster", transport.Config{Dir: "d", MaxBytes: 1, Secret: transporttest.Secret}},
		{"choose one", cluster(func(c *transport.Config) { c.URL = "nats://localhost" })},
		{"--cluster \"a b\"", cluster(func(c *transport.Config) { c.Cluster = "a b" })},
		{"--node \"\"", cluster(func(c *transport.Config) { c.Node = "" })},
		{"--node \"a.b\"", cluster(func(c *transport.Config) { c.Node = "a.b" })},
		{"--cluster-addr \"\"", cluster(func(c *transport.Config) { c.Addr = "" })},
		{"--cluster-addr \":4001\"", cluster(func(c *transport.Config) { c.Addr = ":4001" })},
		{"--cluster-addr \"h:0\"", cluster(func(c *transport.Config) { c.Addr = "h:0" })},
		{"--cluster-listen 0.0.0.0:4001", cluster(func(c *transport.Config) { c.Addr = "0.0.0.0:4001" })},
		{"--cluster-listen \"x\"", cluster(func(c *transport.Config) { c.Listen = "x" })},
		{"--peers \"n2\"", cluster(func(c *transport.Config) { c.Peers = []string{"n2"} })},
		{"without --peers", cluster(func(c *transport.Config) { c.Peers = nil })},
		{"without --peers", cluster(func(c *transport.Config) { c.Peers = []string{c.Addr} })},
		{"at least 16", cluster(func(c *transport.Config) { c.Secret = "short" })},
		{"choose one", cluster(func(c *transport.Config) { c.SecretFile = empty })},
		{"is empty", cluster(func(c *transport.Config) { c.Secret, c.SecretFile = "", empty })},
		{"--cluster-secret-file", cluster(func(c *transport.Config) { c.Secret, c.SecretFile = "", empty+"?" })},
		{"all of ca.crt", cluster(func(c *transport.Config) { c.TLS.CA = "ca" })},
		{"10.0.0.1:4001 is beyond loopback", cluster(func(c *transport.Config) { c.Addr = "10.0.0.1:4001" })},
		{"n2:4001 is beyond loopback", cluster(func(c *transport.Config) { c.Peers = []string{"n2:4001"} })},
		{"0.0.0.0:4001 is beyond loopback", cluster(func(c *transport.Config) { c.Listen = "0.0.0.0:4001" })},
		{"say --insecure-peers", cluster(func(c *transport.Config) { c.Secret, c.Peers = "", []string{"n2:4001"} })},
		{"use nats://", transport.Config{URL: "localhost:4222"}},
		{"use nats://", transport.Config{URL: "nats://localhost:4222,http://localhost"}},
		{"--nats-creds", transport.Config{URL: "nats://localhost:4222", Creds: empty + "?"}},
		{"--nats-tls", transport.Config{URL: "nats://localhost:4222", ClientTLS: transport.TLS{Cert: "c"}}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		node, err := transport.Open(ctx, one.cfg)
		cancel()
		if err == nil {
			node.Close()
		}
		if err == nil || !strings.Contains(err.Error(), one.names) || strings.Contains(err.Error(), transporttest.Secret) {
			t.Errorf("error %v does not name %s", err, one.names)
		}
	}
}

// The server would delete or mix up what is in a directory of another.
func TestADirectoryBelongsToOneNode(t *testing.T) {
	t.Parallel()
	single := transport.Config{Dir: t.TempDir(), MaxBytes: 1 << 20}
	node, err := transport.Open(t.Context(), single)
	if err != nil {
		t.Fatal(err)
	}
	node.Close()
	c := transporttest.New(t, 2, nil)
	refuses := func(cfg transport.Config, names string) {
		t.Helper()
		node, err := transport.Open(t.Context(), cfg)
		if err == nil {
			node.Close()
		}
		if err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("error %v does not name %s", err, names)
		}
	}
	cfg := c.Configs[0]
	cfg.Dir = single.Dir
	refuses(cfg, "filled by a node alone")

	c.Up(t, 0, 1)
	c.Down(0, 1)
	single.Dir = c.Configs[0].Dir
	refuses(single, "--cluster test --node n1")
	cfg = c.Configs[0]
	cfg.Node = "n3"
	refuses(cfg, "--cluster test --node n1")
	if err := os.WriteFile(filepath.Join(single.Dir, "node.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(c.Configs[0], "node.json")
}

func TestAPortThatIsTakenIsNamed(t *testing.T) {
	t.Parallel()
	c := transporttest.New(t, 2, nil)
	l, err := net.Listen("tcp", c.Configs[0].Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	node, err := transport.Open(t.Context(), c.Configs[0])
	if err == nil {
		node.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error %v", err)
	}
}
