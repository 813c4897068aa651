package node_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// What other machines can reach is locked, or said to be insecure.
func TestNothingIsOpenByMistake(t *testing.T) {
	for addr, refused := range map[string]bool{
		"127.0.0.1:0": false, "localhost:0": false, "[::1]:0": false, "127.3.4.5:0": false,
		"0.0.0.0:0": true, ":0": true, "[::]:0": true, "10.0.0.1:80": true, "weir.example.com:80": true,
	} {
		for _, c := range []struct {
			cfg     node.Config
			refused bool
		}{
			{node.Config{}, refused},
			{node.Config{Tokens: node.Tokens{File: "f"}}, refused},
			{node.Config{TLS: node.TLS{Cert: "c", Key: "k"}}, refused},
			{node.Config{Tokens: node.Tokens{File: "f"}, TLS: node.TLS{Cert: "c", Key: "k"}}, false},
			{node.Config{Insecure: true}, false},
		} {
			c.cfg.Ephemeral = true
			both := c.cfg
			both.HTTP.Addr = addr
			if err := both.Validate(); (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "--insecure") {
				t.Errorf("HTTP at %s: %v", addr, err)
			}
			both = c.cfg
			both.RESP.Addr = addr
			if err := both.Validate(); (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "--resp "+addr) {
				t.Errorf("RESP at %s: %v", addr, err)
			}
			both = c.cfg
			both.RLS.Addr = addr
			if err := both.Validate(); (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "--rls "+addr) {
				t.Errorf("RLS at %s: %v", addr, err)
			}
		}
	}
	for _, wrong := range []node.TLS{{Cert: "c"}, {Key: "k"}, {ClientCA: "a"}, {Cert: "c", Key: "k", ClientCA: "a"}, {Min: 7}} {
		if err := (node.Config{Ephemeral: true, TLS: wrong}).Validate(); err == nil {
			t.Errorf("%+v: no error", wrong)
		}
	}
}

// Tokens and certificates open both listeners, over TLS; what a deed of admin was is in the audit
// log.
func TestLockedNode(t *testing.T) {
	t.Parallel()
	ca, dir := testsupport.NewAuthority(t), t.TempDir()
	tokens, audit := filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "audit.log")
	token, _, err := auth.Create(tokens, auth.New{Identity: "ops", Permissions: []auth.Permission{{Role: auth.Ingest}, {Role: auth.Read}, {Role: auth.Admin}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(tokens)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "- name: machine\n  permissions: [{role: read, keys: [\"in:\"]}]\n  certificates: [\"dns:machine.internal\"]\n"...)
	if err := os.WriteFile(tokens, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n := nodetest.Start(t, func(cfg *node.Config) {
		cert, key := ca.Server()
		cfg.TLS = node.TLS{Cert: cert, Key: key, ClientCA: ca.File()}
		cfg.Tokens.File, cfg.AuditLog, cfg.RESP.Addr = tokens, audit, "127.0.0.1:0"
	})
	url := "https://" + n.Addr()
	newClient := func(token string, certificates ...tls.Certificate) *client.Client {
		c, err := client.New(url, client.Options{Token: token, Retries: -1, TLS: &tls.Config{RootCAs: ca.Pool(), Certificates: certificates}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ask := func(c *client.Client, key string) error {
		_, err := c.Count(t.Context(), client.CountQuery{Keys: []string{key}})
		return err
	}
	ops, machine := newClient(token), newClient("", ca.Client("machine.internal"))
	if err := ask(ops, "x"); err != nil {
		t.Errorf("a token: %v", err)
	}
	if err := ask(newClient(""), "x"); err == nil || !strings.Contains(err.Error(), "(unauthorized)") {
		t.Errorf("nothing: %v", err)
	}
	if err := ask(machine, "in:x"); err != nil {
		t.Errorf("a certificate: %v", err)
	}
	if err := ask(machine, "x"); err == nil || !strings.Contains(err.Error(), "(forbidden)") {
		t.Errorf("a certificate, outside of its keys: %v", err)
	}
	if err := ask(newClient("", ca.Client("stranger.internal")), "x"); err == nil || !strings.Contains(err.Error(), "(unauthorized)") {
		t.Errorf("a stranger's certificate: %v", err)
	}
	if err := ask(newClient("", testsupport.NewAuthority(t).Client("machine.internal")), "in:x"); err == nil {
		t.Error("a certificate of another authority")
	}
	if answer, err := http.Get("http://" + n.Addr() + "/healthz"); err != nil || answer.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v, %v", answer, err)
	}
	if err := ops.Delete(t.Context(), "x"); err == nil {
		t.Error("deleted what is not there")
	}
	if text, err := os.ReadFile(audit); err != nil || !strings.Contains(string(text), `"who":"ops","action":"delete key","target":"x","outcome":"unknown_key"`) {
		t.Errorf("audit log: %s, %v", text, err)
	}
	if text := health(t, url, ca); !strings.Contains(text, `"certificate_expires"`) || strings.Contains(text, "certificate_files_bad") {
		t.Errorf("of a certificate of an hour: %s", text)
	}
	before := serials(t, ca, n.Addr(), n.RESPAddr())
	ca.Server()
	for n.Reload(); serials(t, ca, n.Addr(), n.RESPAddr()) == before; n.Reload() {
	}
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		says         string
	}{
		"token":       {nil, "AUTH " + token + "\r\nHIT x\r\n"},
		"certificate": {[]tls.Certificate{ca.Client("machine.internal")}, "PING\r\nCOUNT x 5m\r\n"},
	} {
		answers := speak(t, n.RESPAddr(), &tls.Config{RootCAs: ca.Pool(), Certificates: c.certificates}, c.says)
		if want := map[string]string{"token": "+OK :1", "certificate": "+PONG -NOPERM"}[name]; answers != want {
			t.Errorf("RESP by %s: %q, want %q", name, answers, want)
		}
	}
}

// serials are those of the certificates that addresses show.
func serials(t *testing.T, ca *testsupport.Authority, addrs ...string) (all [2]int64) {
	t.Helper()
	for i, addr := range addrs {
		c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool()})
		if err != nil {
			t.Fatal(err)
		}
		all[i] = c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
		c.Close()
	}
	return all
}

// health is what /readyz says to anybody.
func health(t *testing.T, url string, ca *testsupport.Authority) string {
	t.Helper()
	anybody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, ForceAttemptHTTP2: true}}
	answer, err := anybody.Get(url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if answer.ProtoMajor != 2 {
		t.Error("over TLS, not HTTP/2:", answer.Proto)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("/readyz: %d, %v", answer.StatusCode, err)
	}
	return string(text)
}

// speak sends two requests, and gives the first words of their answers.
func speak(t *testing.T, addr string, cfg *tls.Config, requests string) string {
	t.Helper()
	c, err := tls.Dial("tcp", addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, requests+"QUIT\r\n")
	var words []string
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if line := lines.Text(); strings.ContainsRune("+-:*", rune(line[0])) {
			words = append(words, strings.Fields(line)[0])
		}
	}
	return strings.Join(words[:len(words)-1], " ")
}
