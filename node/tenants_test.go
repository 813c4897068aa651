package node_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// tenants is a node that two tenants and an operator share, with a listener for Envoy.
type tenants struct {
	*testing.T
	node *node.Node
	tls  *tls.Config
	http *http.Client
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	ca, tokens, policies := testsupport.NewAuthority(t), filepath.Join(t.TempDir(), "tokens.yaml"), filepath.Join(t.TempDir(), "policies.yaml")
	text := "identities:\n"
	for name, keys := range map[string]string{"root": "", "a": `, keys: ["a:"]`, "b": `, keys: ["b:"]`} {
		text += "- {name: " + name + ", permissions: ["
		for _, role := range []string{"ingest", "decide", "read", "admin"} {
			text += "{role: " + role + keys + "},"
		}
		text += fmt.Sprintf("], tokens: [{id: %s, sha256: %x}]}\n", name, sha256.Sum256([]byte(tenantToken(name))))
	}
	shared := "limits:\n- {name: shared, keys: \"{tenant}:both:*\", by: both, limit: 1000, per: 1h}\n- {name: hidden, keys: \"b:hidden:*\", by: \"b:secret\", limit: 1000, per: 1h}\n"
	for path, content := range map[string]string{tokens: text, policies: shared} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := nodetest.Start(t, func(cfg *node.Config) {
		cert, key := ca.Server()
		cfg.TLS, cfg.Tokens.File, cfg.Policies.File = node.TLS{Cert: cert, Key: key}, tokens, policies
		cfg.RESP.Addr, cfg.RLS.Addr, cfg.RLS.Limits = "127.0.0.1:0", "127.0.0.1:0", rlsLimits(t)
	})
	secure := &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS13}
	transport := &http.Transport{TLSClientConfig: secure}
	t.Cleanup(transport.CloseIdleConnections)
	return &tenants{t, n, secure, &http.Client{Transport: transport}}
}

func tenantToken(name string) string { return "weir_" + name + "_secret" }

// as asks as an identity.
func (w *tenants) as(name, method, path, body string) (status int, answer string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "https://"+w.node.Addr()+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+tenantToken(name))
	request.Header.Set("Content-Type", "application/json")
	got, err := w.http.Do(request)
	if err != nil {
		w.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		w.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// resp sends commands as an identity, and returns all that is answered.
func (w *tenants) resp(name string, commands ...string) string {
	w.Helper()
	conn, err := tls.Dial("tcp", w.node.RESPAddr(), w.tls)
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		w.Fatal(err)
	}
	fmt.Fprintf(conn, "AUTH %s\r\n%s\r\nQUIT\r\n", tenantToken(name), strings.Join(commands, "\r\n"))
	answers, err := io.ReadAll(conn)
	if err != nil {
		w.Fatal(err)
	}
	return string(answers)
}

// envoy asks for a decision of the listener for Envoy.
func (w *tenants) envoy(ip string) (left uint32) {
	w.Helper()
	ctx := metadata.AppendToOutgoingContext(w.Context(), "authorization", "Bearer "+tenantToken("root"))
	left, err := decideAt(ctx, w.T, w.node, credentials.NewTLS(w.tls), "ip", ip)
	if err != nil {
		w.Fatal(err)
	}
	return left
}

