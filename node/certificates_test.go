package node_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// certified asks a node by one client certificate over one connection of each protocol.
type certified struct {
	ask   map[string]func() error // by protocol
	dials map[string]*atomic.Int32
	close []func() error
}

func newCertified(t *testing.T, n *node.Node, cfg *tls.Config) *certified {
	t.Helper()
	c := &certified{ask: map[string]func() error{}, dials: map[string]*atomic.Int32{}}
	dial := func(protocol string) func(context.Context, string) (net.Conn, error) {
		count := new(atomic.Int32)
		c.dials[protocol] = count
		return func(ctx context.Context, addr string) (net.Conn, error) {
			count.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}

	web := dial("HTTP")
	transport := &http.Transport{TLSClientConfig: cfg, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return web(ctx, addr) }}
	c.close = append(c.close, func() error { transport.CloseIdleConnections(); return nil })
	c.ask["HTTP"] = func() error {
		answer, err := (&http.Client{Transport: transport}).Get("https://" + n.Addr() + "/v1/count?key=in:x&window=5m")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = errors.New(string(text))
		}
		return errors.Join(err, answer.Body.Close())
	}

	redis := dial("RESP")
	var open net.Conn
	var lines *bufio.Reader
	c.ask["RESP"] = func() error {
		if open == nil {
			raw, err := redis(t.Context(), n.RESPAddr())
			if err != nil {
				return err
			}
			open = tls.Client(raw, cfg)
			lines = bufio.NewReader(open)
			c.close = append(c.close, open.Close)
		}
		if err := open.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return err
		}
		_, err := fmt.Fprint(open, "HIT in:x\r\n")
		var line string
		if err == nil {
			line, err = lines.ReadString('\n')
		}
		if err == nil && line[0] == '-' {
			err = errors.New(line)
		}
		if err != nil && c.dials["RESP"].Load() == 1 { // this client connects again when its connection has ended
			if _, ended := lines.ReadByte(); !errors.Is(ended, os.ErrDeadlineExceeded) {
				open = nil
			}
		}
		return err
	}

	envoy, err := grpc.NewClient("passthrough:///"+n.RLSAddr(), grpc.WithTransportCredentials(credentials.NewTLS(cfg)), grpc.WithContextDialer(dial("gRPC")))
	if err != nil {
		t.Fatal(err)
	}
	c.close = append(c.close, envoy.Close)
	c.ask["gRPC"] = func() error {
		_, err := pb.NewRateLimitServiceClient(envoy).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{
			Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "ip", Value: "1"}}}},
		})
		return err
	}
	return c
}

// all asks by every protocol.
func (c *certified) all() (err error) {
	for protocol, ask := range c.ask {
		if failed := ask(); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", protocol, failed))
		}
	}
	return err
}

// ends asserts that every connection is refused, and ends.
func (c *certified) ends(t *testing.T) {
	t.Helper()
	for protocol, ask := range c.ask {
		for deadline := time.Now().Add(time.Minute); ; {
			if err := ask(); err != nil {
				break
			}
			if dials := c.dials[protocol].Load(); dials != 1 {
				t.Fatalf("%s: %d connections before the certificate ended", protocol, dials)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: an open connection outlives its certificate", protocol)
			}
		}
		for deadline := time.Now().Add(time.Minute); c.dials[protocol].Load() < 2; {
			if err := ask(); err == nil {
				t.Errorf("%s: it is answered again", protocol)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the connection does not end", protocol)
			}
		}
	}
	c.end()
}

func (c *certified) end() {
	for _, closing := range c.close {
		_ = closing() // the server may have closed it
	}
}

// A certificate that expires, or whose names come to belong to two identities, ends open connections.
func TestCertificatesOfOpenConnections(t *testing.T) {
	t.Parallel()
	const mine, others = "dns:machine.internal", "dns:other.internal"
	ca, tokens := testsupport.NewAuthority(t), filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(second string) {
		t.Helper()
		text := "identities:\n- {name: machine, permissions: [{role: ingest}, {role: read}, {role: decide}], certificates: [\"" + mine + "\"]}\n" +
			"- {name: other, permissions: [{role: read}], certificates: [\"" + second + "\"]}\n"
		if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("dns:third.internal")
	cfg := config(t, t.TempDir())
	cert, key := ca.Server()
	cfg.TLS, cfg.Tokens.File = node.TLS{Cert: cert, Key: key, ClientCA: ca.File()}, tokens
	cfg.RESP.Addr, cfg.RLS.Addr, cfg.RLS.Limits = "127.0.0.1:0", "127.0.0.1:0", rlsLimits(t)
	n := nodetest.Open(t, cfg)
	names := []string{strings.TrimPrefix(mine, "dns:"), strings.TrimPrefix(others, "dns:")}
	with := func(end time.Time) *certified {
		return newCertified(t, n, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{ca.ClientUntil(end, names...)}})
	}
	for life := 2 * time.Second; ; life *= 2 { // a slow machine needs longer to connect
		expires := with(time.Now().Add(life))
		err := expires.all()
		if err == nil {
			expires.ends(t)
			break
		}
		expires.end()
		if life > time.Minute {
			t.Fatal(err)
		}
	}
	ambiguous := with(time.Time{})
	if err := ambiguous.all(); err != nil {
		t.Fatal(err)
	}
	write(others)
	n.Reload()
	ambiguous.ends(t)
}
