package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/testsupport"
)

// Every command that talks to a server proves who it is by a certificate.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	ca, dir := testsupport.NewAuthority(t), t.TempDir()
	tokens, both := filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "both.pem")
	write := func(path string, texts ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(texts, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write(tokens, `{identities: [{name: ops, certificates: ["dns:ops.internal"], permissions: [{role: ingest}, {role: decide}, {role: read}, {role: admin}]}]}`)
	serverCert, serverKey := ca.Server()
	server := "https://" + strings.TrimPrefix(startServer(t, "--retention", "520w", "--tokens", tokens, "--tls-cert", serverCert, "--tls-key", serverKey, "--tls-client-ca", ca.File()), "http://")
	cert, key := ca.ClientFiles("ops.internal")
	write(both, read(cert), read(key))
	log, saved := filepath.Join(dir, "access.log"), filepath.Join(dir, "weir.backup")
	write(log, accessLog())

	ways := map[string]map[string]string{
		"two files": {"WEIR_SERVER": server, "WEIR_CA": ca.File(), "WEIR_CERT": cert, "WEIR_CERT_KEY": key},
		"one file":  {"WEIR_SERVER": server, "WEIR_CA": ca.File(), "WEIR_CERT": both},
	}
	for way, env := range ways {
		for _, command := range []string{
			"hit a", "count a", "rate a", "series a", "top", "keys", "stats", "allow a", "limits", "delete a",
			"replay --to " + server + " " + log, "backup --force " + saved, "restore --mode replace " + saved,
		} {
			if code, stdout, stderr := weirOf(t, env, "", strings.Fields(command)...); code != exitOK {
				t.Errorf("%s: %s: %d %s %s", way, command, code, stdout, stderr)
			}
		}
	}
	// Of several nodes, one that is away is passed over.
	env := ways["one file"]
	if code, _, stderr := weirOf(t, env, "", "count", "a", "--server", "https://127.0.0.1:1,"+server); code != exitOK {
		t.Errorf("another node: %d %s", code, stderr)
	}
	for _, wrong := range []struct {
		flags string
		code  int
		want  string
	}{
		{"--cert " + cert, exitUsage, "--cert-key"},
		{"--cert " + log, exitUsage, "does not match its key"},
		{"--cert-key " + key, exitUsage, "--cert-key needs --cert"},
		{"--cert " + dir + "/none", exitFailure, "--cert: "},
		{"--cert " + cert + " --cert-key " + dir + "/none", exitFailure, "--cert-key: "},
		{"", exitFailure, "(unauthorized)"},
	} {
		code, _, stderr := weirOf(t, map[string]string{"WEIR_SERVER": server, "WEIR_CA": ca.File()}, "", append([]string{"count", "a"}, strings.Fields(wrong.flags)...)...)
		if code != wrong.code || !strings.Contains(stderr, wrong.want) {
			t.Errorf("%s: %d %s, want %d with %q", wrong.flags, code, stderr, wrong.code, wrong.want)
		}
	}
}