// sees is all that an identity can read: every view of every key and limit that it may name, on both listeners.
func (w *tenants) sees(name string, keys, limits []string) string {
	w.Helper()
	var all strings.Builder
	read := func(path string) {
		_, answer := w.as(name, http.MethodGet, path, "")
		fmt.Fprintf(&all, "%s\n%s\n", path, answer)
	}
	for _, path := range []string{"/v1/limits", "/v1/bans", "/v1/limits/who", "/v1/policies", "/v1/keys", "/v1/top", "/v1/top?prefix=limit:", "/v1/views/limits", "/v1/views/overview", "/v1/views/log"} {
		read(path)
	}
	for _, key := range keys {
		read("/v1/count?key=" + url.QueryEscape(key))
		read("/v1/views/key?key=" + url.QueryEscape(key))
	}
	commands := []string{"BANS", "TOP 5m 10", "TOP 5m 10 PREFIX limit:"}
	for _, limit := range limits {
		read("/v1/limits/" + limit + "/keys")
		read("/v1/policies/" + limit)
		read("/v1/views/limits?name=" + limit)
		for _, outcome := range []string{"allowed", "denied"} {
			read("/v1/count?key=limit:" + limit + ":" + outcome)
			commands = append(commands, "COUNT limit:"+limit+":"+outcome+" 5m")
		}
		for _, key := range keys { // errors of changes say what a policy is for
			for _, change := range []string{"POST /v1/bans?for=1h", "DELETE /v1/bans?x", "POST /v1/grants?n=0"} {
				method, path, _ := strings.Cut(strings.TrimSuffix(change, "?x"), " ")
				separator := "?"
				if strings.Contains(path, "?") {
					separator = "&"
				}
				_, answer := w.as(name, method, path+separator+"limit="+limit+"&key="+url.QueryEscape(key), "")
				fmt.Fprintf(&all, "%s\n%s\n", change, answer)
			}
			_, answer := w.as(name, http.MethodDelete, "/v1/limits/"+limit+"/keys/"+url.PathEscape(key), "")
			fmt.Fprintln(&all, answer)
			commands = append(commands, "RESET "+key+" NAME "+limit, "GRANT "+limit+" "+key+" 0 1h", "BAN "+limit+" "+key+" 1h", "UNBAN "+limit+" "+key)
		}
	}
	all.WriteString(w.resp(name, commands...))
	return all.String()
}

