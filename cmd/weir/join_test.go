package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// What can't be joined is refused before anything is opened, with what to do.
func TestJoinRefused(t *testing.T) {
	secret, short, certOnly := secretFile(t), filepath.Join(t.TempDir(), "short"), t.TempDir()
	for file, text := range map[string]string{short: "short", filepath.Join(certOnly, "tls.crt"): "x"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const node = "--cluster c --node n1 --cluster-addr 127.0.0.1:7001 --peers 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 "
	const far = "--cluster c --node n1 --cluster-addr 10.0.0.1:7001 --peers 10.0.0.1:7001,10.0.0.2:7001 "
	for _, test := range []struct{ args, want string }{
		{node + "--ephemeral", "--cluster and --ephemeral: nodes count together by their journals"},
		{"--nats nats://127.0.0.1:4222 --ephemeral", "--nats and --ephemeral"},
		{"--nats nats://127.0.0.1:4222", "--nats needs --node NAME"},
		{"--nats nats://127.0.0.1:4222 --node n1 --cluster c", "choose one"},
		{"--nats 127.0.0.1:4222 --node n1", "--nats"},
		{"--nats nats://127.0.0.1:4222 --node n1 --nats-tls " + certOnly, "--nats-tls has only one of tls.crt and tls.key"},
		{"--node n1", "need --cluster NAME"},
		{"--cluster c", "--node"},
		{"--cluster c --node n1 --peers 127.0.0.1:7002", "--cluster-addr"},
		{"--cluster c --node n1 --cluster-addr 127.0.0.1:7001", "--cluster without --peers"},
		{node + "--cluster-secret-file " + short, "use at least 16"},
		{node + "--cluster-secret-file /nowhere", "--cluster-secret-file"},
		{node + "--cluster-tls " + certOnly, "needs all of ca.crt, tls.crt and tls.key"},
		{node + "--cluster-tls " + t.TempDir(), "has none of the files ca.crt, tls.crt and tls.key"},
		{far, "beyond loopback, so the cluster needs TLS"},
		{far + "--cluster-secret-file " + secret, "--insecure-peers"},
	} {
		args := append([]string{"serve", "--http", "127.0.0.1:0"}, strings.Fields(test.args)...)
		if !strings.Contains(test.args, "--ephemeral") {
			args = append(args, "--data", filepath.Join(t.TempDir(), "data"))
		}
		code, _, stderr := weirOf(t, nil, "", args...)
		if code != exitUsage || !strings.Contains(stderr, test.want) {
			t.Errorf("%s\nexit %d, %s\nwant %s", test.args, code, stderr, test.want)
		}
	}
}

// The environment and the settings file say the same as the flags.
func TestJoinSettings(t *testing.T) {
	file := "cluster: c\npeers: [127.0.0.1:7001, 127.0.0.1:7002]\ninsecure-peers: true\n"
	cmd, from, err := settled(t, file, map[string]string{"WEIR_NODE": "n1", "WEIR_CLUSTER_SECRET_FILE": "secret", "WEIR_CLUSTER_ADDR": "127.0.0.1:7001"})
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"cluster": "c", "node": "n1", "cluster-addr": "127.0.0.1:7001", "peers": "[127.0.0.1:7001,127.0.0.1:7002]",
		"cluster-secret-file": "secret", "insecure-peers": "true",
	} {
		if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %s from %s, want %s", flag, got, from[flag], want)
		}
	}
}

// A node that waits for others ends well when it is asked to.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	ports := transporttest.Addrs(t, 3)
	dir := t.TempDir()
	p := launch(t, dir, "--cluster", "c", "--node", "n1", "--cluster-addr", ports[0], "--peers", strings.Join(ports, ","))
	transporttest.Eventually(t, "the data directory is opened", func() bool {
		_, err := os.Stat(filepath.Join(dir, "lock"))
		return err == nil
	})
	if log, err := p.end(t, os.Interrupt); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}
