// Package clients tests the clients for other languages, with their own test runners, against real servers.
package clients

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
	"github.com/weir-counter/weir/policy"
)

// world starts the servers that the tests of each language ask, and names them as they expect it, in the
// environment:
//
//	WEIR_TEST_A, B     servers that know nothing of each other; A has one permit with a ttl of 1s for each key jobs:*, and 100 tokens an hour for llm:*
//	WEIR_TEST_LOSING   A, which takes every request, behind a proxy that loses every third answer
//	WEIR_TEST_SILENT   takes connections and never answers
//	WEIR_TEST_DOWN     takes none
//	WEIR_TEST_LOCKED   speaks TLS, wants WEIR_TEST_TOKEN, or a client certificate (CERT, KEY) of the authority CA
func world(t *testing.T) []string {
	t.Helper()
	set, err := policy.Parse("policies.yaml", []byte("limits:\n- {name: jobs, keys: \"jobs:*\", max: 1, ttl: 1s}\n- {name: tpm, keys: \"llm:*\", limit: 100, per: 1h, cost: tokens}\n- {name: rpm, keys: \"llm:*\", limit: 1000, per: 1h}\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := nodetest.Start(t, func(cfg *node.Config) { cfg.Policies.Set = set }), nodetest.Start(t, nil)
	env := append(os.Environ(), "WEIR_TEST_A=http://"+a.Addr(), "WEIR_TEST_B=http://"+b.Addr(), "WEIR_TEST_LOSING="+losing(t, a.Addr()),
		"WEIR_TEST_SILENT="+silent(t), "WEIR_TEST_DOWN="+down(t))
	return append(env, locked(t)...)
}

func losing(t *testing.T, server string) string {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server})
	var requests atomic.Int64
	lossy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%3 != 1 {
			proxy.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // the connection is closed without an answer
	}))
	t.Cleanup(lossy.Close)
	return lossy.URL
}

func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() }) // connections wait in its queue
	return "http://" + listener.Addr().String()
}

// down is an address of this process at which it does not listen, and nobody else can.
func down(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("http://127.0.0.1:", at.(*syscall.SockaddrInet4).Port)
}

func locked(t *testing.T) []string {
	t.Helper()
	ca, dir := testsupport.NewAuthority(t), t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	token, _, err := auth.Create(tokens, auth.New{Identity: "ops", Permissions: []auth.Permission{{Role: auth.Ingest}, {Role: auth.Read}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(tokens)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "- {name: machine, permissions: [{role: read}], certificates: [\"dns:machine.internal\"]}\n"...)
	if err := os.WriteFile(tokens, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n := nodetest.Start(t, func(cfg *node.Config) {
		cert, key := ca.Server()
		cfg.TLS = node.TLS{Cert: cert, Key: key, ClientCA: ca.File()}
		cfg.Tokens.File = tokens
	})
	cert, key := ca.ClientFiles("machine.internal")
	return []string{
		"WEIR_TEST_LOCKED=https://" + n.Addr(), "WEIR_TEST_TOKEN=" + token, "WEIR_TEST_CA=" + ca.File(), "NODE_EXTRA_CA_CERTS=" + ca.File(),
		"WEIR_TEST_CERT=" + cert, "WEIR_TEST_KEY=" + key,
	}
}

// run runs a program in a folder, and fails with what it printed.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testsupport.Program(t, name), args...)
	cmd.Dir, cmd.Env = dir, env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

func TestPython(t *testing.T) {
	t.Parallel()
	out := run(t, "python", append(world(t), "PYTHONDONTWRITEBYTECODE=1"), "python3", "-W", "error", "-m", "unittest", "-q", "test_weir")
	if !strings.Contains(out, "\nOK\n") || strings.Contains(out, "Ran 0 tests") {
		t.Error(out)
	}
}

func TestTypeScript(t *testing.T) {
	t.Parallel()
	const tsc = "node_modules/.bin/tsc"
	testsupport.File(t, filepath.Join("typescript", tsc))
	compiled, env := t.TempDir(), os.Environ()
	run(t, "typescript", env, "node", tsc, "--outDir", compiled)
	if err := os.WriteFile(filepath.Join(compiled, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, "typescript", append(world(t), "WEIR_TEST_JS="+filepath.Join(compiled, "weir.js")), "node", "--test", "--test-reporter", "tap", "test/weir.test.mjs")
	if !strings.Contains(out, "# fail 0\n") || strings.Contains(out, "# pass 0\n") {
		t.Error(out)
	}
}
