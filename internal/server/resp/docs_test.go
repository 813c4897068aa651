package resp

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/testsupport"
)

// redisTool runs a program of Debian's redis-tools against s.
func (s *testServer) redisTool(name string, args ...string) string {
	s.Helper()
	path := testsupport.Program(s, name)
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.CommandContext(s.Context(), path, append([]string{"-p", port}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// The commands of docs/resp.md print what the page says.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/resp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	s := newTestServer(t, Config{}, "")
	var output string
	commands := 0
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		if command, isCommand := strings.CutPrefix(line, "redis-cli "); isCommand {
			command, _, _ = strings.Cut(command, " #")
			output = s.redisTool("redis-cli", append([]string{"--no-raw"}, strings.Fields(command)...)...)
			commands++
			continue
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimPrefix(line, "# ")), `\.\.\.`, `.*`)
		if !regexp.MustCompile("(?m)^" + pattern + "$").MatchString(output) {
			t.Errorf("no line %s in\n%s", line, output)
		}
	}
	if commands != 10 {
		t.Errorf("%d commands", commands)
	}
}

// Every command is on the page.
func TestDocsNameEveryCommand(t *testing.T) {
	page, err := os.ReadFile("../../../docs/resp.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newCommands().list {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(strings.ToUpper(c.name)) + `\b`).Match(page) {
			t.Errorf("docs/resp.md has no %s", strings.ToUpper(c.name))
		}
	}
}

// redis-cli reads the documentation of commands, in both versions of the protocol.
func TestRedisCLI(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	for _, version := range []string{"-2", "-3"} {
		for command, want := range map[string]string{
			"PING": "PONG", "HIT a": "1", "CLIENT GETNAME": "", "INFO server": "# Server", "NOPE": "ERR unknown command 'NOPE'", "CONFIG GET save": "save",
			"COMMAND DOCS hit": "Counts n hits of a key (1), now or at a time.",
		} {
			if out := s.redisTool("redis-cli", append([]string{version}, strings.Fields(command)...)...); !strings.Contains(out, want) {
				t.Errorf("%s %s: %q, want %q", version, command, out, want)
			}
		}
	}
}

// redis-benchmark sends pipelines from many connections, and counts the errors.
func TestRedisBenchmark(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	const n = "20000"
	out := s.redisTool("redis-benchmark", "-n", n, "-P", "16", "-c", "20", "-r", "1000", "-q", "-t", "ping,incr,get")
	out += s.redisTool("redis-benchmark", "-n", n, "-P", "16", "-c", "20", "-r", "1000", "-q", "HIT", "key:__rand_int__")
	if f := s.Figures(); f.Failed > 0 || strings.Contains(out, "rror") {
		t.Errorf("%d errors\n%s", f.Failed, out)
	}
	if st, _ := s.service.Stats(access.Caller{}); st.Hits != 20000 {
		t.Errorf("%d hits", st.Hits)
	}
}
