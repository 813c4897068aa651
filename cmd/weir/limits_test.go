package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

const loginPolicies = `limits:
  - name: login
    keys: "login:{user}:*"
    by: "login:{user}"
    limit: 2
    per: 1h
`

// policyFile writes a policy file that the test may write again.
func policyFile(t *testing.T, text string) (path string, write func(text string)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "policies.yaml")
	write = func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	return path, write
}

// soon is a table that was printed within a minute as if no second had passed: of what begins with an hour, that is left.
func soon(table string) string {
	return manySpaces.ReplaceAllString(hourLeft.ReplaceAllString(table, "1h"), " ")
}

var hourLeft, manySpaces = regexp.MustCompile("59m([0-9]+s)?"), regexp.MustCompile(" +")

func TestLimitVerbs(t *testing.T) {
	t.Parallel()
	path, _ := policyFile(t, loginPolicies)
	server := startServer(t, "--policy", path)
	env := map[string]string{"WEIR_SERVER": server}
	for _, step := range []struct {
		args string
		code int
		want string // in stdout
	}{
		{"allow login:bob:x", exitOK, "allowed\nLIMIT  KEY        LEFT  OF  RESET  \nlogin  login:bob  1     2   1h     \n"},
		{"allow login:bob:x 2 --limit login", exitDenied, "denied, again in "},
		{"allow login:bob:x --limit login --peek", exitOK, "allowed\n"},
		{"allow login:bob:x --json", exitOK, `"remaining": 0`},
		{"allow login:bob:x --json", exitDenied, `"allowed": false`},
		{"allow login:cat:x --cost tokens=1 --peek", exitOK, "login:cat  2     2"},
		{"allow other", exitOK, "allowed: no policy matches this key\n"},
		{"allow other --require-match", exitFailure, ""},
		{"allow other --require-match --json", exitFailure, `"unmatched": true`},
		{"allow login:eve:x --require-match --peek", exitOK, "allowed"},
		{"allow a --n 1 --per 1h --algorithm gcra", exitOK, "inline/gcra/1h  a    0     1   1h"},
		{"allow a --n 2 --per 1h --burst 1 --algorithm gcra", exitDenied, "denied, again in "},
		{"limits", exitOK, "NAME   KEYS                            LIMIT  MODE     ALLOWED  DENIED\nlogin  login:{user}:* by login:{user}  2/1h   enforce  2        2\nALLOWED and DENIED are of the last 5m\n" + path + ", read at "},
		{"limits --json --window 1m", exitOK, `"window_s": 60`},
		{"limits keys login", exitOK, "USED  OF  SHARE  RESET  KEY\n2     2   100 %  1h     login:bob\n"},
		{"limits keys login --json -n 1", exitOK, `"key": "login:bob"`},
		{"limits who", exitOK, "DENIED  SINCE "},
		{"limits who --prefix login: --limit login --json", exitOK, `"denied": 2`},
		{"limits who --prefix nobody", exitOK, "nobody is limited now\n"},
		{"why 0123456789abc", exitFailure, ""},
		{"top --prefix limit:login", exitOK, "limit:login:denied"},
		{"top", exitOK, "no key had hits in the last 5m"},
		{"keys", exitOK, ""},
		{"count", exitOK, "*    5m      0\n"},
		{"count --window 1000d", exitOK, "*    1000d   0 or more\n"},
	} {
		code, stdout, stderr := weirOf(t, env, "", strings.Fields(step.args)...)
		if code != step.code || !strings.Contains(soon(stdout), soon(step.want)) || code == exitDenied && stderr != "" {
			t.Errorf("weir %s: exit %d\n%s%s\nwant %d, %s", step.args, code, stdout, stderr, step.code, step.want)
		}
		if strings.Contains(step.args, "--json") && !json.Valid([]byte(stdout)) {
			t.Errorf("weir %s: not JSON: %s", step.args, stdout)
		}
	}
}

