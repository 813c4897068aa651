package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/testsupport"
)

// The commands of these pages print what stands below them as comments.
func TestDocs(t *testing.T) {
	t.Parallel()
	for name, commands := range map[string]int{ // lines that are no comments
		"README.md":                       6,
		"docs/http.md":                    12,
		"docs/limits.md":                  5,
		"docs/policies.md":                4,
		"docs/quotas.md":                  14,
		"docs/size.md":                    1,
		"docs/tutorials/first-counter.md": 6,
		"docs/tutorials/first-limit.md":   6,
	} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			t.Parallel()
			text := docsPage(t, name)
			s := newScripts(t)
			var flags []string
			if strings.Contains(text, "```yaml\nlimits:") {
				policies := strings.Replace(fenced(t, text, "yaml")[0], "ttl: 30s", "ttl: 5s", 1) // a new server waits for one
				path := s.file("policies.yaml", policies)
				if code, stdout, stderr := weirOf(t, nil, "", "limits", "check", path); code != exitOK {
					t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
				}
				flags = []string{"--policy", path}
			}
			server := startServer(t, flags...)
			s.env = append(s.env, "WEIR_SERVER="+server)
			for _, script := range fenced(t, text, "sh") {
				s.run(strings.ReplaceAll(script, "localhost:8080", server))
			}
			if s.commands != commands {
				t.Errorf("%d commands were run", s.commands)
			}
		})
	}
}

// The commands of the tutorial about clusters do what the page says.
func TestDocsCluster(t *testing.T) {
	t.Parallel()
	s := newScripts(t)
	policies := s.file("policies.yaml", fenced(t, docsPage(t, "docs/tutorials/first-limit.md"), "yaml")[0])
	c := newProcesses(t, "--policy", policies)
	c.start(0, 1, 2)
	nodes := strings.NewReplacer("localhost:8081", c.nodes[0].Load().addr, "localhost:8082", c.nodes[1].Load().addr, "localhost:8083", c.nodes[2].Load().addr)
	for _, script := range fenced(t, docsPage(t, "docs/tutorials/first-cluster.md"), "sh") {
		s.run(nodes.Replace(script))
	}
	if s.commands != 5 {
		t.Errorf("%d commands were run", s.commands)
	}
	c.stop(0, 1, 2)
}

func docsPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fenced returns the blocks of a page that are in a language. A page has at least one.
func fenced(t *testing.T, page, language string) []string {
	t.Helper()
	var blocks []string
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, match[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("no block of %s", language)
	}
	return blocks
}

// scripts runs the commands of a page, in a directory whose bin/weir is this program.
type scripts struct {
	*testing.T
	bash, dir string
	env       []string
	commands  int // that were run
}

func newScripts(t *testing.T) *scripts {
	t.Helper()
	testsupport.Program(t, "curl")
	s := &scripts{T: t, bash: testsupport.Program(t, "bash"), dir: t.TempDir()}
	bin := filepath.Join(s.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	program := s.file("bin/weir", fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", asWeir, os.Args[0]))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder // as the one that docs/tutorials/first-limit.md makes
	for i := range 3000 {
		fmt.Fprintf(&log, "10.0.0.%d - - [03/Nov/2025:00:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 512\n", i*i%97%13, i/300, i/5%60)
	}
	s.file("access.log", log.String())
	s.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "WEIR_TIMEOUT="+transporttest.Patience.String())
	return s
}

func (s *scripts) file(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// run compares what commands print with the comments below them, in which ... stands for any text.
func (s *scripts) run(script string) {
	s.Helper()
	var steps strings.Builder
	var wants [][]string
	for line := range strings.Lines(script) {
		want, isOutput := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "# ")
		switch {
		case isOutput && len(wants) > 0:
			last := &wants[len(wants)-1]
			*last = append(*last, want)
		case strings.TrimSpace(line) == "" || isOutput || strings.HasPrefix(line, "make "):
		default:
			if len(wants) == 0 || len(wants[len(wants)-1]) > 0 {
				fmt.Fprintf(&steps, "printf '%s'\n", nextStep)
				wants = append(wants, nil)
			}
			steps.WriteString(line)
			s.commands++
		}
	}
	cmd := exec.CommandContext(s.Context(), s.bash, "-c", steps.String())
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		s.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)[ \r]+$`).ReplaceAllString(string(out), "")
	outputs := strings.Split(text, nextStep)[1:]
	for i, lines := range wants {
		for _, want := range lines {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `.*`)
			if i >= len(outputs) || !regexp.MustCompile("(?m)^"+pattern+"$").MatchString(outputs[i]) {
				s.Errorf("no line %s in\n%s", want, text)
			}
		}
	}
}

// nextStep is printed before the commands whose output is compared with one group of comments.
const nextStep = "~ ~ ~"
