package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Errors of files name the flag that they came by.
func TestFilesThatAreNotThere(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none", "x")
	for args, want := range map[string]string{
		"serve --http 127.0.0.1:0 --ephemeral --tls-cert " + none + " --tls-key " + none + "2": "weir: --tls-cert: ",
		"serve --http 127.0.0.1:0 --ephemeral --audit-log " + none:                             "weir: --audit-log: ",
		"token revoke abcdefghij --tokens " + none:                                             "there is no tokens file " + none,
	} {
		if code, _, stderr := weirOf(t, nil, "", strings.Fields(args)...); code != exitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d %s, want %q", args, code, stderr, want)
		}
	}
}

// A start is refused that would leave out what somebody relies on, by the name of the flag that is at fault.
func TestListenersThatWouldDoNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens, config := filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "weir.yaml")
	for file, text := range map[string]string{
		tokens: "identities:\n- {name: web, permissions: [{role: ingest}]}\n- {name: ops, permissions: [{role: read}]}\n",
		config: "ephemeral: true\nrls-headers: none\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--ephemeral --rls-config limits", "--rls-config: it does nothing without --rls"},
		{"--ephemeral --rls-xds 127.0.0.1:1", "--rls-xds: it does nothing without --rls"},
		{"--ephemeral --rls-headers none", "--rls-headers: it does nothing without --rls"},
		{"--ephemeral --rls-algorithm gcra", "--rls-algorithm: it does nothing without --rls"},
		{"--config " + config, ":2: rls-headers: it does nothing without --rls"},
		{"--ephemeral --resp-count-prefix a:", "--resp-count-prefix: it does nothing without --resp"},
		{"--ephemeral --statsd-key {name}", "--statsd-key: it does nothing without --statsd"},
		{"--ephemeral --statsd-identity web", "--statsd-identity: it does nothing without --statsd"},

		{"--ephemeral --statsd 8125", "weir: --statsd: 8125 is not an address"},
		{"--ephemeral --statsd 0.0.0.0:8125", "weir: --statsd: other machines can reach --statsd"},
		{"--ephemeral --rls 8081", "weir: --rls: 8081 is not an address"},
		{"--ephemeral --rls 0.0.0.0:8081", "weir: --rls: other machines can reach --rls"},
		{"--ephemeral --resp 6379", "weir: --resp: 6379 is not an address"},
		{"--ephemeral --statsd 127.0.0.1:0 --statsd-key limit:{name}", `weir: --statsd-key: the template of keys "limit:{name}"`},
		{"--ephemeral --statsd 127.0.0.1:0 --statsd-identity ops --tokens " + tokens, `weir: --statsd-identity: identity "ops" has no role ingest`},
		{"--ephemeral --statsd 127.0.0.1:0 --statsd-identity nobody --tokens " + tokens, `weir: --statsd-identity: identity "nobody"`},
	} {
		code, _, stderr := weirOf(t, nil, "", append([]string{"serve", "--http", "127.0.0.1:0"}, strings.Fields(c.args)...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d %s, want %q", c.args, code, stderr, c.want)
		}
	}
}