// After a change of the file keys are listed under their new limit; an invalid file's errors are listed a line each.
func TestLimitsAfterChanges(t *testing.T) {
	t.Parallel()
	path, write := policyFile(t, loginPolicies)
	server := startServer(t, "--policy", path)
	mustWeir(t, exitOK, "", "allow", "login:bob:x", "--server", server)
	mustWeir(t, exitOK, "", "allow", "login:eve:x", "--server", server)
	write(strings.ReplaceAll(loginPolicies, "limit: 2", "limit: 4") + "    overrides: [{key: \"login:eve\", limit: 10}]\n")
	transporttest.Eventually(t, "the new limits of both keys", func() bool {
		got := soon(mustWeir(t, exitOK, "", "limits", "keys", "login", "--server", server))
		return strings.Contains(got, "1 4 25 % 1h login:bob") && strings.Contains(got, "1 10 10 % 1h login:eve")
	})
	write(strings.ReplaceAll(loginPolicies, "limit: 2\n    per: 1h", "limt: 2\n    pr: 1h"))
	transporttest.Eventually(t, "an error on each line", func() bool {
		got := mustWeir(t, exitOK, "", "limits", "--server", server)
		return strings.Contains(got, path+":5: limt") && strings.Contains(got, "\n"+path+":6: pr: ") && !strings.Contains(got, `\n`)
	})
}