// Who puts whatever policy, by name, keys and by: others are not limited by it, and it shows nothing of theirs.
func TestTenants(t *testing.T) {
	t.Parallel()
	w := newTenants(t)
	must := func(name, method, path, body string, want int) string {
		t.Helper()
		status, answer := w.as(name, method, path, body)
		if status != want {
			t.Errorf("%s: %s %s %s: %d %s, want %d", name, method, path, body, status, answer, want)
		}
		return answer
	}
	must("root", http.MethodPut, "/v1/policies/theirs", `{"keys":"b:*","limit":1000,"per":"1h"}`, http.StatusCreated)
	must("root", http.MethodPost, "/v1/bans?limit=theirs&key=b:banned&for=1h", "", http.StatusOK)
	const inline = `{"key":"b:login:bob","limit":{"name":"brought","n":1000,"per":"1h"}}`
	works := func(after string) { // for tenant b, and behind Envoy
		t.Helper()
		for _, ask := range []string{`{"key":"b:login:bob"}`, inline, `{"key":"b:hidden:x"}`, `{"key":"b:both:x"}`} {
			if status, answer := w.as("b", http.MethodPost, "/v1/allow", ask); status != http.StatusOK || strings.Contains(answer, `"remaining":0`) {
				t.Errorf("%s: b asks %s: %d %s", after, ask, status, answer)
			}
		}
		if w.envoy("10.0.0.7") == 0 {
			t.Errorf("%s: a client of Envoy is denied", after)
		}
		must("root", http.MethodDelete, "/v1/limits/rls%2Fedge%2Fip/keys/edge:ip=10.0.0.7", "", http.StatusOK)
	}
	works("at first")
	names := []string{"fresh", "brought", "rls/edge/ip", "inline/brought", "theirs", "shared", "hidden"}
	counted := map[string]int{} // decisions of a that passed, by name
	free := map[string]bool{"fresh": true, "brought": true}
	keys := []string{"a:x", "b:login:bob", "edge:ip=10.0.0.7"}
	for _, name := range names {
		for _, pattern := range []string{"a:*", "a:{u*}", "b:*", "{u*}", "*"} {
			for _, by := range []string{"", "a:{u}", "a:all", "{u}", "a", "both", "b:login:bob", "b:{u}", "edge:ip=10.0.0.7"} {
				if strings.Contains(by, "{") && !strings.Contains(pattern, "{") {
					continue
				}
				what := fmt.Sprintf("a puts %s, keys %q, by %q", name, pattern, by)
				policy := fmt.Sprintf(`{"keys":%q,"by":%q,"limit":1,"per":"1h","deny_for":"1h","order":-1}`, pattern, by)
				if by == "" {
					policy = fmt.Sprintf(`{"keys":%q,"limit":1,"per":"1h","deny_for":"1h","order":-1}`, pattern)
				}
				status, answer := w.as("a", http.MethodPut, "/v1/policies/"+url.PathEscape(name), policy)
				may := free[name] && strings.HasPrefix(pattern, "a:") && (by == "" || strings.HasPrefix(by, "a:"))
				if (status == http.StatusCreated) != may || !may && status != http.StatusForbidden && status != http.StatusBadRequest {
					t.Errorf("%s: %d %s", what, status, answer)
				}
				if may { // and then b brings one of the name along
					if status, answer := w.as("b", http.MethodPost, "/v1/allow", `{"key":"b:login:bob","limit":{"name":"`+name+`","n":1000,"per":"1h"}}`); status != http.StatusOK {
						t.Errorf("%s: b brings a limit of the name: %d %s", what, status, answer)
					}
					if answer := must("a", http.MethodGet, "/v1/limits", "", http.StatusOK); !strings.Contains(answer, fmt.Sprintf(`"allowed":{"lower":%d,`, counted[name])) {
						t.Errorf("%s: it does not count %d of its own alone: %s", what, counted[name], answer)
					}
					counted[name]++
				}
				for range 2 {
					_, _ = w.as("a", http.MethodPost, "/v1/allow", `{"key":"a:x"}`)
				}
				for _, key := range keys[1:] {
					if status, answer := w.as("a", http.MethodPost, "/v1/bans?for=1h&limit="+url.QueryEscape(name)+"&key="+url.QueryEscape(key), ""); status != http.StatusForbidden {
						t.Errorf("%s: a bans %s: %d %s", what, key, status, answer)
					}
				}
				works(what)
				if !may {
					continue
				}
				for _, foreign := range []string{"bob", "b:", "edge", "secret", "both", "hidden"} {
					_, seen, found := strings.Cut(w.sees("a", keys[:1], []string{url.PathEscape(name)}), foreign)
					if found {
						t.Errorf("%s: it sees %s%.200s", what, foreign, seen)
					}
				}
				must("a", http.MethodDelete, "/v1/policies/"+url.PathEscape(name), "", http.StatusOK)
				if answer := must("root", http.MethodGet, "/v1/bans", "", http.StatusOK); strings.Contains(answer, `"key":"a:`) {
					t.Errorf("%s: bans outlive it: %s", what, answer)
				}
			}
		}
	}
	seen := w.sees("a", []string{"a:x", "a:both:x"}, []string{"theirs", "shared", "hidden", "brought", "rls%2Fedge%2Fip"})
	for _, foreign := range []string{"bob", `"b:`, "b:hidden", "edge:", "secret", "banned"} {
		if _, after, found := strings.Cut(seen, foreign); found {
			t.Errorf("a sees %s%.200s", foreign, after)
		}
	}
	var bans struct{ Bans []struct{ Key string } }
	if err := json.Unmarshal([]byte(must("b", http.MethodGet, "/v1/bans", "", http.StatusOK)), &bans); err != nil || !slices.ContainsFunc(bans.Bans, func(b struct{ Key string }) bool { return b.Key == "b:banned" }) {
		t.Errorf("b does not see its ban: %+v, %v", bans, err)
	}
}

// Limits of how many at once are walled in as policies are.
func TestTenantsAtOnce(t *testing.T) {
	t.Parallel()
	w := newTenants(t)
	for by, want := range map[string]int{"a:{job}": http.StatusCreated, "b:{job}": http.StatusForbidden, "b:x": http.StatusForbidden, "{job}": http.StatusForbidden} {
		status, answer := w.as("a", http.MethodPut, "/v1/policies/jobs", fmt.Sprintf(`{"keys":"a:{job}","by":%q,"max":1,"ttl":"30s"}`, by))
		if status != want {
			t.Errorf("by %s: %d %s", by, status, answer)
		}
	}
}
