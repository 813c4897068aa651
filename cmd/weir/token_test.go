package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/testsupport"
)

// A token is made, used, replaced and revoked by the command line alone.
func TestTokenCommands(t *testing.T) {
	t.Parallel()
	file, ca := filepath.Join(t.TempDir(), "tokens.yaml"), testsupport.NewAuthority(t)
	token := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := weirOf(t, map[string]string{"WEIR_TOKENS": file}, "", append([]string{"token"}, args...)...)
		if code != exitOK {
			t.Fatalf("token %q: %d %s", args, code, stderr)
		}
		return strings.TrimSpace(stdout)
	}
	ops := token("create", "ops", "--role", "read,ingest,admin")
	shop := token("create", "shop", "--role", "read,ingest", "--keys", "shop:", "--expires", "90d")
	if !regexp.MustCompile(`^weir_[a-z0-9]{10}_[a-z0-9]{52}$`).MatchString(ops) {
		t.Errorf("token %q", ops)
	}
	cert, key := ca.Server()
	server := "https://" + strings.TrimPrefix(startServer(t, "--ephemeral", "--tokens", file, "--tls-cert", cert, "--tls-key", key), "http://")
	as := func(token string, args ...string) (code int, stdout, stderr string) {
		return weirOf(t, map[string]string{"WEIR_TOKEN": token, "WEIR_SERVER": server, "WEIR_CA": ca.File()}, "", args...)
	}
	for _, c := range []struct {
		token, command string
		code           int
		want           string // in one of the outputs
	}{
		{shop, "hit shop:a 3", exitOK, "3"},
		{shop, "hit other", exitFailure, "(forbidden)"},
		{shop, "count shop:a", exitOK, "3"},
		{shop, "keys", exitOK, "shop:a"},
		{shop, "stats", exitFailure, "(forbidden)"},
		{shop, "delete shop:a", exitFailure, "(forbidden)"},
		{ops, "stats", exitOK, "keys"},
		{ops, "backup -", exitFailure, "ephemeral"},
		{ops, "restore " + file, exitFailure, "ephemeral"}, // not unauthorized
		{ops, "stats --server http" + strings.TrimPrefix(server, "https"), exitFailure, "it speaks TLS: use https://"},
		{"", "count shop:a", exitFailure, "(unauthorized)"},
		{"weir_x_y", "count shop:a", exitFailure, "(unauthorized)"},
	} {
		code, stdout, stderr := as(c.token, strings.Fields(c.command)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: %d %s %s, want %d with %q", c.command, code, stdout, stderr, c.code, c.want)
		}
	}
	if code, _, stderr := weirOf(t, map[string]string{"WEIR_TOKEN": ops}, "", "stats", "--server", server); code != exitFailure || !strings.Contains(stderr, "--ca FILE") {
		t.Errorf("without --ca: %d %s", code, stderr)
	}
	second := token("create", "shop")
	list := token("list")
	if n := strings.Count(list, "never"); n != 1 { // of ops: the second token of shop expires like its first
		t.Errorf("%d tokens never expire:\n%s", n, list)
	}
	for _, want := range []string{"ops", "ingest,read,admin", "ingest(shop:),read(shop:)", strings.Split(second, "_")[1]} {
		if !strings.Contains(list, want) {
			t.Errorf("no %s in\n%s", want, list)
		}
	}
	if strings.Contains(list, strings.Split(second, "_")[2]) {
		t.Error("the list shows a secret")
	}
	token("revoke", strings.Split(shop, "_")[1])
	for { // until the server has read the file again
		if code, _, stderr := as(shop, "count", "shop:a"); code == exitFailure && strings.Contains(stderr, "(unauthorized)") {
			break
		}
	}
	if code, _, stderr := as(second, "count", "shop:a"); code != exitOK {
		t.Errorf("the token that took its place: %d %s", code, stderr)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestTokenUsage(t *testing.T) {
	dir := t.TempDir()
	for command, want := range map[string]string{
		"token create":                                  "NAME",
		"token create a b":                              "",
		"token create x!":                               "1 to 64 letters",
		"token create a --role reed":                    "there are ingest, decide, read, admin",
		"token create a --role=":                        "--role: the list is empty",
		"token create a --role read,":                   "--role: the list is empty, or has an empty element",
		"token create a --role read --keys=":            "--keys: the list is empty",
		"token create a --role read --keys=a,,b":        "leave it out for all keys",
		"token create a --role read --keys=a --limits=": "--limits: the list is empty",
		"token create a --keys x":                       "--role",
		"token revoke":                                  "ID",
		"token bogus":                                   "bogus",
		"serve --http 0.0.0.0:0 --ephemeral":            "--insecure",
		"serve --resp 0.0.0.0:0 --ephemeral":            "--resp 0.0.0.0:0",
		"serve --tls-cert x --ephemeral":                "--tls-key",
		"serve --tls-min 1.1 --ephemeral":               "1.2",
	} {
		code, _, stderr := weirOf(t, map[string]string{"WEIR_TOKENS": filepath.Join(dir, "none")}, "", strings.Fields(command)...)
		if strings.HasPrefix(command, "serve") {
			code, _, stderr = weirOf(t, nil, "", strings.Fields(command)...)
		}
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s, want %q", command, code, stderr, want)
		}
	}
	if code, _, stderr := weirOf(t, nil, "", "serve", "--ephemeral", "--tokens", filepath.Join(dir, "none")); code != exitFailure || !strings.Contains(stderr, "weir token create") {
		t.Errorf("no file: %d %s", code, stderr)
	}
}