// limits check says what ranges do to a key, and limits replay decides by them.
func TestLimitRanges(t *testing.T) {
	t.Parallel()
	path, _ := policyFile(t, "limits:\n  - {name: a, keys: \"ip:{ip*}\", limit: 1, per: 1h, except: [10.0.0.0/8], overrides: [{cidr: 10.1.0.0/16, limit: 2}, {cidr: 192.0.2.0/24, limit: 3}]}\n")
	got := soon(mustWeir(t, exitOK, "", "limits", "check", path, "ip:10.0.0.1", "ip:10.1.0.1", "ip:192.0.2.7", "ip:198.51.100.1"))
	for _, want := range []string{"ip:10.0.0.1 a - - no limit: except 10.0.0.0/8", "ip:10.1.0.1 a ip:10.1.0.1 2/1h enforce override of 10.1.0.0/16", "ip:192.0.2.7 a ip:192.0.2.7 3/1h", "ip:198.51.100.1 a ip:198.51.100.1 1/1h enforce"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if got := soon(mustWeir(t, exitOK, "", "limits", "check", path)); !strings.Contains(got, "overrides: 2 except: 1") {
		t.Errorf("%s", got)
	}
	log := ""
	for range 5 {
		for _, ip := range []string{"10.0.0.1", "10.1.0.1", "192.0.2.7", "198.51.100.1"} {
			log += ip + " - - [21/Nov/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 7\n"
		}
	}
	got = mustWeir(t, exitOK, log, "limits", "replay", "--policy", path, "--json", "--key", "ip:{host}", "-")
	if !strings.Contains(got, `"denied": 9,`) {
		t.Errorf("%s", got)
	}
}

func TestLimitExitCodes(t *testing.T) {
	t.Parallel()
	good, _ := policyFile(t, loginPolicies)
	bad, _ := policyFile(t, strings.ReplaceAll(loginPolicies, "limit: 2", "limt: 2"))
	loose, _ := policyFile(t, "limits:\n  - name: address\n    keys: \"ip:{addr}\"\n    limit: 5\n    per: 1m\n")
	for _, test := range []struct {
		args string
		code int
		want string // in stderr
	}{
		{"limits check " + good, exitOK, ""},
		{"limits check " + bad, exitFailure, bad + ":5: limt: unknown field, did you mean limit?"},
		{"limits check " + bad + ".none", exitFailure, "no such file"},
		{"limits check " + filepath.Dir(bad), exitFailure, "not a regular file"},
		{"limits check", exitUsage, "weir limits check needs FILE"},
		{"limits check " + good + " login:bob", exitOK, ""},
		{"limits check " + loose, exitOK, "warning: " + loose + ":2: keys: \"ip:{addr}\": {addr} ends at a `:`"},
		{"limits chek", exitUsage, "unknown command"},
		{"limits keys", exitUsage, "weir limits keys needs NAME"},
		{"allow", exitUsage, "weir allow needs KEY"},
		{"allow " + strings.Repeat("a", 513), exitUsage, "a KEY of 513 bytes"},
		{"allow a 0", exitUsage, `wrong N "0"`},
		{"allow a --cost tokens", exitUsage, `wrong --cost "tokens"`},
		{"allow a --cost t=1 --cost t=1", exitUsage, "each name once"},
		{"allow a --n 5", exitUsage, "needs both --n and --per"},
		{"allow a --burst 5", exitUsage, "need --n and --per"},
		{"allow a --server 127.0.0.1:1", exitFailure, "or name it with --server\n"},
		{"replay --key ip:{host} --to 127.0.0.1:1 " + writeFile(t, "access.log", accessLog()), exitFailure, "or name it with --to\n"},
		{"serve --ephemeral --policy " + bad, exitFailure, bad + ":5: limt"},
		{"serve --ephemeral --policy " + bad + ".none", exitFailure, "no such file"},
		{"serve --ephemeral --limit-memory 1KiB", exitUsage, "--limit-memory"},
	} {
		code, stdout, stderr := weirOf(t, nil, "", strings.Fields(test.args)...)
		if code != test.code || !strings.Contains(stderr, test.want) {
			t.Errorf("weir %s: exit %d, %q; want %d, %q", test.args, code, stderr, test.code, test.want)
		}
		if strings.HasSuffix(test.args, "--json") && !json.Valid([]byte(stdout)) {
			t.Errorf("weir %s: not JSON: %s", test.args, stdout)
		}
	}
}

// Limits of how many at once are among the policies.
func TestLimitsAtOnce(t *testing.T) {
	t.Parallel()
	path, _ := policyFile(t, loginPolicies+"  - {name: jobs, keys: \"job:*\", max: 3, ttl: 10s}\n")
	server := startServer(t, "--policy", path)
	if got := mustWeir(t, exitOK, "", "limits", "--server", server); !strings.Contains(squeezed(got), "jobs job:* 3 at once, ttl 10s permits 0 held of 0 keys") {
		t.Error(got)
	}
	if got := mustWeir(t, exitOK, "", "limits", "check", path); !strings.Contains(squeezed(got), "jobs job:* 3 at once, ttl 10s permits") {
		t.Error(got)
	}
	if got := mustWeir(t, exitOK, "", "limits", "check", path, "job:1"); !strings.Contains(squeezed(got), "job:1 jobs job:1 3 at once, ttl 10s permits") {
		t.Error(got)
	}
}

// What a policy does in addition to its limit is listed, by a server and of a file.
func TestLimitsActs(t *testing.T) {
	t.Parallel()
	path, _ := policyFile(t, `limits:
  - {name: mail, keys: "mail:{to}", limit: 5, per: 1s, wait: 290ms, where: node}
  - {name: tpm, keys: "llm:{team}", limit: 9, per: 1m, cost: tokens, deny_for: 10m, where: node}
`)
	server := startServer(t, "--policy", path)
	for _, command := range []string{"limits --server " + server, "limits check " + path} {
		got := squeezed(mustWeir(t, exitOK, "", strings.Fields(command)...))
		for _, want := range []string{"mail mail:{to} 5/1s enforce, node, wait: 290ms", "tpm llm:{team} 9/1m enforce, node, cost: tokens, deny_for: 10m"} {
			if !strings.Contains(got, want) {
				t.Errorf("weir %s: no %s in\n%s", command, want, got)
			}
		}
	}
	got := mustWeir(t, exitOK, "", "limits", "--server", server, "--json")
	for _, want := range []string{`"wait_s": 0.29`, `"cost": "tokens"`, `"deny_for_s": 600`} {
		if !strings.Contains(got, want) {
			t.Errorf("weir limits --json: no %s in\n%s", want, got)
		}
	}
	mustWeir(t, exitOK, "", "allow", "llm:7", "--cost", "tokens=9", "--cost", "calls=1", "--server", server)
	mustWeir(t, exitDenied, "", "allow", "llm:7", "--cost", "tokens=5", "--server", server)
	if got := mustWeir(t, exitOK, "", "limits", "unban", "tpm", "llm:7", "--server", server); !strings.Contains(got, "'weir limits reset' also restores the burst") {
		t.Error(got)
	}
	mustWeir(t, exitOK, "", "limits", "ban", "tpm", "llm:8", "--for", "1m", "--server", server)
	if got := mustWeir(t, exitOK, "", "limits", "unban", "tpm", "llm:8", "--server", server); strings.Contains(got, "reset") {
		t.Error("a warning where the limit is not full:", got)
	}
}

func TestLimitsCheck(t *testing.T) {
	path, _ := policyFile(t, loginPolicies+"    overrides: [{key: \"login:root\", limit: 7}]\n")
	for _, test := range []struct{ args, stdin, want string }{
		{"limits check " + path, "", "overrides: 1"},
		{"limits check -", loginPolicies, "the file is valid"},
		{"limits check " + path + " login:bob:x login:root:x other login:a/b:x", "", "KEY            POLICY                                    COUNTS      LIMIT  MODE\n" +
			"login:bob:x    login                                     login:bob   2/1h   enforce\n" +
			"login:root:x   login                                     login:root  7/1h   enforce\n" +
			"other          -  -  -  no policy matches: no limit\n" +
			"login:a/b:x    -  -  -  no policy matches: no limit; it looks like login:{user}:* of login, but {name} holds no : and /, write {name*}\n"},
	} {
		code, stdout, stderr := weirOf(t, nil, test.stdin, strings.Fields(test.args)...)
		if code != exitOK || !strings.Contains(squeezed(stdout), squeezed(test.want)) {
			t.Errorf("weir %s: exit %d\n%s%s", test.args, code, stdout, stderr)
		}
	}
	code, stdout, _ := weirOf(t, nil, "", "limits", "check", "--help")
	_, example, _ := strings.Cut(stdout, "\n  limits:\n")
	example, _, _ = strings.Cut("  limits:\n"+example, "\n\n")
	if code, stdout, stderr := weirOf(t, nil, example, "limits", "check", "-"); code != exitOK {
		t.Errorf("the example of --help: %s%s", stdout, stderr)
	}
	if code != exitOK {
		t.Errorf("--help: exit %d", code)
	}
}

// squeezed has one space where there are many: how wide columns are is not what counts.
func squeezed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// A SIGHUP reads the file again. A bad one leaves the policies as they are, and is reported
// in the log and by the server; a good one is in use without a fresh allowance.
func TestHangup(t *testing.T) {
	t.Parallel()
	path, write := policyFile(t, loginPolicies)
	p := startProcess(t, t.TempDir(), "--policy", path)
	env := map[string]string{"WEIR_SERVER": p.addr}
	hangup := func(want string) {
		t.Helper()
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		transporttest.Eventually(t, "weir limits says "+want, func() bool {
			_, stdout, _ := weirOf(t, env, "", "limits", "--json")
			return strings.Contains(stdout, want)
		})
	}
	allow := func(want int) {
		t.Helper()
		if code, stdout, stderr := weirOf(t, env, "", "allow", "login:bob:x"); code != want {
			t.Errorf("exit %d, want %d\n%s%s", code, want, stdout, stderr)
		}
	}
	allow(exitOK)
	allow(exitOK)
	allow(exitDenied)
	write(strings.ReplaceAll(loginPolicies, "limit: 2", "limit: many"))
	hangup(fmt.Sprintf(`%s:5: limit: `, path))
	allow(exitDenied)
	write(strings.ReplaceAll(loginPolicies, "limit: 2", "limit: 3"))
	hangup(`"limit": 3`)
	allow(exitOK) // the third of three
	allow(exitDenied)
	write(strings.ReplaceAll(loginPolicies, "name: login", "name: logon") + "  - {name: jobs, keys: \"job:*\", max: 2}\n")
	hangup(`"logon"`)
	log, err := p.end(t, syscall.SIGTERM)
	if err != nil {
		t.Errorf("it ended with %v:\n%s", err, log)
	}
	for _, want := range []string{`"level":"ERROR","msg":"policy file","problem":"` + path + `:5: limit: `, `the policies in use stay`, `"msg":"policies are in use","file":"` + path + `","policies":2}`,
		`"msg":"a policy that keys have used is no longer in the file`, `"policy":"login","keys_in_use":1`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in the log:\n%s", want, log)
		}
	}
}

// Without a policy file a SIGHUP asks for nothing, says so, and ends nothing.
func TestHangupWithoutPolicies(t *testing.T) {
	t.Parallel()
	p := startProcess(t, t.TempDir())
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := weirOf(t, map[string]string{"WEIR_SERVER": p.addr}, "", "hit", "a", "--durable"); code != exitOK {
		t.Errorf("after a SIGHUP: exit %d, %s", code, stderr)
	}
	log, err := p.end(t, syscall.SIGTERM)
	if err != nil || !strings.Contains(log, "SIGHUP ignored: there is no --policy") {
		t.Errorf("it ended with %v:\n%s", err, log)
	}
}
