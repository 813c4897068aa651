package transport_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// startExisting starts a NATS server that is not Weir's: on a port of loopback,
// with a user and a password.
func startExisting(t *testing.T, dir string, port int, change func(*natsserver.Options)) *natsserver.Server {
	t.Helper()
	o := &natsserver.Options{
		ServerName: "existing", Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		Username: "weir", Password: "password", JetStream: true, StoreDir: dir,
	}
	if change != nil {
		change(o)
	}
	server, err := natsserver.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() { stopExisting(server) })
	if !server.ReadyForConnections(transporttest.Patience) {
		t.Fatal("not ready")
	}
	return server
}

func stopExisting(server *natsserver.Server) {
	server.Shutdown()
	server.WaitForShutdown()
}

func address(t *testing.T, server *natsserver.Server, password string) string {
	t.Helper()
	u, err := url.Parse(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme, u.User = "nats", url.UserPassword("weir", password)
	return u.String()
}

// The server goes away: a publish fails at once. It comes back: all goes on.
func TestAnExistingNATS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startExisting(t, dir, natsserver.RANDOM_PORT, nil)
	node, err := transport.Open(t.Context(), transport.Config{URL: address(t, server, "password")})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if node.Embedded() || node.Replicas(3) != 1 {
		t.Errorf("embedded %v, replicas %d", node.Embedded(), node.Replicas(3))
	}
	transporttest.Eventually(t, "the server answers within Status's time", func() bool {
		s, err := node.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Server == "existing" && len(s.Servers) == 1 && s.Servers[0].Name == "existing" && s.Servers[0].RTT > 0
	})
	makeStream(t, node)
	publish(t, node, "a")

	port := server.Addr().(*net.TCPAddr).Port
	stopExisting(server)
	transporttest.Eventually(t, "the loss is seen", func() bool { return !node.Conn().IsConnected() })
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	if _, err = node.JetStream().Publish(ctx, "s", []byte("b")); !errors.Is(err, nats.ErrReconnectBufExceeded) {
		t.Errorf("publish without a connection: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("it failed by its deadline only")
	}
	startExisting(t, dir, port, nil)
	publish(t, node, "c")
	if got := contents(t, node); len(got) != 2 || got["b"] {
		t.Errorf("messages %v: a publish that failed must not be sent later", got)
	}
}

// A server that does not answer how many there are, as a busy one or one that may not, and that is in no cluster is one:
// it makes no stream with three replicas.
func TestAnExistingNATSThatDoesNotSayHowMany(t *testing.T) {
	t.Parallel()
	server := startExisting(t, t.TempDir(), natsserver.RANDOM_PORT, func(o *natsserver.Options) {
		o.Username, o.Password = "", ""
		o.Users = []*natsserver.User{{Username: "weir", Password: "password", Permissions: &natsserver.Permissions{Publish: &natsserver.SubjectPermission{Deny: []string{"$SYS.>"}}}}}
	})
	node, err := transport.Open(t.Context(), transport.Config{URL: address(t, server, "password")})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if got := node.Replicas(3); got != 1 {
		t.Errorf("%d replicas, want 1", got)
	}
	makeStream(t, node)
}

func TestAnExistingNATSThatRefuses(t *testing.T) {
	server := startExisting(t, t.TempDir(), natsserver.RANDOM_PORT, nil)
	small := startExisting(t, t.TempDir(), natsserver.RANDOM_PORT, func(o *natsserver.Options) { o.MaxPayload = 4096 })
	ours := newAuthority(t)
	ours.issue("n1")
	for _, one := range []struct {
		names string
		cfg   transport.Config
	}{
		{"check --nats-creds", transport.Config{URL: address(t, server, "wrong one")}},
		{"max_payload", transport.Config{URL: address(t, small, "password")}},
		{"no TLS", transport.Config{URL: address(t, server, "password"), ClientTLS: transport.TLS{CA: ours.CA}}},
	} {
		node, err := transport.Open(t.Context(), one.cfg)
		if err == nil {
			node.Close()
		}
		if err == nil || !strings.Contains(err.Error(), one.names) || strings.Contains(err.Error(), "password:") {
			t.Errorf("error %v does not name %s", err, one.names)
		}
	}
}

func TestAnExistingNATSWithTLS(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	files := ours.issue("existing")
	server := startExisting(t, t.TempDir(), natsserver.RANDOM_PORT, func(o *natsserver.Options) {
		config, err := natsserver.GenTLSConfig(&natsserver.TLSConfigOpts{CertFile: files.Cert, KeyFile: files.Key, CaFile: files.CA, Verify: true})
		if err != nil {
			t.Fatal(err)
		}
		o.TLSConfig, o.TLSVerify, o.TLSTimeout = config, true, 5
	})
	node, err := transport.Open(t.Context(), transport.Config{URL: address(t, server, "password"), ClientTLS: ours.issue("client")})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if _, err := node.Conn().TLSConnectionState(); err != nil {
		t.Error(err)
	}
}

// Open waits for a server that is not there yet, as long as its context says.
func TestAnExistingNATSThatIsNotThere(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := transport.Open(ctx, transport.Config{URL: "nats://" + transporttest.Addrs(t, 1)[0]})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, nats.ErrNoServers) {
		t.Errorf("error %v", err)
	}
}
