package node_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// A start that fails for an address in use names its setting, and has not touched the data directory.
func TestANodeWhoseAddressIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	dir := filepath.Join(t.TempDir(), "data")
	with := func(change func(*node.Config)) node.Config {
		cfg := config(t, dir)
		change(&cfg)
		return cfg
	}
	for flag, cfg := range map[string]node.Config{
		"--http":   with(func(c *node.Config) { c.HTTP.Addr = taken.Addr().String() }),
		"--resp":   with(func(c *node.Config) { c.RESP.Addr = taken.Addr().String() }),
		"--rls":    with(func(c *node.Config) { c.RLS.Addr = taken.Addr().String() }),
		"--statsd": with(func(c *node.Config) { c.StatsD.Addr = taken.Addr().String() }),
		"--statsd (UDP)": with(func(c *node.Config) {
			c.StatsD.Addr, c.RLS.Addr, c.RESP.Addr = udp.LocalAddr().String(), "127.0.0.1:0", "127.0.0.1:0"
		}),
	} {
		n, err := node.Start(t.Context(), cfg)
		if err == nil {
			_ = n.Close(t.Context())
			t.Fatalf("%s: it started", flag)
		}
		name, _, _ := strings.Cut(flag, " ")
		if !strings.HasSuffix(err.Error(), "choose another address with "+name) {
			t.Errorf("%s: %v", flag, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Fatalf("%s: the data directory was opened: %v", flag, err)
		}
	}
	nodetest.Close(t, nodetest.Open(t, with(func(*node.Config) {}))) // nothing of a failed start is left open
}
